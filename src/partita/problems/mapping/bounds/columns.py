"""Shares of columns in islands: whole numbers of parts, of reaches, and of exchanges between islands.

Source: own. Assume a mapping within a target, and count in it: how often every part is in every island
(``partita.problems.mapping.bounds.parts``), and how many replicas have which reach. Then

* parts fill islands, and hold every stage R times in all;
* every member of a part has a reach; those whose partner in stage t has to be within class k are no more than the
  exchanges of their stage with t that lead into islands of that class. These counts, by stages and pairs of islands,
  add up to the replicas at both ends;
* the same of rings, where a replica has both its links within a class. Where rings have to stay inside an island that
  does not hold all of the stage, a run of replicas has two ends that do not. A ring with replicas on both sides of a
  cut through the islands crosses it both ways, which in a row of islands small ones have no room for. Where two rings
  together cannot pass some islands (``partita.problems.mapping.bounds.passages``), columns are on one side of them.

Is there no solution in whole numbers, the target is refuted. So what fits into one island is seen together with what
that leaves to the others, down to single devices.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import missing, solve_program
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Status
from partita.ground.errors import SolverCrashError
from partita.ground.rounding import GAP, up_to
from partita.problems.kind import BoundMethod
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.neighbours import assignment_bound
from partita.problems.mapping.bounds.parts import Column, Island, Reach, partitions
from partita.problems.mapping.bounds.passages import Blocked, Passages, row_of
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance, listable
from partita.problems.mapping.problem import MappingProblem

BACKEND, FRACTIONS = "cpsat", "highs"
#: Width of the interval at which bisection ends, as a share of its upper end; seconds of one program at most; and
#: programs given up after which there are no more. The share of the interval at which the next target is: programs
#: that have solutions take longer than others, and those that barely have none the longest.
_PRECISION, PROGRAM_S, _VAIN, _SHARE, _AGAIN = 1e-3, 30.0, 2, 1 / 3, 1 / 4
#: Islands that rings cannot pass of which both sides are tried in linear programs, and seconds of one of these at most.
_SIDES, _FRACTIONS_S = 3, 15.0

Terms = list[tuple[int, float]]


class Columns(BoundMethod[MappingProblem]):
    """See the module."""

    name = "columns"
    summary = "shares of columns in groups of devices with fast links, in whole numbers; needs such groups"
    argument = "no whole numbers of parts of columns fill all groups of devices within the target"

    def supports(self, problem: MappingProblem) -> str | None:
        if not listable(problem):
            return "machines are counted, and too many"
        if len(set(problem.counts)) > 1:
            return "stages have different numbers of replicas"
        return missing(BACKEND)

    def bound(self, problem: MappingProblem, monitor: Monitor) -> Bound:
        instance = MappingInstance(problem)
        value = assignment_bound(instance)
        if math.isfinite(value):
            first = instance.plan(np.arange(instance.count, dtype=np.int32))
            high = evaluate(problem, first).objective
            value = columns_bound(instance, value, lambda: high, lambda: monitor.stopping)
        return Bound(lowered(instance, value), self.name, self.scope, monitor.elapsed_s)


def columns_bound(
    instance: MappingInstance,
    low: float,
    high: Callable[[], float],
    stopping: Callable[[], bool],
    report: Callable[[float], object] = lambda value: None,
    *,
    program_s: float = PROGRAM_S,
    again: bool = False,
) -> float:
    """The largest refuted target between a bound and the objective of a mapping; ``report`` gets every better bound.

    There are devices enough, and as many replicas of every stage. ``high`` is asked again for every target, since
    others may find better mappings meanwhile; ``stopping`` is polled, and true ends it.
    A program gets ``program_s`` seconds. Where programs with less time were asked before, ``again`` goes on in smaller
    steps, and asks nothing twice about islands that rings cannot pass.
    """
    column = Column(instance)
    if column.parts is None:
        return low
    share = _AGAIN if again else _SHARE
    for number, islands in enumerate(partitions(instance)):
        upper, given_up = high(), 0
        # What rings cannot pass says most up to where they can. Where it says nothing there, it is not asked again.
        passable, sided = Passages(instance, islands).ceiling(low, upper) if not again else low, False
        if passable > low * (1 + 2 * _PRECISION):
            sided = _ask(column, islands, passable, stopping, 0.0, sided=True) is Status.INFEASIBLE
        if sided:
            low = passable
            report(lowered(instance, low))
        # Finer partitions have to show that they know more at all.
        target = low * (1 + 2 * _PRECISION) if number else low + share * (upper - low)
        while target < upper and upper - low > _PRECISION * upper and given_up < _VAIN and not stopping():
            answer = _ask(column, islands, target, stopping, program_s, sided=sided)
            if answer is Status.INFEASIBLE:
                low = target
                report(lowered(instance, low))
            elif number and target == low * (1 + 2 * _PRECISION):
                break
            else:
                upper = target
                given_up += answer is Status.UNKNOWN
            upper = min(upper, high())
            target = low + share * (upper - low)
        # Often nothing is left between.
        last = high() * (1 - GAP)
        near = low < last <= (1 + 2 * _PRECISION) * low and not given_up and not stopping()
        if near and _ask(column, islands, last, stopping, program_s, sided=sided) is Status.INFEASIBLE:
            low = last
            report(lowered(instance, low))
    return low


def _ask(
    column: Column,
    islands: list[Island],
    target: float,
    stopping: Callable[[], bool],
    program_s: float,
    *,
    sided: bool,
) -> Status:
    """``infeasible`` if no mapping is within a target, ``unknown`` if that takes too long, or the backend fails.

    With ``sided``, linear programs for the sides of islands that rings cannot pass are asked first; without seconds for
    a program in whole numbers, these alone are.
    """
    program = Program(column, islands, up_to(target), stopping)
    column.forget()
    if stopping():
        return Status.UNKNOWN
    try:
        calls = Callbacks(stop=stopping)
        if sided and program.sides and _without_solution(program, 0, calls):
            return Status.INFEASIBLE
        if program_s == 0.0:
            return Status.UNKNOWN
        return solve_program(program.model, BACKEND, time_limit_s=program_s, callbacks=calls).status
    except SolverCrashError:
        return Status.UNKNOWN


def _without_solution(program: Program, first: int, calls: Callbacks) -> bool:
    """Whether there are not even fractions, whichever sides of islands columns are on: two linear programs each.

    Where rings cannot pass, that is soon seen in fractions, and whole numbers take long.
    """
    if missing(FRACTIONS) is not None or first == min(len(program.sides), _SIDES):
        return False
    for value in (0.0, 1.0):
        program.model.fix(program.sides[first], value)
        fractions = dataclasses.replace(program.model, binary=[False] * program.model.size)
        answer = solve_program(fractions, FRACTIONS, time_limit_s=_FRACTIONS_S, central=True, callbacks=calls).status
        refuted = answer is Status.INFEASIBLE or (
            answer is not Status.UNKNOWN and _without_solution(program, first + 1, calls)
        )
        program.model.lower[program.sides[first]], program.model.upper[program.sides[first]] = 0.0, 1.0
        if not refuted:
            return False
    return True


class Program:
    """Whole numbers that any mapping within a limit has."""

    def __init__(self, column: Column, islands: list[Island], limit: float, stopping: Callable[[], bool]) -> None:
        self.model, self.column, self.islands, self.limit = MixedProgram(), column, islands, limit
        self.instance = column.instance
        #: By stage, then island: parts with the stage, and replicas with their reach.
        self.held: list[list[Terms]] = [[[] for _ in islands] for _ in range(self.instance.stages)]
        self.reaching: list[list[list[tuple[frozenset[int], Reach, Terms]]]] = [
            [[] for _ in islands] for _ in range(self.instance.stages)
        ]
        #: By pair of stages, then island: parts with both.
        self.both: dict[tuple[int, int], list[Terms]] = {
            (s, t): [[] for _ in islands] for s in range(self.instance.stages) for t, _ in self.instance.exchanges(s)
        }
        self.sides: list[int] = []  #: Variables for the sides of islands that rings cannot pass.
        for i in range(len(islands)):
            if stopping():
                return
            self._fill(i)
        for row in self.held:
            self.model.add_row(
                [term for terms in row for term in terms], self.instance.replicas, self.instance.replicas
            )
        #: By pair of stages, then pair of islands: columns with the one and the other there, as far as that is counted.
        self.moved: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        for s, t in self.both:
            if s < t:
                self._exchanges(s, t)
        for one in Passages(self.instance, islands).blocked(limit):
            self._one_side(one)
        for s in range(self.instance.stages):
            if self.instance.partners[s]:
                self._ring(s)

    def _fill(self, i: int) -> None:
        """Parts of an island, and the reaches of their members."""
        instance, island, room = self.instance, self.islands[i], len(self.islands[i].members)
        filled: Terms = []
        members: dict[tuple[int, frozenset[int]], tuple[tuple[Reach, ...], Terms]] = {}
        for part in self.column.parts or ():
            if len(part) > room:
                continue
            reaches = {s: self.column.reaches(island, s, part, self.limit) for s in part}
            if not all(reaches.values()):
                continue
            z = self.model.add_count(min(instance.replicas, room // len(part)))
            filled.append((z, len(part)))
            for s in part:
                self.held[s][i].append((z, 1.0))
                inside = frozenset(t for t, _ in instance.exchanges_of[s] if t in part)
                members.setdefault((s, inside), (reaches[s], []))[1].append((z, 1.0))
                for t in inside:
                    self.both[s, t][i].append((z, 1.0))
        every = instance.devices == instance.count
        self.model.add_row(filled, room if every else -math.inf, room)
        for (s, inside), (reaches_of, terms) in members.items():
            if len(reaches_of) == 1:
                self.reaching[s][i].append((inside, reaches_of[0], terms))
                continue
            ways = []
            for reach in reaches_of:
                y = self.model.add_count(min(instance.replicas, room))
                ways.append((y, -1.0))
                self.reaching[s][i].append((inside, reach, [(y, 1.0)]))
            self.model.add_row([*terms, *ways], 0.0, 0.0)

    def _exchanges(self, s: int, t: int) -> None:
        """Replicas of two stages whose exchange leads from one island to another."""
        needs = [*self._needs(s, t), *self._needs(t, s)]
        if not needs:
            return
        count = len(self.islands)
        moved = {(i, j): self._between(i, j) for i in range(count) for j in range(count) if i != j}
        self.moved[s, t] = moved
        for i in range(count):
            others = [j for j in range(count) if j != i]
            for stage, ways in ((s, [moved[i, j] for j in others]), (t, [moved[j, i] for j in others])):
                ends = [(x, -1.0) for x in ways] + [(z, -c) for z, c in self.both[s, t][i]]
                self.model.add_row(self.held[stage][i] + ends, 0.0, 0.0)
        for stage, i, near, terms in needs:
            ways = [moved[i, j] if stage == s else moved[j, i] for j in near]
            self.model.add_row([*terms, *((x, -1.0) for x in ways)], upper=0.0)

    def _needs(self, s: int, t: int) -> Iterator[tuple[int, int, list[int], Terms]]:
        """By island and class short of the last: replicas of s whose partner in t, outside, has to be within it."""
        for i, island in enumerate(self.islands):
            near: list[int] = []
            for k in range(1, len(island.costs)):
                near = [*near, *island.classes[k - 1]]
                terms: Terms = []
                for inside, reach, those in self.reaching[s][i]:
                    outside = [u for u, _ in self.column.outside(s, inside)]
                    if t in outside and reach.partners[outside.index(t)] <= k:
                        terms += those
                if terms:
                    yield s, i, near, terms

    def _between(self, i: int, j: int) -> int:
        room = min(len(self.islands[i].members), len(self.islands[j].members))
        return self.model.add_count(min(self.instance.replicas, room))

    def _ring(self, s: int) -> None:
        """Replicas of a stage by where the next one of the ring is."""
        count = len(self.islands)
        needs: list[tuple[int, list[int], Terms]] = []
        for i, island in enumerate(self.islands):
            near = [i]
            for k in range(len(island.costs)):
                terms = [term for _, reach, those in self.reaching[s][i] if reach.ring <= k for term in those]
                if terms and k == 0:
                    self._inside(s, i, terms)
                if terms and len(island.costs) > 1:
                    needs.append((i, near, terms))
                near = [*near, *island.classes[k]]
        if not needs:
            return
        steps = {(i, j): self._between(i, j) for i in range(count) for j in range(count)}
        for i in range(count):
            for ends in ([steps[i, j] for j in range(count)], [steps[j, i] for j in range(count)]):
                self.model.add_row([*self.held[s][i], *((x, -1.0) for x in ends)], 0.0, 0.0)
        for i, near, terms in needs:
            ways = [(steps[i, j], -1.0) for j in near] + [(steps[j, i], -1.0) for j in near]
            self.model.add_row([*((x, 2.0 * c) for x, c in terms), *ways], upper=0.0)
        self._around(s, steps)

    def _around(self, s: int, steps: dict[tuple[int, int], int]) -> None:
        """A ring on both sides of a cut through the islands crosses it both ways.

        Cuts part nearer from further islands, as seen from the end of a row of them.
        """
        order, replicas = row_of(self.islands), float(self.instance.replicas)
        for cut in range(1, len(order)):
            sides = order[:cut], order[cut:]
            used = []
            for side in sides:
                some = self.model.add_binary()
                used.append((some, -1.0))
                self.model.add_row([*(term for i in side for term in self.held[s][i]), (some, -replicas)], upper=0.0)
            for here, there in (sides, sides[::-1]):
                crossing = [(steps[i, j], 1.0) for i in here for j in there]
                self.model.add_row([*crossing, *used], lower=-1.0)

    def _one_side(self, blocked: Blocked) -> None:
        """No column has both stages on this side of some islands, or none has both on that side."""
        side, replicas = self.model.add_binary(), float(self.instance.replicas)
        self.sides.append(side)
        moved = self.moved.get(blocked.stages, {})
        for islands, sign in ((blocked.before, 1.0), (blocked.behind, -1.0)):
            here = [term for i in islands for term in self.both[blocked.stages][i]]
            here += [(moved[i, j], 1.0) for i in islands for j in islands if (i, j) in moved]
            self.model.add_row([*here, (side, -sign * replicas)], upper=0.0 if sign > 0 else replicas)

    def _inside(self, s: int, i: int, terms: Terms) -> None:
        """Rings that have to stay inside an island: unless all of it is there, runs have ends that do not."""
        room, replicas = len(self.islands[i].members), self.instance.replicas
        some = self.model.add_binary()
        self.model.add_row([*terms, (some, -float(min(room, replicas)))], upper=0.0)
        row = [*self.held[s][i], *((x, -c) for x, c in terms), (some, -2.0)]
        if room >= replicas:
            whole = self.model.add_binary()
            self.model.add_row([*self.held[s][i], (whole, -float(replicas))], lower=0.0)
            row.append((whole, 2.0))
        self.model.add_row(row, lower=0.0)
