"""Good splits of variants fast: slice topological orders, then orders that respect the stages found.

As ``problems.throughput.solvers.incumbent``. Under GPipe's objective a target T is tried as a few boxes a + b = T: at
the shares of forward load of the best split so far, of all work, and nearby.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partita.kernels.throughput.arrays import Floats, Ints, Longs
from partita.problems.throughput.solvers.variants.decision import SLACK
from partita.problems.throughput.solvers.variants.prepared import Split, VariantPrepared
from partita.problems.throughput.solvers.variants.remaining_capacity import LowerBounds

__all__ = ["VariantIncumbent"]

#: A decision about an order may cost this many (left, right) pairs in all before rounds are cut short.
EFFORT = 2e9

#: Shares of T that the forward phase gets, as factors on the share expected.
SHARES = (1.0, 0.97, 1.03, 0.9, 1.1)


class VariantIncumbent:
    """The best split so far, with the heuristic that improves it.

    Parameters
    ----------
    views
        The problem as it is searched in the first direction, once for each order of its groups.
    low
        Lower bounds.
    seed
        Seed of the random orders.
    stop
        Shared flag; non-zero ends all work soon.
    report
        Called with every improvement: objective, view and split.
    """

    def __init__(
        self,
        views: list[VariantPrepared],
        low: LowerBounds,
        seed: int,
        stop: Longs,
        report: Callable[[float, VariantPrepared, Split], None],
    ) -> None:
        self.views, self.low, self.stop, self.report = views, low, stop, report
        self.random = np.random.default_rng(seed)
        self.value = float("inf")
        self.best: tuple[VariantPrepared, Split] | None = None
        p = views[0]
        n, lines = p.items, p.lines
        able = np.where(lines.can != 0, 1.0, 0.0)
        #: No objective can exceed this: everything on one device, every net cut, everything reloaded and synchronised.
        over = (p.arrays.fixed.sum() + p.arrays.cover_fixed.sum()) + lines.flights.max() * (
            p.arrays.active.sum() + p.arrays.cover_active.sum() + p.arrays.net_entering.sum()
        )
        over += p.peaks.most if p.ordered else p.arrays.workspace.max(initial=0.0)
        sync = float((lines.sync.sum() + lines.cover_sync.sum()) * lines.sync_time.max(initial=0.0))
        most = float((lines.work * able[:, :, None]).sum(axis=1).max())
        most += float(lines.cost_in.sum(axis=1).max() + lines.cost_out.sum(axis=1).max())
        most += float(lines.group_in.sum(axis=1).max() + lines.group_out.sum(axis=1).max())
        most += float(over) * float(lines.reload_time.max(initial=0.0)) + sync
        self.most = most * (2 if p.shape.gpipe else 1) * (1 + 1e-9) + 1e-30
        self.share = 0.5
        if p.shape.gpipe:
            self.share = low.forward / max(low.forward + low.backward, 1e-300)
        per_decision = n * max(1.0, n / max(1, int(p.arrays.devices.sum()))) * (2 + 0.3 * p.codes) * len(p.shape.limit)
        #: Orders worth trying: fewer where one decision is expensive.
        self.rounds = int(min(30, max(3, EFFORT / 20 / per_decision)))

    @property
    def done(self) -> bool:
        """Whether nothing better can exist, or the run stops."""
        return self.value <= self.low.both * (1 + 1e-9) or bool(self.stop[0] != 0)

    def offer(self, view: VariantPrepared, split: Split) -> bool:
        """Take a split if it is better."""
        value, forward, _ = view.value(split)
        if value >= self.value:
            return False
        self.value, self.best = value, (view, split)
        if view.shape.gpipe and value > 0:
            self.share = forward / value
        self.report(value, view, split)
        return True

    def _decide(self, view: VariantPrepared, order: Ints, target: float) -> Split | None:
        """Stages of objective at most ``target`` along the order, None if none are found (or the run stops)."""
        if not view.shape.gpipe:
            return self._slice(view, order, (target, np.inf, np.inf))
        # What is best for the sum of both loads is often best here; if not, it shows which share to try.
        split = self._slice(view, order, (target, np.inf, np.inf))
        if split is None:
            return None
        objective, first, _ = view.value(split)
        if objective <= target:
            return split
        for share in (first / objective, *(self.share * factor for factor in SHARES)):
            forward = min(max(target * share, self.low.forward), target - self.low.backward)
            split = self._slice(view, order, (target, forward, target - forward)) if forward >= 0 else None
            if split is not None:
                return split
        return None

    def _slice(self, view: VariantPrepared, order: Ints, limits: tuple[float, float, float]) -> Split | None:
        from partita.kernels.throughput.variant_slicing import slice_variant

        p = view
        fewest, back_from, back_replicas = (np.zeros((p.items + 1, p.codes), dtype=np.int32) for _ in range(3))
        back_kind = np.zeros((p.items + 1, p.codes), dtype=np.int8)
        if not slice_variant(
            p.arrays,
            p.lines,
            p.peak_arrays,
            order,
            p.shape.limits(*limits) * (1 + SLACK),
            p.stride,
            p.digit_sum,
            p.digits,
            p.phases,
            fewest,
            back_from,
            back_kind,
            back_replicas,
            self.stop,
        ):
            return None
        devices = np.where(fewest[-1] < (1 << 30), fewest[-1] + p.digit_sum, 1 << 30)
        end, code = p.items, int(devices.argmin())
        stages: Split = []
        while end > 0:
            kind, start = int(back_kind[end, code]), int(back_from[end, code])
            replicas = int(back_replicas[end, code])
            items = order[start:end]
            stages.append((kind, replicas, items.copy() if p.ordered else np.sort(items)))
            code -= int(p.stride[kind]) * replicas
            end = start
        return stages[::-1]

    def try_order(self, view: VariantPrepared, order: Ints, tolerance: float = 3e-4) -> bool:
        """Slice an order as well as possible; whether it gave a better split."""
        low, better = self.low.both, False
        if self.best is None:
            # Large targets are slow: feel the way up.
            step, target = 0.05, low * 1.05
            while self.best is None and self.stop[0] == 0:
                split = self._decide(view, order, min(target, self.most))
                if split is not None:
                    better = self.offer(view, split)
                elif target >= self.most:
                    return False
                step *= 4
                target = low * (1 + step) if low > 0 and step < 1e9 else self.most
        elif (split := self._decide(view, order, self.value * (1 - 1e-9))) is not None:
            better = self.offer(view, split)
        if not better:
            return False
        step = 0.02
        while step >= tolerance and self.stop[0] == 0:
            target = self.value * (1 - step)
            found = self._decide(view, order, target) if target > low else None
            if found is None or not self.offer(view, found):
                step /= 4
        return True

    def order(self, view: VariantPrepared, mode: int, stage: Longs | None = None) -> Ints:
        """A random topological order; see ``partita.kernels.throughput.slicing.linearise``."""
        from partita.kernels.throughput.slicing import linearise

        n = view.items
        order = np.empty(n, dtype=np.int32)
        key: Floats = self.random.random(n)
        linearise(view.arrays, np.zeros(n, dtype=np.int64) if stage is None else stage, key, mode, order)
        return order

    def start(self) -> None:
        """Slice topological orders of several kinds, then improve."""
        for view in self.views:
            self.try_order(view, np.arange(view.items, dtype=np.int32))
        for number in range(self.rounds):
            for view in self.views:
                if self.done:
                    return
                self.try_order(view, self.order(view, (1, 2, 0)[number % 3]))
        self.improve(self.rounds * 2)

    def improve(self, rounds: int) -> bool:
        """Re-linearise by stage and slice again until ``rounds`` attempts in a row give nothing."""
        better, since, number = False, 0, 0
        while since < rounds and not self.done and self.best is not None:
            view, split = self.best
            stage = np.empty(view.items, dtype=np.int64)
            for place, (_, _, items) in enumerate(split):
                stage[items] = place
            fuse = number % 4
            if fuse:
                # Fuse neighbours: pairs from an even or an odd start, or triples.
                width = 3 if fuse == 3 else 2
                stage = (stage + number // 4 % width) // width
            number += 1
            if self.try_order(view, self.order(view, (2, 1, 0)[int(self.random.integers(3))], stage)):
                better, since = True, 0
            else:
                since += 1
        return better
