"""Rounds of columns: one after another along the rings, through islands that they fill together.

Source: own; ``partita.problems.mapping.bounds.closed_walks`` says what a round is, and how a target is refuted. Against
counting layouts (``partita.problems.mapping.bounds.layout_program``), all rings of a column lead to the same next one.
"""

from __future__ import annotations

from collections.abc import Callable

from partita.engines.kernels.arrays import Ints
from partita.engines.search.result import Status
from partita.ground.rounding import GAP
from partita.problems.mapping.bounds.closed_walks import STEPS, Round, round_within
from partita.problems.mapping.bounds.composing import placed
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.parts import Island, partitions
from partita.problems.mapping.bounds.raising import Meanwhile, RaisingBound, without_columns
from partita.problems.mapping.bounds.windows import MOST_ISLANDS, in_windows
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem

#: Width of the interval at which bisection ends, as a share of its upper end; how far above the bound targets are
#: at first, where what is easy is asked and else, and at most, as a share of it; and targets given up after which there
#: are no more.
_PRECISION, _STEP, _CLOSER, _LONGEST, _VAIN = 1e-3, 0.05, 0.015, 0.1, 2
#: Steps along rounds of what is easy, for all targets, and in windows; and width of the interval where layouts are too
#: many above it.
_EASY_STEPS, _EASY_WINDOWS, _COARSE = 1_000_000_000, 4_000_000_000, 0.05
#: How far above a target that is given up rounds are made, as shares of it.
_ABOVE = (0.01, 0.025, 0.05, 0.1, 0.2)


class Rounds(RaisingBound):
    """See the module."""

    name = "rounds"
    summary = "columns one after another through groups of devices with fast links that they fill; needs few groups"
    argument = "no round of columns within the target fills all groups of devices, whichever begins it"

    def supports(self, problem: MappingProblem) -> str | None:
        reason = without_columns(problem)
        return reason or (None if problem.counts[0] > 1 else "there is one replica of every stage")

    def __init__(self) -> None:
        self._windows_first = True

    def raised(self, instance: MappingInstance, low: float, beside: Meanwhile) -> float:
        easy = beside.turn == "first"

        def whole(low: float) -> float:
            return rounds_bound(instance, low, beside.high, beside.stopping, beside.report, beside.found, easy=easy)

        def windows(low: float) -> float:
            steps = _EASY_WINDOWS if easy else 2 * STEPS
            return in_windows(instance, low, beside.high, beside.stopping, beside.report, steps)

        # What said the last word goes first the next time.
        for asked in (windows, whole) if self._windows_first else (whole, windows):
            before, low = low, asked(low)
            if low > before:
                self._windows_first = asked is windows
        return low


def rounds_bound(
    instance: MappingInstance,
    low: float,
    high: Callable[[], float],
    stopping: Callable[[], bool],
    report: Callable[[float], object] = lambda value: None,
    found: Callable[[Ints, float], object] = lambda device, target: None,
    *,
    easy: bool = False,
) -> float:
    """The largest refuted target between a bound and the objective of a mapping; ``report`` gets every better bound.

    There are devices enough, and as many replicas of every stage, more than one. ``high`` is asked again for every
    target, after ``found`` got a mapping that is made of a round, and its target; ``stopping`` is polled, and true ends
    it. What is ``easy`` takes fewer steps, and does not look closely for where layouts get too many.
    """
    left = steps = _EASY_STEPS if easy else 2 * STEPS
    for number, islands in enumerate(partitions(instance)):
        if len(islands) > MOST_ISLANDS:
            return low
        upper, vain, width = high(), 0, _PRECISION

        def ask(target: float, islands: list[Island] = islands, *, proving: bool = True) -> Round:
            nonlocal left
            most = min(left, steps // 2) if proving else steps // 8
            answer = round_within(instance, islands, target, stopping, most, proving=proving)
            left -= answer.steps
            if answer.islands is not None:
                found(placed(instance, islands, answer.islands.T), target)
            elif answer.status is Status.INFEASIBLE:
                report(lowered(instance, target))
            return answer

        # Targets far below are refuted soon, those far above have too many layouts. Finer islands have to show that
        # they know more at all.
        step = 2 * _PRECISION if number else _STEP if easy else _CLOSER
        target = low * (1 + step)
        while target < upper and upper - low > width * upper and vain < _VAIN and left > 0 and not stopping():
            answer = ask(target)
            if answer.status is Status.INFEASIBLE:
                low, step = target, min(2 * step, _LONGEST)
            elif number and step == 2 * _PRECISION:
                break
            else:
                upper, width = target, _PRECISION if answer.looked or not easy else _COARSE
                vain += answer.status is Status.UNKNOWN and answer.looked
            upper = min(upper, high())
            target = min(low * (1 + step), (low + upper) / 2)
        # Where it is not known if there are rounds, there are a little above.
        for more in _ABOVE if vain and not number else ():
            target = upper * (1 + more)
            if target >= high() or stopping() or ask(target, proving=False).islands is not None:
                break
        # Often nothing is left between.
        last = high() * (1 - GAP)
        near = low < last <= (1 + 2 * _PRECISION) * low and not stopping()
        if near and ask(last).status is Status.INFEASIBLE:
            low = last
        if width == _COARSE:
            # Layouts of finer islands are more.
            break
    return low
