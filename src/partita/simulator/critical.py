"""Why a time line ends when it does: the chain of slices, each of which let the next one start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partita.ground.errors import DisagreementError
from partita.simulator.timeline import SORTS, Timeline


@dataclass(frozen=True)
class CriticalSummary:
    """Where the time up to the end of a chain of slices went; all in the time line's unit."""

    finish: float  #: When the chain's last slice ends.
    by_sort: dict[str, float]  #: Time spent in slices, by the name of their sort, in the order of ``SORTS``.
    #: The same time by the device, or what else the lane belongs to, in the order of the lanes.
    by_owner: dict[str, float]
    #: Before the first slice and between slices; it and ``by_sort`` add up to ``finish``, it and ``by_owner`` too.
    waiting: float


def critical_path(timeline: Timeline) -> list[int]:
    """The places of the slices that decide the finish time, the earliest first.

    The last is the slice that ends last, of several the one with the lowest place; before each stands its cause.

    Raises ``DisagreementError`` if the causes go round in a circle.
    """
    if not timeline.count:
        return []
    cause = timeline.cause.tolist()
    # The first of equal ones.
    place = int(timeline.end.argmax())
    path = []
    while place >= 0:
        path.append(place)
        if len(path) > timeline.count:
            raise DisagreementError(f"{timeline.name}: the causes of the slices go round in a circle")
        place = cause[place]
    return path[::-1]


def critical_summary(timeline: Timeline, path: Sequence[int]) -> CriticalSummary:
    """How much of the time up to the end of a chain is spent on what and where, and how much passes in between.

    The path is places of slices, the earliest first, such as ``critical_path`` gives; where two overlap, the time both
    run counts for the earlier.
    """
    by_sort = [0.0] * len(SORTS)
    by_lane = [0.0] * len(timeline.lanes)
    waiting = reached = 0.0
    for place in path:
        start, end = float(timeline.start[place]), float(timeline.end[place])
        waiting += max(start - reached, 0.0)
        spent = max(end - max(start, reached), 0.0)
        by_sort[int(timeline.sort[place])] += spent
        by_lane[int(timeline.lane[place])] += spent
        reached = max(reached, end)
    owners: dict[str, float] = {}
    for lane, spent in zip(timeline.lanes, by_lane, strict=True):
        owners[lane.owner] = owners.get(lane.owner, 0.0) + spent
    return CriticalSummary(
        reached,
        {sort.name: spent for sort, spent in zip(SORTS, by_sort, strict=True) if spent > 0},
        {owner: spent for owner, spent in owners.items() if spent > 0},
        waiting,
    )
