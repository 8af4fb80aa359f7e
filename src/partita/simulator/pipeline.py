"""The lowered pipeline: what each stage of a plan does in seconds and bytes, what it hands on, and what synchronises.

A problem makes it of a plan, once; whoever runs, places, maps or shows the plan reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
class Exchange:
    """What the replicas of a stage exchange once in a step, layer by layer in the order of the forward part.

    Attributes
    ----------
    forward_s, backward_s
        The work that hides exchanges.
    reduce_bytes, gather_bytes
        Of each layer: gradients that all have, and weights of which each replica has a share.
    reduce_wait_s, gather_wait_s
        What an exchange takes beside its bytes.
    scattered
        Whether each replica wants its share of the sum of gradients alone.
    overlap
        Whether exchanges hide: of gradients behind the last backward part, of weights ahead of the first forward part.
    occupied
        Part of a device that they take away from the work that hides them.
    rest_s
        What is waited for besides.
    """

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    reduce_bytes: tuple[float, ...]
    gather_bytes: tuple[float, ...]
    reduce_wait_s: tuple[float, ...]
    gather_wait_s: tuple[float, ...]
    scattered: bool
    overlap: bool
    occupied: float = 0.0
    rest_s: float = 0.0


@dataclass(frozen=True)
class PipelineStage:
    """One stage; what it takes where it was planned, and what it asks of devices wherever they are.

    Attributes
    ----------
    replicas
        For every replica the names of its devices, which run in lockstep; replicas take turns at microbatches. Names
        are empty where the plan says none.
    forward, backward
        Its work; there is no backward work in inference.
    weight_share
        Share of the backward work that makes gradients of weights, and that nobody else waits for.
    in_flight
        Microbatches that each replica may hold at once under 1F1B.
    sync_each
        Time to synchronise weights for every microbatch, once its backward work (in inference its forward work) is
        done and handed over.
    activation_bytes
        What each device holds of each microbatch in flight.
    memory, workspace, limit, weight_bytes
        Bytes of each device: always held, by what for; while it works; that there are; of one version of the weights.
    end
        What happens at the end of a batch.
    link
        The link by which its machine is reached, among the pipeline's links; −1 for none.
    capacity
        Units of size that each device moves per unit of time.
    name, kind
        For people; the kind of device it was planned on.
    work_s
        By kind of device on which it can run, forward and backward seconds of a microbatch on a replica, without what
        passes links between stages. Empty if it is its work on whatever device.
    parameter_bytes
        What each device reduces with those of the other replicas, once per batch.
    update_s
        Of the optimizer, once per batch.
    exchange
        What replicas exchange once in a step, where that is known by layer; otherwise they reduce ``parameter_bytes``,
        evenly behind the backward part.
    """

    replicas: tuple[tuple[str, ...], ...]
    forward: StageWork
    backward: StageWork | None = None
    weight_share: float = WEIGHT_SHARE
    in_flight: int = 1
    sync_each: float = 0.0
    activation_bytes: float = 0.0
    memory: Mapping[str, float] = field(default_factory=dict)
    workspace: float = 0.0
    limit: float | None = None
    weight_bytes: float = 0.0
    end: End = NOTHING
    link: int = -1
    capacity: float = 1.0
    name: str = ""
    kind: str = ""
    work_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    parameter_bytes: float = 0.0
    update_s: float = 0.0
    exchange: Exchange | None = None

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
    """Stages in a row; *nodes* are the forward works, the backward works, and the hops, numbered in that order.

    Attributes
    ----------
    name, unit
        As of programs.
    stages
        First stage first.
    edges
        Pairs of nodes: the second waits for the first, for the same microbatch.
    links, hops
        Links between machines and what passes them.
    messages
        What nodes of stages hand to each other, as in ``Program`` but by node; ``links`` count from 0.
    streams
        What transfers take of a device.
    end_every, notes
        As of programs.
    parts
        Stages that every rank has, if they are given already: of all ranks the first ones, then all second ones. The
        first stage of a rank says what of it happens at the end, and what the whole rank asks of devices.
    handovers
        What ranks hand to each other, in bytes.
    microbatches
        Of a batch, over all replicas.
    schedule
        The name of the schedule it was planned for.
    row
        Whether stages can run one after the other; if not, they wait for each other in a circle.
    numbers
        The plan's stage of each rank; empty if they are in the plan's order.
    duplex
        Whether a device sends and receives at once, so that each end of a transfer counts as half of its time.
    """

    name: str
    unit: str
    stages: tuple[PipelineStage, ...]
    edges: tuple[tuple[int, int], ...] = ()
    links: tuple[Place, ...] = ()
    hops: tuple[Hop, ...] = ()
    messages: tuple[Message, ...] = ()
    streams: Streams = "sum"
    end_every: int | None = None
    notes: tuple[str, ...] = ()
    parts: int = 1
    handovers: tuple[Handover, ...] = ()
    microbatches: int = 1
    schedule: str = "1f1b"
    row: bool = True
    numbers: tuple[int, ...] = ()
    duplex: bool = False

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
