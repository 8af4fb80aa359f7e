"""Proofs by search: every placement of a small problem, and an integer program.

**Every placement.** Placements are made one operator after the other, in topological order, and left where what is
placed takes too long already; see ``kernels.latency.branches``. Accelerators are alike: one is used only after all
before it.

**The program** is for accelerators with one piece each and inference. Source: NeurIPS 2020 (device placement), Appendix
A, Figure 5, without its symmetry: accelerators are numbered in a
topological order of the quotient graph. g(v, p) says that operator v comes after piece p. It is monotone along edges
and falls with p; the operators of piece p are after all pieces before it and not after p, and what reads from piece p
outside is after p. Every acyclic plan has such numbers: sort the pieces topologically, and let g(v, p) be true for
operators of later pieces, and for those on the CPU that come after a piece from p on. No solution has a circle: an edge
out of a piece leads to what is after it, edges never lead from what is after a piece to what is not, and its own
operators are not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.latency.branches import FOUND, OVER, branch, rests
from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import missing, solve_program
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.dags import topological_order
from partita.ground.rounding import rounded_down
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.view import View

#: Operators and slots up to which all placements are tried, and operators whose search ends by itself.
MOST_OPERATORS, MOST_SLOTS, FEW = 24, 62, 12
#: Placements of some operators that are looked at for more than a few, and between two looks at the stop button.
MOST_STEPS, TURN = 3_000_000, 100_000
#: Placements up to which there is nothing better to begin with.
TINY = 60_000
#: Most operators times accelerators of a program.
MOST_CELLS = 20_000
NAME = "cpsat"


def exact_refusal(problem: LatencyProblem) -> str | None:
    """Why the program does not fit a problem; None if it does."""
    if problem.pieces > 1 or problem.training:
        return "it is for inference with one piece per accelerator; use combined"
    if problem.accelerators * len(problem.operators) > MOST_CELLS:
        return f"it takes at most {MOST_CELLS} operators times accelerators; use combined"
    return missing(NAME)


class PlacementProgram:
    """Minimise the latency; no solution takes longer than ``horizon``. With ways from placements and to plans."""

    def __init__(self, view: View, horizon: float) -> None:
        self.view, self.model = view, MixedProgram()
        m = self.model
        n, pieces = view.count, view.slots
        self.n, self.pieces, self.horizon = n, pieces, horizon
        self.on = [[m.add_binary() for _ in range(pieces)] for _ in view.classes]
        self.after = [[m.add_binary() for _ in range(pieces)] for _ in range(n)]
        self.into = [[m.add_binary() for _ in range(pieces)] if view.after[v] else [] for v in range(n)]
        self.out = [[m.add_binary() for _ in range(pieces)] if view.after[v] else [] for v in range(n)]
        self.done = [m.add_continuous(0.0, horizon) for _ in range(n)]
        self.start = [m.add_continuous(0.0, horizon) for _ in range(pieces)]
        self.end = [m.add_continuous(0.0, horizon) for _ in range(pieces)]
        self.latency = m.add_continuous(0.0, horizon, cost=1.0)
        for row, barred in zip(self.on, view.barred, strict=True):
            for x in row if barred else ():
                m.fix(x, 0.0)
            m.add_row([(x, 1.0) for x in row], upper=1.0)
        for v in range(n):
            self._order(v)
            self._times(v)
        for p in range(pieces):
            self._piece(p)

    def _row(self, v: int) -> list[int]:
        """Whether an operator is in each piece."""
        return self.on[int(self.view.arrays.group.of[v])]

    def _order(self, v: int) -> None:
        m, on, after = self.model, self._row(v), self.after
        for p in range(self.pieces):
            # In piece p: after those before it, and not after itself.
            m.add_row([(on[p], 1.0), (after[v][p], 1.0)], upper=1.0)
            if p:
                m.add_row([(after[v][p], 1.0), (after[v][p - 1], -1.0)], upper=0.0)
                m.add_row([(on[p], 1.0), (after[v][p - 1], -1.0)], upper=0.0)
            for u in self.view.before[v]:
                m.add_row([(after[u][p], 1.0), (after[v][p], -1.0)], upper=0.0)
                if self.view.arrays.group.of[u] != self.view.arrays.group.of[v]:
                    mine = self._row(u)[p]
                    m.add_row([(mine, 1.0), (on[p], -1.0), (after[v][p], -1.0)], upper=0.0)
                    m.add_row([(mine, 1.0), (on[p], -1.0), (self.out[u][p], -1.0)], upper=0.0)
                    m.add_row([(on[p], 1.0), (mine, -1.0), (self.into[u][p], -1.0)], upper=0.0)

    def _times(self, v: int) -> None:
        m, a, on, far = self.model, self.view.arrays, self._row(v), self.horizon
        cpu = float(a.cpu[v])
        # Its time on the CPU, where it is in no piece.
        for before in ([], *([(self.done[u], -1.0)] for u in self.view.before[v])):
            m.add_row([(self.done[v], 1.0), *before, *((x, cpu) for x in on)], lower=cpu)
            if before:
                m.add_row([(self.done[v], 1.0), *before], lower=0.0)
        for p in range(self.pieces):
            m.add_row([(self.done[v], 1.0), (self.end[p], -1.0), (on[p], -far)], lower=-far)
            if self.view.after[v]:
                m.add_row([(self.start[p], 1.0), (self.done[v], -1.0), (self.into[v][p], -far)], lower=-far)
        m.add_row([(self.latency, 1.0), (self.done[v], -1.0)], lower=0.0)

    def _piece(self, p: int) -> None:
        m, a = self.model, self.view.arrays
        terms = []
        for v in range(self.n):
            if a.acc[v] < np.inf:
                terms.append((self._row(v)[p], float(a.acc[v])))
            if self.view.after[v]:
                terms += [(self.into[v][p], float(a.comm[v])), (self.out[v][p], float(a.comm[v]))]
        m.add_row([(self.end[p], 1.0), (self.start[p], -1.0), *((x, -c) for x, c in terms)], lower=0.0)
        if p:
            # Pieces are filled from the first one on.
            m.add_row(
                [(row[p], 1.0) for row in self.on] + [(row[p - 1], -float(len(self.on))) for row in self.on], upper=0.0
            )
        limit = float(a.limit[0])
        if math.isfinite(limit):
            m.add_row([(self._row(v)[p], float(a.mem[v])) for v in range(self.n)], upper=limit)

    def values(self, slot: Ints) -> Floats:
        """A placement that keeps every limit in the program's variables."""
        view, a, slots = self.view, self.view.arrays, self.view.slots
        node = [int(s) if s < slots else slots + v for v, s in enumerate(slot.tolist())]
        edges = {(node[u], node[v]) for v in range(self.n) for u in view.before[v] if node[u] != node[v]}
        members: dict[int, list[int]] = {}
        for v, x in enumerate(node):
            members.setdefault(x, []).append(v)
        found, level, count = np.zeros(self.model.size), [0] * self.n, 0
        for x in topological_order(slots + self.n, sorted(edges)):
            if x not in members:
                continue
            inside = set(members[x])
            read = {u for v in inside for u in view.before[v]} - inside
            sent = {v for v in inside if set(view.after[v]) - inside}
            begin = max((found[self.done[u]] for u in read), default=0.0)
            if x >= slots:
                end = begin + a.cpu[x - slots]
                levels = [level[u] if node[u] >= slots else level[u] + 1 for u in read]
                level[x - slots] = max(levels, default=0)
            else:
                end = begin + sum(a.comm[u] for u in read | sent) + sum(a.acc[v] for v in inside)
                found[self.start[count]], found[self.end[count]] = begin, end
                for v in inside:
                    level[v] = count
                    found[self._row(v)[count]] = 1.0
                    if v in sent:
                        found[self.out[v][count]] = 1.0
                for u in read:
                    found[self.into[u][count]] = 1.0
                count += 1
            for v in inside:
                found[self.done[v]] = end
                for p in range(level[v]):
                    found[self.after[v][p]] = 1.0
        found[self.latency] = max(found[x] for x in self.done)
        return found

    def plan(self, values: Floats) -> LatencyPlan:
        """The plan of a solution."""
        slot = np.full(self.n, self.pieces, np.int32)
        for v in range(self.n):
            for p, x in enumerate(self._row(v)):
                if values[x] > 0.5:
                    slot[v] = p
        return self.view.plan(slot)


