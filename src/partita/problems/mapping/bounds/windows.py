"""Rounds through few islands of a row, those on either side of them merged.

Source: own. Devices may be put into islands in any way: what is refuted of the columns of mappings holds. Where a
mapping takes long since some islands in a row are small, the others can be two islands, one on either side, whose links
inside are as fast as the fastest between any of theirs. That leaves few layouts of columns, and of these few for which
others cannot stand, so that targets far above those for which all layouts can be listed are refuted.

A *window* of the row is what is not merged. Windows of one island are asked first, and from the one that says most it
goes on with those that have one more, two more, … islands, until layouts are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.search.result import Status
from partita.problems.mapping.bounds.closed_walks import round_within
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.parts import Island, islands_of
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: How far above the bound a window's targets are at first, and at most, as a share of it; the width of the interval
#: at which bisection ends, as a share of its upper end; and the part of all steps that a target has at most.
_STEP, _LONGEST, _PRECISION, _EACH = 0.01, 0.1, 1e-3, 8

_Window = tuple[int, int]


def in_windows(
    instance: MappingInstance,
    islands: list[Island],
    low: float,
    high: Callable[[], float],
    stopping: Callable[[], bool],
    report: Callable[[float], object],
    steps: int,
) -> float:
    """The largest target that windows of some islands refute, between a bound and the objective of a mapping.

    ``report`` gets every better bound, ``high`` is asked again for every target, ``stopping`` is polled, and ``steps``
    are the most steps along pairs of layouts, for all targets.
    """
    row, left = Passages(instance, islands).row, steps
    best, grown, looked = (0, 0), 1, True
    while looked:
        looked, raised = False, False
        for window in _windows(best, grown, len(row)):
            mine = _merged(instance, islands, row, window)
            step, upper = _STEP, high()
            while upper - low > _PRECISION * upper:
                if left <= 0 or stopping():
                    return low
                target = min(low * (1 + step), (low + upper) / 2)
                answer = round_within(instance, mine, target, stopping, min(left, steps // _EACH))
                left -= answer.steps
                looked |= answer.looked
                if answer.status is Status.INFEASIBLE:
                    low, step, best, raised = target, min(2 * step, _LONGEST), window, True
                    report(lowered(instance, low))
                    upper = min(upper, high())
                elif step == _STEP:
                    break
                else:
                    upper = target
        grown = 1 if raised else grown + 1
    return low


def _windows(window: _Window, more: int, count: int) -> Iterator[_Window]:
    """Windows of a row with so many more islands than one; of one island where that has none."""
    first, last = window
    for a in range(first - more, first + 1) if last > first else range(count):
        b = a + (last - first) + more
        # All islands are no window, and one that is merged alone is not merged.
        if a >= 0 and b <= count and (a > 1 or b < count - 1):
            yield a, b


def _merged(instance: MappingInstance, islands: list[Island], row: list[int], window: _Window) -> list[Island]:
    """Islands of a row, those before and behind a window being one each."""
    first, last = window
    groups = [row[:first], *([i] for i in row[first:last]), row[last:]]
    return islands_of(
        instance, [np.sort(np.concatenate([islands[i].members for i in group])) for group in groups if group]
    )
