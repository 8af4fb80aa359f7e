"""Good acyclic splits fast: slice topological orders, then orders that respect the stages found.

A re-linearised order sorts by stage first, so the split it came from stays representable and slicing it again never
gives worse; fusing the keys of neighbouring stages lets their boundary move. Source of slicing: pipelined inference
(ICML 2024), §4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partita.kernels.throughput.arrays import Floats, Ints, Longs
from partita.problems.throughput.solvers.prepared import Prepared, Split

__all__ = ["Incumbent", "Slicer"]

#: A decision about an order may cost this many (left, right) pairs in all before rounds are cut short.
EFFORT = 4e9


class Slicer:
    """Slices orders of one problem."""

    def __init__(self, prepared: Prepared, stop: Longs) -> None:
        self.prepared, self.stop = prepared, stop
        n, codes = prepared.items, prepared.codes
        self.fewest = np.zeros((n + 1, codes), dtype=np.int32)
        self.back_from = np.zeros((n + 1, codes), dtype=np.int32)
        self.back_kind = np.zeros((n + 1, codes), dtype=np.int8)
        a = prepared.arrays
        finite = np.where(np.isfinite(a.work), a.work, 0.0).max(axis=0)
        #: No load can exceed this.
        self.most = float(finite.sum() + a.net_cost.max(axis=0).sum()) * (1 + 1e-9) + 1e-30

    def decide(self, order: Ints, target: float) -> Split | None:
        """Stages of load at most ``target`` along the order, None if there are none (or the run stops)."""
        from partita.kernels.throughput.slicing import slice_order

        p = self.prepared
        found = slice_order(
            p.arrays,
            order,
            target,
            p.stride,
            p.digit_sum,
            p.digits,
            self.fewest,
            self.back_from,
            self.back_kind,
            self.stop,
        )
        if not found:
            return None
        devices = np.where(self.fewest[-1] < (1 << 30), self.fewest[-1] + p.digit_sum, 1 << 30)
        end, code = p.items, int(devices.argmin())
        stages: Split = []
        while end > 0:
            kind, start = int(self.back_kind[end, code]), int(self.back_from[end, code])
            stages.append((kind, np.sort(order[start:end])))
            code -= int(p.stride[kind])
            end = start
        stages.reverse()
        return stages

    def best(self, order: Ints, low: float, below: float, tolerance: float = 3e-4) -> tuple[float, Split] | None:
        """The best slicing with a bottleneck under ``below``, None if there is none; ``low`` is a lower bound."""
        floor, split = low, None
        top, step = min(below * (1 - 1e-9), self.most), 0.05
        if below == float("inf"):
            # Large targets are slow: feel the way up.
            while split is None and floor < top and self.stop[0] == 0:
                split = self.decide(order, min(top, low * (1 + step)))
                if split is None:
                    floor = min(top, low * (1 + step)) if low > 0 else top
                    step *= 4
        if split is None and floor < top:
            split = self.decide(order, top)
        if split is None:
            return None
        value, best = float(self.prepared.loads(split).max()), split
        step = 0.02
        while step >= tolerance and self.stop[0] == 0:
            target = value * (1 - step)
            found = self.decide(order, target) if target > floor else None
            if found is None:
                floor = max(floor, target)
                step /= 4
            else:
                value, best = float(self.prepared.loads(found).max()), found
        for _ in range(3):
            found = self.decide(order, value * (1 - 1e-9)) if value > low and self.stop[0] == 0 else None
            if found is None:
                break
            value, best = float(self.prepared.loads(found).max()), found
        return value, best


class Incumbent:
    """The best split so far, with the heuristic that improves it.

    Parameters
    ----------
    prepared
        The problem.
    low
        Lower bound on the objective: reaching it ends the search.
    seed
        Seed of the random orders.
    stop
        Shared flag; non-zero ends all work soon.
    report
        Called with every improvement.
    """

    def __init__(
        self, prepared: Prepared, low: float, seed: int, stop: Longs, report: Callable[[float, Split], None]
    ) -> None:
        self.prepared, self.low, self.stop, self.report = prepared, low, stop, report
        self.random = np.random.default_rng(seed)
        self.slicer = Slicer(prepared, stop)
        self.value = float("inf")
        self.split: Split | None = None
        n = prepared.items
        per_decision = n * max(1.0, n / max(1, prepared.device_count)) * (2 + 0.2 * prepared.codes)
        #: Orders worth trying: fewer where one decision is expensive.
        self.rounds = int(min(40, max(3, EFFORT / 20 / per_decision)))

    def offer(self, value: float, split: Split) -> bool:
        """Take a split if it is better."""
        if value >= self.value:
            return False
        self.value, self.split = value, split
        self.report(value, split)
        return True

    @property
    def done(self) -> bool:
        """Whether nothing better can exist, or the run stops."""
        return self.value <= self.low * (1 + 1e-9) or bool(self.stop[0] != 0)

    def order(self, mode: int, stage: Longs | None = None) -> Ints:
        """A random topological order; see ``partita.kernels.throughput.slicing.linearise``."""
        from partita.kernels.throughput.slicing import linearise

        n = self.prepared.items
        order = np.empty(n, dtype=np.int32)
        key: Floats = self.random.random(n)
        linearise(self.prepared.arrays, np.zeros(n, dtype=np.int64) if stage is None else stage, key, mode, order)
        return order

    def try_order(self, order: Ints) -> bool:
        """Slice an order; whether it gave a better split."""
        found = self.slicer.best(order, self.low, self.value)
        return found is not None and self.offer(*found)

    def start(self) -> None:
        """Slice topological orders of several kinds, then improve."""
        n = self.prepared.items
        self.try_order(np.arange(n, dtype=np.int32))
        for number in range(self.rounds):
            if self.done:
                return
            self.try_order(self.order((1, 2, 0)[number % 3]))
        if self.split is not None:
            self.improve(self.rounds * 2)

    def improve(self, rounds: int) -> bool:
        """Re-linearise by stage and slice again until ``rounds`` attempts in a row give nothing."""
        better, since, number = False, 0, 0
        while since < rounds and not self.done and self.split is not None:
            stage = np.empty(self.prepared.items, dtype=np.int64)
            for place, (_, items) in enumerate(self.split):
                stage[items] = place
            fuse = number % 4
            if fuse:
                # Fuse neighbours: pairs from an even or an odd start, or triples.
                width = 3 if fuse == 3 else 2
                stage = (stage + number // 4 % width) // width
            number += 1
            if self.try_order(self.order((2, 1, 0)[int(self.random.integers(3))], stage)):
                better, since = True, 0
            else:
                since += 1
        return better

    def anneal(self, trials: int) -> bool:
        """Anneal from the best split, then slice what comes out; whether it gave a better one."""
        from partita.kernels.throughput.anneal_acyclic import anneal

        a = self.prepared.arrays
        if self.split is None or self.done or (a.limited and (a.recompute or self.prepared.backwards)):
            return False
        stages, m = len(self.split), a.net_ptr.shape[0] - 1
        if stages < 2 or stages * m > 20_000_000:
            return False
        before = self.value
        for power, start, end in ((12.0, 0.3, 0.003), (30.0, 0.05, 0.002)):
            label = np.empty(self.prepared.items, dtype=np.int32)
            for place, (_, items) in enumerate(self.split):
                label[items] = place
            kind = np.array([kind for kind, _ in self.split], dtype=np.int32)
            seed = int(self.random.integers(1 << 30))
            anneal(a, label, kind, self.value, power, start, end, trials // 2, seed, self.stop)
            # Slicing takes it only if it is better, and checks all of memory.
            order = self.order(1, label.astype(np.int64))
            if self.try_order(order):
                self.improve(6)
        return self.value < before
