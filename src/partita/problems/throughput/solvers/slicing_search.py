"""Good acyclic splits fast: slice topological orders, then orders that respect the stages found.

A re-linearised order sorts by stage first, so the split it came from stays representable and slicing it again never
gives worse; fusing the keys of neighbouring stages lets their boundary move. Under GPipe's objective a target T is
tried as a few boxes a + b = T: at the shares of forward load of the best split so far, of all work, and nearby.

Source of slicing: pipelined inference (ICML 2024), §4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.random import generator
from partita.engines.kernels.throughput.arrays import SliceTable
from partita.engines.kernels.throughput.free_splits import empty_state, reset, stages_as_devices
from partita.engines.kernels.throughput.linear_orders import order_by
from partita.engines.kernels.throughput.split_annealing import SplitMemory, anneal_acyclic
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import GAP, clearly_below, up_to
from partita.problems.throughput.solvers.view import PhaseLoads, SearchView, Split, SplitStage, ViewedSplit

#: Items above which orders are few, and targets are approached from close below: slicing takes longer the more slack.
LARGE = 3_000
#: First steps from below towards the best slicing, relative.
STEP, SMALL_STEP = 0.05, 0.001
#: Decisions that an order may take.
DECISIONS = 20
#: Shares of T that the forward phase gets, as factors on the share expected.
SHARES = (1.0, 0.97, 1.03, 0.9, 1.1)


class OrderSlicer:
    """Slices orders of one view; no target is below the lower bounds, and a raised ``stop`` ends all work soon.

    ``share`` is the part of the objective that the forward phase is expected to take, for GPipe's.
    """

    def __init__(self, view: SearchView, low: PhaseLoads, stop: Longs) -> None:
        self.view, self.low, self.stop = view, low, stop
        self.share = low.forward / max(low.forward + low.backward, 1e-300)
        shape = (view.items + 1, len(view.codes.digits))
        fewest, start, replicas = np.zeros((3, *shape), dtype=np.int32)
        self.table = SliceTable(fewest, start, np.zeros(shape, dtype=np.int8), replicas)

    def decide(self, order: Ints, target: float) -> Split | None:
        """Stages of objective at most ``target`` along the order, None if none are found (or the run stops)."""
        split = self._slice(order, PhaseLoads(target))
        if split is None or not self.view.gpipe:
            return split
        # What is best for the sum of both loads is often best here; if not, it shows which share to try.
        objective, first, _ = self.view.value(split)
        if objective <= target:
            return split
        for share in (first / objective, *(self.share * factor for factor in SHARES)):
            forward = min(max(target * share, self.low.forward), target - self.low.backward)
            split = self._slice(order, PhaseLoads(target, forward, target - forward)) if forward >= 0 else None
            if split is not None:
                return split
        return None

    def _slice(self, order: Ints, limits: PhaseLoads) -> Split | None:
        view, table = self.view, self.table
        if not view.slice(order, limits, table, self.stop):
            return None
        devices = np.where(table.fewest[-1] < (1 << 30), table.fewest[-1] + view.codes.digit_sum, 1 << 30)
        end, code = view.items, int(devices.argmin())
        stages: Split = []
        while end > 0:
            pool, start, replicas = (int(row[end, code]) for row in (table.kind, table.start, table.replicas))
            items = order[start:end]
            stages.append(SplitStage(pool, replicas, items.copy() if view.ordered else np.sort(items)))
            code -= int(view.codes.stride[pool]) * replicas
            end = start
        return stages[::-1]

    def best(
        self, order: Ints, below: float = math.inf, tolerance: float = 3e-4, tries: float = 3
    ) -> tuple[float, Split] | None:
        """The best slicing with an objective under ``below``, None if there is none; so many ``tries`` end it."""
        low = floor = self.low.both
        split = None
        top, step = min(clearly_below(below), self.view.most), SMALL_STEP if self.view.items > LARGE else STEP
        if below == math.inf and low > 0:
            # Large targets are slow: feel the way up.
            while split is None and floor < top and self.stop[0] == 0:
                split = self.decide(order, min(top, low * (1 + step)))
                if split is None:
                    floor = min(top, low * (1 + step))
                    step *= 4
        if split is None and floor < top:
            split = self.decide(order, top)
        if split is None:
            return None
        value, best = self.view.value(split).both, split
        step = 0.02
        while step >= tolerance and self.stop[0] == 0:
            target = value * (1 - step)
            found = self._better(order, target, value) if target > floor else None
            if found is None:
                floor = max(floor, target)
                step /= 4
            else:
                value, best = found
        while tries > 0 and value > low and self.stop[0] == 0:
            found = self._better(order, clearly_below(value), value)
            if found is None:
                break
            value, best = found
            tries -= 1
        return value, best

    def exact(self, order: Ints, below: float = math.inf) -> tuple[float, Split] | None:
        """The best slicing with an objective under ``below``, exact up to rounding; None if there is none."""
        return self.best(order, below, GAP, math.inf)

    def _better(self, order: Ints, target: float, value: float) -> tuple[float, Split] | None:
        """A split within the target; None where its order of operators makes it no better than ``value`` after all."""
        split = self.decide(order, target)
        found = math.inf if split is None else self.view.value(split).both
        return None if split is None or found >= value else (found, split)


class SlicingSearch:
    """The heuristic that finds and improves splits, for an incumbent in a view of ``views``.

    The views are the problem as it is searched in the first direction, once for each order of its groups. Reaching the
    lower bounds ends the search. ``by`` is who is said to have found the splits.
    """

    def __init__(
        self, views: Sequence[SearchView], low: PhaseLoads, seed: int, incumbent: Incumbent[ViewedSplit]
    ) -> None:
        self.views, self.low, self.incumbent = views, low, incumbent
        self.random = np.random.default_rng(seed)
        self.slicers = [OrderSlicer(view, low, incumbent.stop) for view in views]
        self.by = "slicing"
        view, effort = views[0], views[0].effort
        # Pairs (left, right) that a decision about an order costs: segments as long as a stage, for each code and line.
        width = max(1.0, view.items / max(1, sum(view.counts)))
        pairs = view.items * width * (2 + effort.code * len(view.codes.digits)) * view.line_count
        #: Orders worth trying: fewer where one decision is expensive.
        self.rounds = int(min(effort.orders, max(3, effort.pairs / DECISIONS / pairs)))

    @property
    def done(self) -> bool:
        """Whether nothing better can exist, or the run stops."""
        return self.incumbent.value <= up_to(self.low.both) or bool(self.incumbent.stop[0] != 0)

    def offer(self, view: SearchView, split: Split) -> bool:
        """Keep a split of one of the views if it is better."""
        found = ViewedSplit(view, split)
        value = found.value
        if not self.incumbent.offer(value.both, found, self.by):
            return False
        if value.both > 0:
            for slicer in self.slicers:
                slicer.share = value.forward / value.both
        return True

    def order(self, view: SearchView, mode: int, stage: Ints | None = None) -> Ints:
        """A random topological order; see ``partita.engines.kernels.throughput.linear_orders.linearise``."""
        return order_by(view.arrays.graph, self.random.random(view.items), mode, stage)

    def try_order(self, slicer: OrderSlicer, order: Ints) -> bool:
        """Slice an order; whether it gave a better split."""
        found = slicer.best(order, self.incumbent.value)
        return found is not None and self.offer(slicer.view, found[1])

    @property
    def large(self) -> bool:
        """Whether slicing many orders takes longer than other searches."""
        return self.views[0].items > LARGE

    def begin(self) -> None:
        """Slice the order of the items as they are numbered."""
        for slicer in self.slicers:
            self.try_order(slicer, np.arange(slicer.view.items, dtype=np.int32))

    def start(self) -> None:
        """Slice topological orders of several kinds, then improve."""
        self.begin()
        self.vary()

    def vary(self) -> None:
        """Slice other topological orders, then improve."""
        for number in range(self.rounds):
            for slicer in self.slicers:
                if self.done:
                    return
                self.try_order(slicer, self.order(slicer.view, (1, 2, 0)[number % 3]))
        self.improve(self.rounds * 2)

    def improve(self, rounds: int) -> bool:
        """Re-linearise by stage and slice again until ``rounds`` attempts in a row give nothing."""
        better, since, number = False, 0, 0
        while since < rounds and not self.done and (best := self.incumbent.answer) is not None:
            view = best.view
            stage = view.label(best.split)
            fuse = number % 4
            if fuse:
                # Fuse neighbours: pairs from an even or an odd start, or triples.
                width = 3 if fuse == 3 else 2
                stage = (stage + number // 4 % width) // width
            number += 1
            slicer = next(slicer for slicer in self.slicers if slicer.view is view)
            if self.try_order(slicer, self.order(view, (2, 1, 0)[int(self.random.integers(3))], stage)):
                better, since = True, 0
            else:
                since += 1
        return better

    def shake(self, trials: int) -> None:
        """Anneal from the best split where its view can; otherwise only improve it a little."""
        found = self.incumbent.answer
        if found is None or self.done:
            return
        if not found.view.annealable(len(found.split)):
            self.improve(10)
            return
        for exponent, start, end in ((12, 0.3, 0.003), (30, 0.05, 0.002)):
            best, cooling = self.incumbent.answer, Cooling(start, end, trials // 2)
            assert best is not None
            view, label = best.view, best.view.label(best.split)
            kind = np.array([placed.pool for placed in best.split], dtype=np.int32)
            draws, stop = generator(int(self.random.integers(1 << 30))), self.incumbent.stop
            arrays = stages_as_devices(view.arrays, kind)
            state = empty_state(arrays)
            state.label[:] = state.best[:] = label
            reset(arrays, state)
            state.value[0] = state.load.max()
            anneal_acyclic(
                view.arrays.graph, arrays, state, SplitMemory(True, math.inf, 0.0), exponent, 0.0, cooling, draws, stop
            )
            # Slicing takes it only if it is better, and checks all of memory.
            if self.try_order(self.slicers[0], self.order(view, 1, state.best)):
                self.improve(6)
