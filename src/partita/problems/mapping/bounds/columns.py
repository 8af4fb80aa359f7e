"""Shares of columns in islands: whole numbers of parts, of reaches, and of exchanges between islands.

Source: own. Assume a mapping within a target, and count in it: how often every part is in every island
(``partita.problems.mapping.bounds.parts``), and how many replicas have which reach. Then

* parts fill islands, and hold every stage R times in all; there are R columns, each split into parts in one way;
* every member of a part has a reach; those whose partner in stage t has to be within class k are no more than the
  exchanges of their stage with t that lead into islands of that class. These counts, by stages and pairs of islands,
  add up to the replicas at both ends;
* the same of rings, where a replica has both its links within a class. Where rings have to stay inside an island that
  does not hold all of the stage, a run of replicas has two ends that do not. A ring with replicas on both sides of a
  cut through the islands crosses it both ways, which in a row of islands small ones have no room for. Where two rings
  together cannot pass some islands (``partita.problems.mapping.bounds.passages``), columns are on one side of them.

Where parts have a solution and few columns are within the target, columns are counted as a whole, by the islands of all
their stages (``partita.problems.mapping.bounds.layouts``): how far stages are apart all at once says how far each ring
of the column may reach.

Is there no solution in whole numbers, the target is refuted. So what fits into one island is seen together with what
that leaves to the others, down to single devices.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.mip.model import Callbacks, ProgramResult
from partita.engines.mip.race import race
from partita.engines.mip.solve import missing, solve_program
from partita.engines.search.result import Status
from partita.ground.errors import SolverCrashError
from partita.ground.rounding import GAP, up_to
from partita.problems.mapping.bounds.composing import composed, placed
from partita.problems.mapping.bounds.layout_program import LayoutProgram
from partita.problems.mapping.bounds.layouts import MOST_LAYOUTS, layouts_within
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.part_program import PartProgram
from partita.problems.mapping.bounds.parts import Column, Island, partitions
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.bounds.raising import Meanwhile, RaisingBound, without_columns
from partita.problems.mapping.bounds.repeating import Group, group_of
from partita.problems.mapping.bounds.shares import Shares
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem

BACKEND, FRACTIONS = "cpsat", "highs"
#: Width of the interval at which bisection ends, as a share of its upper end; seconds of one program at most; and
#: programs given up after which there are no more. The share of the interval at which the next target is: programs
#: that have solutions take longer than others, and those that barely have none the longest.
_PRECISION, _PROGRAM_S, _VAIN, _SHARE, _AGAIN = 1e-3, 20.0, 2, 1 / 3, 1 / 4
#: Parts of a column up to which they are few: CP-SAT is asked where only one backend is. Where they are many, HiGHS is;
#: how far above the bound the first target is there, and a mapping may be for one to be asked that is hardly better,
#: as factors.
_FEW_PARTS, _FIRST, _NEAR = 500, 1.35, 1.05
#: Seconds of an easy program.
_EASY_S, _MANY_S = 4.0, 8.0  # Of many parts.
#: How far targets that are given up have to be below a mapping for one between to be asked, as a share.
_ABOVE = 0.01
#: Islands that rings cannot pass of which both sides are tried in linear programs; seconds of all these of a target at
#: most, and in programs of which it asks.
_SIDES, _FRACTIONS_S, _SIDED = 3, 45.0, 6.0


class Columns(RaisingBound):
    """See the module."""

    name = "columns"
    summary = "shares of columns in groups of devices with fast links, in whole numbers; needs such groups"
    in_turn = False
    argument = "no whole numbers of parts of columns fill all groups of devices within the target"

    def supports(self, problem: MappingProblem) -> str | None:
        return without_columns(problem) or missing(BACKEND)

    def raised(self, instance: MappingInstance, low: float, beside: Meanwhile) -> float:
        return columns_bound(
            *(instance, low, beside.high, beside.stopping, beside.report, beside.found),
            program_s=_EASY_S if beside.turn == "first" else _PROGRAM_S,
            again=beside.turn == "second",
            racing=beside.racing,
        )


def columns_bound(
    instance: MappingInstance,
    low: float,
    high: Callable[[], float],
    stopping: Callable[[], bool],
    report: Callable[[float], object] = lambda value: None,
    found: Callable[[Ints, float], object] = lambda device, target: None,
    *,
    program_s: float = _PROGRAM_S,
    again: bool = False,
    racing: Callable[[], bool] | None = None,
) -> float:
    """The largest refuted target between a bound and the objective of a mapping; ``report`` gets every better bound.

    There are devices enough, and as many replicas of every stage. ``high`` is asked again for every target, since
    others may find better mappings meanwhile; ``stopping`` is polled, and true ends it. ``found`` gets mappings that
    are made of solutions, and the targets of these, before ``high`` is asked.
    A program gets ``program_s`` seconds. Where programs with less time were asked before, ``again`` goes on in smaller
    steps, and asks nothing twice about islands that rings cannot pass; both backends are asked while ``racing``.
    """
    column = Column(instance)
    if column.parts is None:
        return low
    questions = _Questions(column, program_s, stopping, found, racing=racing)
    if not questions.few:
        questions.program_s = max(program_s, _MANY_S)
        # Programs of finer partitions are larger.
        islands = next(partitions(instance), None)
        return low if islands is None else _from_both_sides(questions, islands, low, high, report, soon=not again)
    share = _AGAIN if again else _SHARE
    for number, islands in enumerate(partitions(instance)):
        upper, given_up = high(), 0
        # What rings cannot pass says most up to where they can. Where it says nothing there, it is not asked again.
        passable, sided = Passages(instance, islands).ceiling(low, upper) if not again else low, False
        if passable > low * (1 + 2 * _PRECISION):
            sided = questions.ask(islands, passable, sided=True, whole=False) is Status.INFEASIBLE
        if sided:
            low = passable
            report(lowered(instance, low))
        # Finer partitions have to show that they know more at all.
        target = low * (1 + 2 * _PRECISION) if number else low + share * (upper - low)
        while target < upper and upper - low > _PRECISION * upper and given_up < _VAIN and not stopping():
            answer = questions.ask(islands, target, sided=sided)
            if answer is Status.INFEASIBLE:
                low = target
                report(lowered(instance, low))
            elif number and target == low * (1 + 2 * _PRECISION):
                break
            else:
                upper = target
                given_up += answer is Status.UNKNOWN
                above = (target + high()) / 2
                # A solution of an easier program makes a better mapping.
                aside = again and answer is Status.UNKNOWN and above - target > _ABOVE * target and not stopping()
                if aside and questions.ask(islands, above, sided=sided) is Status.INFEASIBLE:
                    low, upper = above, high()
                    report(lowered(instance, low))
            upper = min(upper, high())
            target = low + share * (upper - low)
        if given_up == _VAIN:
            # Programs of finer partitions are larger.
            return low
        # Often nothing is left between.
        last = high() * (1 - GAP)
        near = low < last <= (1 + 2 * _PRECISION) * low and not given_up and not stopping()
        if near and questions.ask(islands, last, sided=sided) is Status.INFEASIBLE:
            low = last
            report(lowered(instance, low))
    return low


def _from_both_sides(
    questions: _Questions,
    islands: list[Island],
    low: float,
    high: Callable[[], float],
    report: Callable[[float], object],
    *,
    soon: bool,
) -> float:
    """As ``columns_bound``, where parts are many: targets near the bound and near the mapping, in turn.

    Programs of these do not take long, unlike those between, and the latter make mappings. The first target makes one
    ``soon``; where that is not easy, others may say more.
    """
    instance, upper = questions.column.instance, high()

    def ask(target: float) -> Status:
        answer = questions.ask(islands, target, sided=False)
        if answer is Status.INFEASIBLE:
            report(lowered(instance, target))
        return answer

    def open_yet() -> bool:
        return upper - low > _PRECISION * upper and not questions.stopping()

    longest = questions.program_s
    while soon and open_yet():
        target, questions.program_s = min(low * _FIRST, (low + upper) / 2), min(longest, _EASY_S)
        answer, questions.program_s = ask(target), longest
        if answer is Status.UNKNOWN and not any(questions.groups.values()):
            return low
        upper, soon = min(upper, high()), answer is Status.INFEASIBLE
        if soon:
            low = target
    # Sides that are not given up, the next one first.
    sides, near = ["mapping", "bound"], False
    while sides and open_yet():
        side, step = sides[0], _AGAIN * (upper - low)
        target = low + step if side == "bound" else upper - step
        last = not near and upper <= _NEAR * low
        if last:
            # Often the mapping is optimal.
            near, target = True, upper * (1 - GAP)
        answer = ask(target)
        if answer is Status.INFEASIBLE:
            low = target
        elif answer is not Status.UNKNOWN:
            upper = min(upper, target)
        elif not last:
            sides.remove(side)
        sides = [*(one for one in sides if one != side), *(one for one in sides if one == side)]
        upper = min(upper, high())
    return low


class _Questions:
    """Programs about targets, and what is known of how long they take."""

    def __init__(
        self,
        column: Column,
        program_s: float,
        stopping: Callable[[], bool],
        found: Callable[[Ints, float], object],
        *,
        racing: Callable[[], bool] | None,
    ) -> None:
        self.column, self.program_s, self.stopping, self.found = column, program_s, stopping, found
        self.racing = racing
        self.calls, self.given_up = Callbacks(stop=stopping), 0
        self.groups: dict[int, Group | None] = {}  # By number of islands.
        self.few = len(column.parts or ()) <= _FEW_PARTS

    def ask(self, islands: list[Island], target: float, *, sided: bool, whole: bool = True) -> Status:
        """``infeasible`` if no mapping is within a target, ``unknown`` if that takes too long, or the backend fails.

        With ``sided``, linear programs for the sides of islands that rings cannot pass are asked first; these alone are
        if not ``whole``. ``found`` gets what a solution in whole numbers looks like.
        """
        try:
            if whole and self._repeats(islands, target):
                return Status.FEASIBLE
            program = PartProgram(self.column, islands, up_to(target), self.stopping)
            self.column.forget()
            if self.stopping():
                return Status.UNKNOWN
            until = time.monotonic() + min(_FRACTIONS_S, _SIDED * self.program_s)
            if sided and program.sides and _without_solution(program, 0, self.calls, until):
                return Status.INFEASIBLE
            if not whole:
                return Status.UNKNOWN
            answer = self._solve(program)
            if answer.status is Status.INFEASIBLE or self.stopping():
                return answer.status
            return self._ask_layouts(program, answer)
        except SolverCrashError:
            return Status.UNKNOWN

    def _repeats(self, islands: list[Island], target: float) -> bool:
        """Whether a group of columns is within a target, where islands are alike; ``found`` gets its repetitions."""
        if self.few:
            return False
        if len(islands) not in self.groups:
            self.groups[len(islands)] = group_of(self.column.instance, islands)
        group = self.groups[len(islands)]
        if group is None or self.stopping():
            return False
        # These programs are small.
        program = PartProgram(group.column, group.islands, up_to(target), self.stopping, closed=False)
        group.column.forget()
        values = self._solve(program, both=True).values if not self.stopping() else None
        if values is None or not program.split:
            return False
        self.found(group.repeated(composed(program, values)), target)
        return True

    def _ask_layouts(self, program: PartProgram, answer: ProgramResult) -> Status:
        """Whether whole columns have a solution, too, if these are few; that of the parts where it is unknown."""
        instance, islands, limit = program.instance, program.islands, program.limit
        # Columns of many parts have too many.
        listed = self.few and self.given_up < _VAIN
        layouts = layouts_within(instance, islands, limit, MOST_LAYOUTS) if listed else None
        if layouts is not None:
            finer = LayoutProgram(instance, islands, limit, layouts)
            those = self._solve(finer)
            if those.status is Status.INFEASIBLE:
                return those.status
            if those.values is not None:
                numbers = np.round(those.values[finer.number]).astype(np.int64)
                where = np.repeat(layouts.islands, numbers, axis=0).T
                self.found(placed(instance, islands, where), limit)
                return those.status
            self.given_up += 1
        if answer.values is not None and program.split:
            self.found(composed(program, answer.values), limit)
        return answer.status

    def _solve(self, program: Shares, *, both: bool = False) -> ProgramResult:
        """What either backend answers first, where both are asked: none is the faster one of all programs."""

        def solve(backend: str, ended: Callable[[], bool]) -> ProgramResult:
            calls = Callbacks(stop=lambda: ended() or self.stopping())
            return solve_program(program.model, backend, time_limit_s=self.program_s, callbacks=calls)

        those: tuple[str, ...] = (BACKEND,)
        if missing(FRACTIONS) is None and (both or (self.racing is not None and self.racing())):
            those = BACKEND, FRACTIONS
        elif missing(FRACTIONS) is None and not self.few:
            those = (FRACTIONS,)
        found = race(those, solve, _settled)
        answers = [answer for answer in found if not isinstance(answer, SolverCrashError)]
        return next(filter(_settled, answers), answers[0])


def _settled(answer: ProgramResult) -> bool:
    return answer.status in (Status.INFEASIBLE, Status.OPTIMAL)


def _without_solution(program: Shares, first: int, calls: Callbacks, until: float) -> bool:
    """Whether there are not even fractions, whichever sides of islands columns are on: two linear programs each.

    Where rings cannot pass, that is soon seen in fractions, and whole numbers take long.
    """
    if missing(FRACTIONS) is not None or first == min(len(program.sides), _SIDES):
        return False
    for value in (0.0, 1.0):
        program.model.fix(program.sides[first], value)
        fractions = dataclasses.replace(program.model, binary=[False] * program.model.size)
        left = max(0.0, until - time.monotonic())
        answer = solve_program(fractions, FRACTIONS, time_limit_s=left, central=True, callbacks=calls).status
        refuted = answer is Status.INFEASIBLE or (
            answer is not Status.UNKNOWN and _without_solution(program, first + 1, calls, until)
        )
        program.model.lower[program.sides[first]], program.model.upper[program.sides[first]] = 0.0, 1.0
        if not refuted:
            return False
    return True
