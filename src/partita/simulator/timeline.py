"""A time line: what ran when, on which stream of which device, and what memory held meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.shown import brief


class Sort(NamedTuple):
    """A sort of slice."""

    name: str  #: For people.
    letter: str  #: In short: of an action of a schedule the one that torch's schedules use.
    colour: str  #: In pictures, ``#rrggbb``.
    work: bool  #: Whether a device is busy with it; other slices move data or wait for others.


#: The sorts of slices; slices refer to them by place.
SORTS = (
    Sort("forward", "F", "#4c78a8", True),
    Sort("backward", "B", "#f58518", True),
    Sort("input gradient", "I", "#e45756", True),
    Sort("weight gradient", "W", "#b279a2", True),
    Sort("update", "U", "#54a24b", True),
    Sort("operator", "o", "#72b7b2", True),
    Sort("copy in", "<", "#bab0ac", False),
    Sort("copy out", ">", "#9d8f86", False),
    Sort("transfer", "=", "#eeca3b", False),
    Sort("weight sync", "S", "#ff9da6", False),
    Sort("step with prompts", "P", "#4c78a8", True),
    Sort("decode step", "D", "#f58518", True),
)
FORWARD, BACKWARD, INPUT, WEIGHT, UPDATE, OPERATOR, COPY_IN, COPY_OUT, TRANSFER, SYNC, PROMPT, DECODE = range(
    len(SORTS)
)


class Lane(NamedTuple):
    """One row of a time line: nothing overlaps on it unless it is ``shared``."""

    device: int  #: Place among the time line's devices; −1 for what belongs to none, such as the link of a machine.
    owner: str  #: Name of the device, or of what else it belongs to.
    stream: str  #: ``compute``, ``copy``, ``in``, ``out``, ``link``, ``sync``.
    shared: bool = False  #: Whether slices may overlap.


@dataclass(frozen=True)
class MemoryCurve:
    """What one device holds over time."""

    #: (k,) Ascending instants at which something changes, the first 0; from each on the values hold. One at which
    #: something takes no time may come twice, first with the most that is held within it.
    times: Floats
    parts: dict[str, Floats]  #: By what it is for (``weights``, ``activations``, …), (k,) bytes.
    limit: float | None = None  #: Bytes there are; None for no limit.

    @property
    def total(self) -> Floats:
        """(k,) All parts together."""
        return np.sum(list(self.parts.values()), axis=0) if self.parts else np.zeros(len(self.times))

    @property
    def peak_bytes(self) -> float:
        """The most it holds at once."""
        return float(self.total.max()) if len(self.times) else 0.0

    @property
    def peak_time(self) -> float:
        """The first instant at which it holds that."""
        return float(self.times[int(self.total.argmax())]) if len(self.times) else 0.0


@dataclass(frozen=True)
class Timeline:
    """Slices on lanes, sorted as the tasks were built; every array has one entry a slice unless said otherwise."""

    name: str  #: What is shown, for titles.
    unit: str  #: Of all times.
    devices: tuple[str, ...]  #: Names.
    lanes: tuple[Lane, ...]  #: The rows, those of a device together.
    #: Times.
    start: Floats
    end: Floats
    #: Places among ``lanes`` and ``SORTS``.
    lane: Longs
    sort: Longs
    #: Numbers; −1 where it belongs to none.
    stage: Longs
    microbatch: Longs
    names: tuple[str, ...]  #: Names of slices where sort, stage and microbatch do not say enough; empty otherwise.
    cause: Longs  #: The slice whose end let it start; −1 for none.
    flows: Longs  #: (f, 2) Pairs of slices: what the first made, the second reads on another lane.
    memory: tuple[MemoryCurve, ...] = ()  #: One curve a device; empty if nothing is known.

    __repr__ = brief

    @property
    def count(self) -> int:
        """How many slices there are."""
        return len(self.start)

    @property
    def finish(self) -> float:
        """When the last slice ends; 0 if there is none."""
        return float(self.end.max()) if self.count else 0.0

    def label(self, place: int) -> str:
        """A slice in a few words: ``forward 3, stage 1``."""
        if self.names and self.names[place]:
            return self.names[place]
        words = SORTS[int(self.sort[place])].name
        if self.microbatch[place] >= 0:
            words += f" {int(self.microbatch[place])}"
        return words + (f", stage {int(self.stage[place])}" if self.stage[place] >= 0 else "")
