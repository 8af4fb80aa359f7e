"""What is simulated: steps that every microbatch takes, on places that are devices in a pipeline or links between.

Problems and schedules make programs; ``partita.simulator.simulate`` makes tasks of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.ground.shown import brief

#: What a transfer takes at its ends: the device itself, its one copy engine, or an engine for each direction.
Streams = Literal["sum", "overlap", "duplex"]

#: What transfers between devices do to each other: nothing, share fairly, or wait.
Contention = Literal["dedicated", "shared", "serial"]

#: Every way in which transfers may stand in each other's way.
CONTENTIONS: tuple[Contention, ...] = ("dedicated", "shared", "serial")


@dataclass(frozen=True)
class Place:
    """Where steps run: a set of replicas that take turns at microbatches, or a link with as many instances.

    Microbatch m is that of instance m mod ``instances``.
    """

    name: str  #: For people: ``stage 0``, ``link of group 1``.
    #: For every instance its devices, which run in lockstep; empty for links.
    replicas: tuple[tuple[str, ...], ...] = ()
    instances: int = 1  #: How many there are of it.
    #: What transfers take of a device. A link does ``sum`` and ``overlap`` one after the other, ``duplex`` has a lane
    #: in each direction.
    streams: Streams = "sum"
    #: Bytes that each device holds all the time, by what for.
    memory: Mapping[str, float] = field(default_factory=dict)
    activations: str = "activations"  #: What the bytes are called that steps hold for a microbatch.
    workspace: float = 0.0  #: Bytes that each device needs while it works.
    limit: float | None = None  #: Bytes that each device has; None for no limit.
    #: Whether it does several things at once, such as a CPU of many cores, or a link that nobody waits for; then there
    #: is no order for it.
    parallel: bool = False
    #: Units of size that a device of it, or it, moves per unit of time, where messages have sizes.
    capacity: float = 1.0

    @property
    def is_link(self) -> bool:
        """Whether it is no device."""
        return not self.replicas


@dataclass(frozen=True)
class Step:
    """Something that happens to every microbatch at one place: copy in, work, copy out."""

    #: Number of its place, and of the stage that it belongs to (−1 for none).
    place: int
    stage: int
    letter: str  #: The schedule's: ``F``, ``B``, ``I``, ``W``; ``=`` for a transfer over a link.
    sort: int  #: Sort of its work on the time line.
    #: Of its work (on a link: of the transfer), and of the device's transfers before and after that.
    time: float
    incoming: float = 0.0
    outgoing: float = 0.0
    traffic: float = 0.0  #: Share of its work that is traffic among the devices of a replica, which nothing hides.
    outward: bool = False  #: For a link: whether the transfer leaves the place; duplex links have a lane for each.
    #: Bytes that are held from the start of its work, and that are given back at the end.
    saves: float = 0.0
    frees: float = 0.0
    #: (microbatches,) Time and sort of the work where they are not the same for every microbatch; None otherwise.
    times: Floats | None = None
    sorts: Longs | None = None
    #: (microbatches,) Where it does not happen and takes no time; None for nowhere.
    absent: Bools | None = None
    name: str = ""  #: Of its slices, where sort, stage and microbatch do not say enough.
    not_before: Floats | None = None  #: (microbatches,) When it may start at the earliest; None for at any time.


@dataclass(frozen=True)
class Message:
    """What one step hands to another at another place, where transfers are in each other's way."""

    #: Numbers of the steps.
    source: int
    target: int
    #: Units, and a fixed time.
    size: float
    latency: float = 0.0
    links: tuple[int, ...] = ()  #: Numbers of the places that it passes between the two.


@dataclass(frozen=True)
class End:
    """What a place does at the end of a batch, once all its replicas have done their last step.

    Without a flush, synchronisation goes on beside the next batches' work, and updates take the devices in between.
    """

    sync: float = 0.0  #: Time to synchronise the replicas' weights among the devices.
    #: How synchronisation hides behind the last backward step: pairs of a share of its work and the time of what can be
    #: synchronised once that is done. Empty: all of it after the work.
    behind: tuple[tuple[float, float], ...] = ()
    #: A link that is busy for so long after that, in all its instances at once; −1 for none.
    link: int = -1
    link_sync: float = 0.0
    update: float = 0.0  #: Time of the optimizer's step.


@dataclass(frozen=True)
class Order:
    """What one instance of a place does, in order: steps and microbatches, of equal length."""

    place: int
    instance: int
    steps: Longs
    microbatches: Longs


@dataclass(frozen=True)
class Program:
    """What is simulated."""

    #: For titles; of all times.
    name: str
    unit: str
    #: As above. Edges and orders refer to them by number.
    places: Sequence[Place]
    steps: Sequence[Step]
    #: Pairs of steps: the second waits for the first, for the same microbatch. Between places of devices these are
    #: handed over by copies or over links that are steps of their own.
    edges: Sequence[tuple[int, int]]
    #: For every instance of every place of devices that is not ``parallel``; None for rounds
    #: (``partita.simulator.rounds``), where every stream takes what is due in the order of the rounds.
    orders: Sequence[Order] | None
    microbatches: int  #: Of one batch.
    #: The same edges between devices as transfers, for other contention than ``dedicated``; empty if not known.
    messages: Sequence[Message] = ()
    #: How many follow each other without a break, and the number of the one whose step is looked at.
    batches: int = 1
    counted: int = 0
    ends: Sequence[End] = ()  #: One for every place, or none at all; none where there are no orders.
    end_every: int | None = None  #: In an endless run, the microbatches between two ends; those of one batch if None.
    #: For every place how many batches' weights are held at once: a batch may begin when the one that many before it
    #: has been synchronised. Only with several batches.
    versions: Sequence[int] = ()
    interval: float = 0.0  #: Time between the arrivals of two microbatches; 0 if all are there from the start.
    contention: Contention = "dedicated"  #: What transfers do to each other.
    schedule: str = "forward"  #: Name of the schedule.
    flushes: bool = True  #: Whether the pipeline drains at the end of every batch.
    barrier: bool = False  #: Whether no backward step starts before every forward one of the batch has ended.
    #: Whether the times between microbatches settle inside a batch, so that its steady state can be read there.
    settles: bool = True
    notes: tuple[str, ...] = ()  #: What a reader should know about how it was made.
    #: What people call one of the ``microbatches``, and several.
    pieces: tuple[str, str] = ("microbatch", "microbatches")

    __repr__ = brief

    @property
    def total(self) -> int:
        """Microbatches of all batches."""
        return self.microbatches * self.batches
