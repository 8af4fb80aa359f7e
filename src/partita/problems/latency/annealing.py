"""Annealing on placements: cuts of many topological orders, then rounds of ``kernels.latency.anneal`` from the best.

Rounds differ in temperature and in how much the time of all pieces together weighs beside the latency, grow, and begin
at the best placement or, every other one, at one of the best cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.graph_arrays import csr, graph_of
from partita.engines.kernels.latency.anneal import anneal
from partita.engines.kernels.latency.arrays import empty_placement
from partita.engines.kernels.latency.quotient import reset
from partita.engines.kernels.latency.slicing import slice_order
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.annealing import AnnealingSearch, Length
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
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
        self.offer(self.slot)
        if self.done:
            return
        slicer = PieceSlicer(self.view)
        for _ in range(ORDERS if not self.small else ORDERS // 4):
            if self.best.stop[0]:
                break
            slot = slicer.cut(slicer.order(self.random))
            value = self.offer(slot)
            if value < math.inf:
                self.starts.append((value, slot))
        self.starts = sorted(self.starts, key=lambda start: start[0])[:STARTS]

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
                self.offer(s.best.copy())

        return self.cool(Cooling(hot, COLD, int(self.length)).times(max(self.value, 1e-300)), STEP, part)

    def offer(self, slot: Ints) -> float:
        """What a placement is worth, infinite for one that is none; the best one is kept."""
        plan = self.view.plan(slot)
        worth = evaluate(self.view.problem, plan)
        if not worth.feasible:
            return math.inf
        if worth.objective < self.value:
            self._value, self.slot = worth.objective, slot.copy()
            self.best.offer(worth.objective, plan, "annealing")
        return worth.objective


class PieceSlicer:
    """Starts of a search: topological orders cut into pieces that take least time together, within the memory limit.

    Cuts orders of a problem's colocation classes; classes that depend on each other both ways stay together.
    For training, forward operators are cut, and backward ones follow their class; those without one go to the CPU.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        merged, edges = view.merged()
        #: Forward operators of every group, in topological order, and the groups that each reads.
        self.groups = [sorted(v for n in one for v in view.classes[n] if view.arrays.part[v] == 0) for one in merged]
        self.after: list[set[int]] = [set() for _ in merged]
        self.before: list[set[int]] = [set() for _ in merged]
        for x, y in edges:
            self.after[x].add(y)
            self.before[y].add(x)

    def order(self, random: np.random.Generator) -> list[int]:
        """An order of the groups, found from the last to the first: constants come right before their readers."""
        waiting = [len(row) for row in self.after]
        priority = random.random(len(waiting))
        deep = random.random() < 0.75
        ready = sorted((g for g, left in enumerate(waiting) if left == 0), key=lambda g: priority[g])
        found: list[int] = []
        while ready:
            g = ready.pop() if deep else ready.pop(int(random.integers(len(ready))))
            found.append(g)
            opened = []
            for b in self.before[g]:
                waiting[b] -= 1
                if waiting[b] == 0:
                    opened.append(b)
            # Constants are next, so that they stand beside their reader.
            ready += sorted(opened, key=lambda b: (not self.before[b], priority[b]))
        return found[::-1]

    def cut(self, order: list[int]) -> Ints:
        """The best placement along an order, by the sum of times."""
        view, a = self.view, self.view.arrays
        rows = [self.groups[g] for g in order]
        ptr, flat = csr(rows)
        slot = np.full(view.count, view.slots, np.int32)
        if view.slots == 0:
            return slot
        cpu = np.array([sum(a.cpu[v] for v in row) for row in rows])
        if view.passes == 1:
            pieces = slice_order(a, flat, ptr, cpu, view.problem.accelerators, False)
            for row, j in zip(rows, pieces.tolist(), strict=True):
                if j >= 0:
                    slot[row] = j * view.problem.pieces
            return slot
        home = np.full(len(view.classes), -1)
        for row, j in zip(rows, self._training(rows, flat, ptr, cpu), strict=True):
            home[a.group.of[row]] = j
        placed = home[a.group.of]
        return np.where(placed >= 0, (placed * view.passes + a.part) * view.problem.pieces, slot).astype(np.int32)

    def _training(self, rows: list[list[int]], flat: Ints, ptr: Ints, cpu: Floats) -> list[int]:
        """As ``slice_order`` on the forward part, every operator with the memory and the times of its whole class."""
        view, a = self.view, self.view.arrays
        keep = np.full(view.count, -1, np.int64)
        keep[flat] = np.arange(len(flat))
        mem, acc = np.zeros(view.count), np.zeros(view.count)
        for group in view.classes:
            first = next((v for v in group if a.part[v] == 0), None)
            if first is not None:
                mem[first] = sum(a.mem[v] for v in group)
                acc[first] = sum(a.acc[v] for v in group)
        pairs = [(int(keep[u]), int(keep[v])) for v in flat.tolist() for u in view.before[v] if keep[u] >= 0]
        smaller = a._replace(
            graph=graph_of(pairs, len(flat)), cpu=a.cpu[flat], acc=acc[flat], comm=a.comm[flat], mem=mem[flat]
        )
        order = np.arange(len(flat), dtype=np.int32)
        return [int(j) for j in slice_order(smaller, order, ptr, cpu, view.problem.accelerators, False)]
