"""The lowered pipeline: what each stage of a plan does in seconds and bytes, what it hands on, and what synchronises.

A problem makes it of a plan, once; whoever runs, places, maps or shows the plan reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from partita.ground.shown import brief
from partita.simulator.program import End, Message, Place, Streams

#: The share of backward work that makes gradients of weights, where nothing more is known.
WEIGHT_SHARE = 0.5

#: Nothing happens at the end of a batch.
NOTHING = End()


@dataclass(frozen=True)
class StageWork:
    """What a device does for one microbatch, and how long it moves data before and after, in units of time.

    ``traffic`` is the share of the work that is traffic inside the replica.
    """

    time: float = 0.0
    incoming: float = 0.0
    outgoing: float = 0.0
    traffic: float = 0.0

    def part(self, share: float) -> StageWork:
        """A share of the work, with all transfers."""
        return replace(self, time=self.time * share)


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """What groups of devices that hold the same weights exchange, layer by layer in the order of the forward part."""

    #: Of each layer: gradients that all have, and weights of which each group has a share.
    reduce_bytes: tuple[float, ...]
    gather_bytes: tuple[float, ...]
    #: What an exchange takes beside its bytes.
    reduce_wait_s: tuple[float, ...]
    gather_wait_s: tuple[float, ...]
    #: Where groups share out among some what others hold, too: how many hold a share, and of each layer what the sum of
    #: gradients is of each share, which all that have it exchange; empty otherwise.
    copies: int = 1
    sum_bytes: tuple[float, ...] = ()
    sum_wait_s: tuple[float, ...] = ()
    width: int = 0  #: Devices of a group, counted through all replicas of the stage; 0 for those of a replica.


@dataclass(frozen=True, kw_only=True)
class Exchange(Exchanged):
    """What the replicas of a stage exchange once in a step, and the work behind which that hides."""

    #: The work that hides exchanges.
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    scattered: bool  #: Whether each replica wants its share of the sum of gradients alone.
    #: Whether exchanges hide: of gradients behind the last backward part, of weights ahead of the first forward part.
    overlap: bool
    occupied: float = 0.0  #: Part of a device that they take away from the work that hides them.
    rest_s: float = 0.0  #: What is waited for besides.
    experts: Exchanged | None = None  #: Of weights that a group shares out among its devices, so that it is larger.


#: Nothing.
NO_EXCHANGE = Exchange(
    reduce_bytes=(),
    gather_bytes=(),
    reduce_wait_s=(),
    gather_wait_s=(),
    forward_s=(),
    backward_s=(),
    scattered=False,
    overlap=False,
)


@dataclass(frozen=True)
class PipelineStage:
    """One stage; what it takes where it was planned, and what it asks of devices wherever they are."""

    #: For every replica the names of its devices, which run in lockstep; replicas take turns at microbatches. Names are
    #: empty where the plan says none.
    replicas: tuple[tuple[str, ...], ...]
    #: Its work; there is no backward work in inference.
    forward: StageWork
    backward: StageWork | None = None
    #: Share of the backward work that makes gradients of weights, and that nobody else waits for.
    weight_share: float = WEIGHT_SHARE
    in_flight: int = 1  #: Microbatches that each replica may hold at once under 1F1B.
    #: Time to synchronise weights for every microbatch, once its backward work (in inference its forward work) is done
    #: and handed over.
    sync_each: float = 0.0
    activation_bytes: float = 0.0  #: What each device holds of each microbatch in flight.
    #: Bytes of each device: always held, by what for; while it works; that there are; of one version of the weights.
    memory: Mapping[str, float] = field(default_factory=dict)
    workspace: float = 0.0
    limit: float | None = None
    weight_bytes: float = 0.0
    end: End = NOTHING  #: What happens at the end of a batch.
    link: int = -1  #: The link by which its machine is reached, among the pipeline's links; −1 for none.
    capacity: float = 1.0  #: Units of size that each device moves per unit of time.
    #: For people; the kind of device it was planned on.
    name: str = ""
    kind: str = ""
    #: By kind of device on which it can run, forward and backward seconds of a microbatch on a replica, without what
    #: passes links between stages. Empty if it is its work on whatever device.
    work_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    parameter_bytes: float = 0.0  #: What each device reduces with those of the other replicas, once per batch.
    update_s: float = 0.0  #: Of the optimizer, once per batch.
    #: What replicas exchange once in a step, where that is known by layer; otherwise they reduce ``parameter_bytes``,
    #: evenly behind the backward part.
    exchange: Exchange | None = None
    together: int = 1  #: Replicas, one after the other, that have to be neighbours, because they share out experts.

    __repr__ = brief

    @property
    def data_parallel(self) -> int:
        """Replicas that take turns: microbatch m is that of replica m mod so many."""
        return len(self.replicas)

    @property
    def group(self) -> int:
        """Devices of each replica."""
        return len(self.replicas[0])

    @property
    def own(self) -> tuple[tuple[int, ...], ...]:
        """By replica, the devices that the plan itself names, counted among those of the kind; empty for none."""
        if not all(name for group in self.replicas for name in group):
            return ()
        return tuple(tuple(int(name.rpartition(":")[2]) for name in group) for group in self.replicas)

    @property
    def by_kind(self) -> Mapping[str, tuple[float, float]]:
        """By kind of device on which it can run, its forward and backward seconds."""
        alone = self.forward.time, 0.0 if self.backward is None else self.backward.time
        return self.work_s or {self.kind: alone}

    @property
    def planned_s(self) -> tuple[float, float]:
        """Forward and backward seconds on the kind it was planned on."""
        return self.by_kind[self.kind]

    @property
    def later_share(self) -> float:
        """Of the seconds of the backward part, what makes gradients of weights, where a schedule puts that off."""
        whole = self.planned_s[1]
        return self.weight_share * self.backward.time / whole if self.backward is not None and whole > 0 else 0.0


@dataclass(frozen=True)
class Hop:
    """A transfer over a link, for every microbatch: how long, and whether it leaves the link's machine."""

    link: int
    time: float
    outward: bool