#: Operators up to which one thread is enough.
SMALL = 14


def prove_exactly(
    view: View, incumbent: Incumbent[LatencyPlan], slot: Ints, *, seed: int, threads: int, monitor: Monitor
) -> None:
    """Run the program until it is solved, told to stop, or out of time; ``incumbent`` learns what comes of it.

    Small problems take one thread: which of several is first to find one of several best plans is not always the same.
    """
    horizon = incumbent.value
    program = PlacementProgram(view, horizon * (1 + 1e-6))

    def found(values: Floats, objective: float) -> None:
        plan = program.plan(values)
        worth = evaluate(view.problem, plan)
        if worth.feasible:
            incumbent.offer(worth.objective, plan, NAME)

    result = solve_program(
        program.model,
        NAME,
        time_limit_s=monitor.remaining_s,
        threads=threads if len(view.problem.operators) > SMALL else 1,
        seed=seed,
        warm_start=program.values(slot) if math.isfinite(horizon) else None,
        callbacks=Callbacks(
            stop=lambda: incumbent.done, on_incumbent=found, on_bound=lambda bound: incumbent.prove(bound, NAME)
        ),
    )
    if result.status is Status.INFEASIBLE:
        # The plan that is known is a solution: this raises.
        incumbent.refute(NAME)
    elif math.isfinite(result.bound):
        incumbent.prove(result.bound, NAME)


