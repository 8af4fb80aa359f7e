"""A time line of a schedule whose starts and ends are known already: nothing is simulated, causes are read off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partita.ground.errors import InputError
from partita.simulator.timeline import Lane, Timeline


class Span(NamedTuple):
    """One slice."""

    #: Places among the lanes and ``partita.simulator.timeline.SORTS``.
    lane: int
    sort: int
    #: Times.
    start: float
    end: float
    name: str  #: For people.
    #: Places of the slices that had to end before: what it reads, and who held what it needs.
    before: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()  #: Those of them whose results it reads on another lane.


def fixed_timeline(
    name: str, unit: str, devices: Sequence[str], lanes: Sequence[Lane], spans: Sequence[Span]
) -> Timeline:
    """The time line of spans.

    The cause of a slice is, of those that had to end before it, the one that ended last (of equal ones the one that
    took longest, then the first); what passes between that end and its start is waiting.

    Raises ``InputError`` if a slice is said to wait for itself or for one that is not there.
    """
    count = len(spans)
    cause = np.full(count, -1, dtype=np.int64)
    for place, span in enumerate(spans):
        for other in span.before:
            if other == place or not 0 <= other < count:
                raise InputError(f"{name}: slice {span.name!r} waits for slice {other}, which is not another one")
        if span.before:
            cause[place] = max(span.before, key=lambda b: (spans[b].end, spans[b].end - spans[b].start, -b))
    flows = [(other, place) for place, span in enumerate(spans) for other in span.reads]
    none = np.full(count, -1, dtype=np.int64)
    return Timeline(
        name=name,
        unit=unit,
        devices=tuple(devices),
        lanes=tuple(lanes),
        start=np.array([span.start for span in spans], dtype=np.float64),
        end=np.array([span.end for span in spans], dtype=np.float64),
        lane=np.array([span.lane for span in spans], dtype=np.int64),
        sort=np.array([span.sort for span in spans], dtype=np.int64),
        stage=none,
        microbatch=none,
        names=tuple(span.name for span in spans),
        cause=cause,
        flows=np.array(flows, dtype=np.int64).reshape(-1, 2),
    )