@dataclass(frozen=True)
class Handover:
    """Bytes that one stage hands to another for a microbatch, in its forward or its backward part."""

    source: int
    target: int
    bytes: float
    backward: bool = False


@dataclass(frozen=True)
class Pipeline:
    """Stages in a row; *nodes* are the forward works, the backward works, and the hops, numbered in that order."""

    #: As of programs.
    name: str
    unit: str
    stages: tuple[PipelineStage, ...]  #: First stage first.
    edges: tuple[tuple[int, int], ...] = ()  #: Pairs of nodes: the second waits for the first, for the same microbatch.
    #: Links between machines and what passes them.
    links: tuple[Place, ...] = ()
    hops: tuple[Hop, ...] = ()
    #: What nodes of stages hand to each other, as in ``Program`` but by node; ``links`` count from 0.
    messages: tuple[Message, ...] = ()
    streams: Streams = "sum"  #: What transfers take of a device.
    #: As of programs.
    end_every: int | None = None
    notes: tuple[str, ...] = ()
    #: Stages that every rank has, if they are given already: of all ranks the first ones, then all second ones. The
    #: first stage of a rank says what of it happens at the end, and what the whole rank asks of devices.
    parts: int = 1
    handovers: tuple[Handover, ...] = ()  #: What ranks hand to each other, in bytes.
    microbatches: int = 1  #: Of a batch, over all replicas.
    schedule: str = "1f1b"  #: The name of the schedule it was planned for.
    row: bool = True  #: Whether stages can run one after the other; if not, they wait for each other in a circle.
    numbers: tuple[int, ...] = ()  #: The plan's stage of each rank; empty if they are in the plan's order.
    #: Whether a device sends and receives at once, so that each end of a transfer counts as half of its time.
    duplex: bool = False

    __repr__ = brief

    @property
    def training(self) -> bool:
        """Whether there is backward work."""
        return any(stage.backward is not None for stage in self.stages)

    def number(self, rank: int) -> int:
        """The plan's stage of a rank."""
        return self.numbers[rank] if self.numbers else rank

    @property
    def passed_once(self) -> bool:
        """Whether a microbatch passes each rank once, one after the other: only then are placed plans simulated."""
        return self.row and self.parts == 1

    @property
    def ranks(self) -> tuple[PipelineStage, ...]:
        """What every rank asks of devices."""
        return self.stages[: len(self.stages) // self.parts]
