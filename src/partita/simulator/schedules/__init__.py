"""The schedules there are."""

from __future__ import annotations

from partita.ground.errors import InputError
from partita.ground.registry import Shelf
from partita.simulator.schedules.csv import read_schedule
from partita.simulator.schedules.dualpipe_v import DualPipeV
from partita.simulator.schedules.forward import ForwardOnly
from partita.simulator.schedules.gpipe import GPipe
from partita.simulator.schedules.interleaved import Interleaved
from partita.simulator.schedules.interleaved_zero_bubble import InterleavedZeroBubble
from partita.simulator.schedules.looped_bfs import LoopedBreadthFirst
from partita.simulator.schedules.one_forward_one_backward import OneForwardOneBackward
from partita.simulator.schedules.pipedream import PipeDream
from partita.simulator.schedules.protocol import Schedule
from partita.simulator.schedules.two_buffered_weights import TwoBufferedWeights
from partita.simulator.schedules.zero_bubble import ZeroBubbleH1
from partita.simulator.schedules.zero_bubble_v import ZeroBubbleV

#: The ending of files of schedules.
CSV = ".csv"

DEFAULT_SCHEDULES: tuple[Schedule, ...] = (
    ForwardOnly(),
    GPipe(),
    OneForwardOneBackward(),
    Interleaved(),
    LoopedBreadthFirst(),
    ZeroBubbleH1(),
    InterleavedZeroBubble(),
    ZeroBubbleV(),
    DualPipeV(),
    PipeDream(),
    TwoBufferedWeights(),
)


class _Schedules(Shelf[Schedule]):
    """The schedules, of which none may be called as a file is."""

    def unfit(self, component: Schedule) -> str:
        return f"a name that ends in {CSV} is that of a file" if component.name.lower().endswith(CSV) else ""


#: Those of the list and those that were added.
SCHEDULES = _Schedules("schedule", Schedule, lambda: DEFAULT_SCHEDULES, ("name", "summary", "orders()"))


def find_schedule(name: str) -> Schedule:
    """The schedule with a name, or the one that a file gives if the name ends in ``.csv``.

    Raises ``InputError`` if there is no schedule of that name, or the file is not one that ``read_schedule`` reads.
    """
    if name.lower().endswith(CSV):
        return read_schedule(name)
    found = SCHEDULES.get(name)
    if found is None:
        raise InputError(
            f"there is no schedule {name!r}; use {SCHEDULES.known}, or a file in torch's format that ends in {CSV}"
        )
    return found
