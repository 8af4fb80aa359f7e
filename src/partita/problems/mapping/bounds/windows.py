"""Rounds through few islands of a row, those on either side of them merged.

Source: own. Devices may be put into islands in any way: what is refuted of the columns of mappings holds. Where a
mapping takes long since some islands in a row are small, the others can be two islands, one on either side, whose links
inside are as fast as the fastest between any of theirs. That leaves few layouts of columns, and of these few for which
others cannot stand, so that targets far above those for which all layouts can be listed are refuted.

A *window* of the row is what is not merged. Windows of up to three islands are asked first, those with the fewest
devices before others and none with more than half of all, and from the one that says most it goes on with those that
have one more, two more, … islands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.search.result import Status
from partita.problems.mapping.bounds.closed_walks import round_within
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.parts import Island, islands_of, partitions
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: How far above the bound a window's targets are at first, and at most, as a share of it; the width of the interval
#: at which bisection ends, as a share of its upper end; the part of all steps that a target has at most; and targets
#: given up after which it leaves a window; and windows in a row whose layouts are too many after which it ends.
_STEP, _LONGEST, _PRECISION, _EACH, _VAIN, _BLIND = 0.01, 0.1, 5e-3, 6, 2, 3
#: Islands at least, so that some can be merged, and at most; and of windows that are asked anyhow.
_FEWEST, MOST_ISLANDS, _SEVERAL = 3, 32, 3

_Window = tuple[int, int]


def in_windows(
    instance: MappingInstance,
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
    islands = next(partitions(instance), [])
    if not _FEWEST <= len(islands) <= MOST_ISLANDS:
        return low
    row, left = Passages(instance, islands).row, steps
    sizes = np.array([len(islands[i].members) for i in row])
    held = {
        window: int(sizes[window[0] : window[1]].sum())
        for a in range(len(row))
        for window in _grown((a, a + 1), len(row), range(_SEVERAL))
    }
    windows = sorted((one for one, devices in held.items() if 2 * devices <= sizes.sum()), key=held.__getitem__)
    best, grown, blind = next(iter(windows), (0, 0)), 0, 0
    while windows:
        looked, raised = False, False
        for window in windows:
            mine = _merged(instance, islands, row, window)
            step, upper, vain = _STEP, high(), 0
            while upper - low > _PRECISION * upper:
                if left <= 0 or stopping():
                    return low
                target = min(low * (1 + step), (low + upper) / 2)
                answer = round_within(instance, mine, target, stopping, min(left, steps // _EACH))
                left -= answer.steps
                looked |= answer.looked
                blind = 0 if answer.looked else blind + 1
                if answer.status is Status.INFEASIBLE:
                    low, step, best, raised = target, min(2 * step, _LONGEST), window, True
                    report(lowered(instance, low))
                    upper = min(upper, high())
                else:
                    upper, vain = target, vain + (answer.status is Status.UNKNOWN)
                    if step == _STEP or vain == _VAIN:
                        break
            if blind == _BLIND:
                return low
        grown = 1 if raised else grown + 1
        windows = list(_grown(best, len(row), range(grown, grown + 1))) if looked else []
    return low


def _grown(window: _Window, count: int, more: range) -> Iterator[_Window]:
    """Windows of a row of islands with so many more islands than one, beside which some are merged."""
    for many in more:
        for before in range(many + 1):
            first, last = window[0] - before, window[1] + many - before
            if first >= 0 and last <= count:
                # One alone is not merged.
                found = (0 if first == 1 else first, count if last == count - 1 else last)
                if found != (0, count):
                    yield found


def _merged(instance: MappingInstance, islands: list[Island], row: list[int], window: _Window) -> list[Island]:
    """Islands of a row, those before and behind a window being one each."""
    first, last = window
    groups = [row[:first], *([i] for i in row[first:last]), row[last:]]
    return islands_of(
        instance, [np.sort(np.concatenate([islands[i].members for i in group])) for group in groups if group]
    )
