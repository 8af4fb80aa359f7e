"""Annealing on placements: cuts of many topological orders, then rounds of ``kernels.latency.anneal`` from the best.

Rounds differ in temperature and in how much the time of all pieces together weighs beside the latency, grow, and begin
at the best placement or, every other one, at one of the best cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.latency.anneal import anneal
from partita.engines.kernels.latency.arrays import empty_placement
from partita.engines.kernels.latency.quotient import reset
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.annealing import AnnealingSearch, Length
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.slicing import PieceSlicer
from partita.problems.latency.view import View

#: Orders that are cut at first, and the share of their best that are starts of rounds.
ORDERS, STARTS = 60, 20
#: First temperatures of rounds that take turns, and the last one, as shares of the best latency.
HOT, COLD = (0.03, 0.01, 0.003), 1e-5
#: Weights of the time of all pieces together, of groups of rounds that take turns.
SIDES = (0.0, 0.01, 0.05)
#: Trials of one step and of the first round; rounds grow by a factor.
STEP, FIRST, GROWTH, MOST = 30_000, 200_000, 1.1, 20_000_000
#: Operators up to which a problem is small, with so many trials per operator in the first round.
SMALL, SMALL_TRIALS = 40, 2_000
#: Rounds without a time limit, and of small problems in any case.
ROUNDS, SMALL_ROUNDS = 18, 9


class PlacementSearch(AnnealingSearch):
    """A search on one problem; ``slot`` is the best placement, found so far, as the kernels see it."""

    def __init__(self, view: View, incumbent: Incumbent[LatencyPlan], seed: int) -> None:
        self.view = view
        super().__init__(incumbent, seed, Length(SMALL_TRIALS * view.count if self.small else FIRST, GROWTH, MOST))
        self.state = empty_placement(view.arrays)
        self._value, self.slot = math.inf, np.full(view.count, view.slots, np.int32)
        self.starts: list[tuple[float, Ints]] = []

    @property
    def value(self) -> float:
        return self._value

    @property
    def done(self) -> bool:
        return self.view.slots == 0 or self.best.done

    @property
    def small(self) -> bool:
        """Whether a few rounds are enough whatever time there is."""
        return self.view.count <= SMALL

    def usual_rounds(self, monitor: Monitor) -> float:
        """As many as there are where nobody says how many."""
        return SMALL_ROUNDS if self.small else ROUNDS if monitor.time_limit_s is None else math.inf

    def begin(self) -> None:
        """The CPU alone, and the cuts of some orders."""
        self._offer(self.slot)
        if self.done:
            return
        slicer = PieceSlicer(self.view)
        for _ in range(ORDERS if not self.small else ORDERS // 4):
            if self.best.stop[0]:
                break
            slot = slicer.cut(slicer.order(self.random))
            value = self._offer(slot)
            if value < math.inf:
                self.starts.append((value, slot))
        self.starts = sorted(self.starts, key=lambda start: start[0])[:STARTS]

    def adopt(self, slot: Ints) -> None:
        """Start from a placement found elsewhere."""
        self._offer(slot)

    def round(self, number: int) -> Iterator[None]:
        a, s = self.view.arrays, self.state
        start = self.starts[number // 2 % len(self.starts)][1] if number % 2 and self.starts else self.slot
        hot, side = HOT[number % len(HOT)], SIDES[number // len(HOT) % len(SIDES)]
        s.slot[:], s.best[:], s.value[0] = start, self.slot, self.value

        def part(cooling: Cooling) -> None:
            # Rounding gathers, and is dropped here.
            reset(a, s, s.slot.copy())
            anneal(a, s, self.trials, side, cooling, self.draws, self.best.stop)
            if s.value[0] < self.value:
                self._offer(s.best.copy())

        return self.cool(Cooling(hot, COLD, int(self.length)).times(max(self.value, 1e-300)), STEP, part)

    def _offer(self, slot: Ints) -> float:
        """What a placement is worth, infinite for one that is none; the best one is kept."""
        plan = self.view.plan(slot)
        worth = evaluate(self.view.problem, plan)
        if not worth.feasible:
            return math.inf
        if worth.objective < self.value:
            self._value, self.slot = worth.objective, slot.copy()
            self.best.offer(worth.objective, plan, "annealing")
        return worth.objective