def tiny(view: View) -> bool:
    """Whether trying all placements takes no time."""
    choices = view.slots // view.passes + 1
    return few(view) and view.count * math.log(choices) + math.log(view.passes) <= math.log(TINY)


def few(view: View) -> bool:
    """Whether all placements can be tried, most likely."""
    return view.count <= MOST_OPERATORS and view.slots <= MOST_SLOTS


def best_placement(
    view: View, known: float, offer: Callable[[float, LatencyPlan], object], stopping: Callable[[], bool]
) -> float | None:
    """What no plan takes less than: the optimum, or what is ``known`` if nothing is better. None if it was stopped.

    Every plan that is better than what is known is offered on the way. Forward and backward pieces of an accelerator
    are tried in every order.
    """
    a, n = view.arrays, view.count
    barred = np.array(view.barred, np.int32)[a.group.of]
    rest = rests(a, barred)
    slot, choice, at = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(1, np.int64)
    best, spent = known, 0
    while True:
        if stopping() or (n > FEW and spent >= MOST_STEPS):
            return None
        status = branch(a, barred, rest, view.passes == 1, slot, choice, at, best, TURN)
        spent += TURN
        if status == OVER:
            # The search adds up in another order than the evaluator.
            return rounded_down(best, best, 4 * n)
        if status == FOUND:
            spent -= TURN
            for plan in _orders(view, view.plan(slot)):
                worth = evaluate(view.problem, plan)
                if worth.feasible and worth.objective < best:
                    best = worth.objective
                    offer(best, plan)


def _orders(view: View, plan: LatencyPlan) -> Iterator[LatencyPlan]:
    """The plan with the pieces of every accelerator in every order where their order is not in the slots."""
    if view.passes == 1:
        yield plan
        return
    for rows in itertools.product(*(itertools.permutations(row) for row in plan.accelerators)):
        yield LatencyPlan(accelerators=rows)
