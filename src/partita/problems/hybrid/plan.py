"""A hybrid plan: stages with their degrees of parallelism, first stage first."""

from __future__ import annotations

import msgspec


class HybridStage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage, on ``data_parallel · context_parallel · tensor_parallel`` devices; files say what it is worth.

    In a problem with a hierarchy, consecutive stages of one *machine group* share machines: each of the group's
    machines runs all of them, and the group is data-parallel over its machines.

    Attributes
    ----------
    operators
        Ids of its layers, in the problem's order.
    data_parallel
        Replicas of the stage (d), over all machines; they take turns at microbatches.
    tensor_parallel
        Devices of each replica (t).
    configurations
        Id of the configuration chosen for each layer, all of degree t.
    device
        Kind of its devices; the problem's first if empty.
    machines
        Machines of its machine group (d_2); they divide ``data_parallel``. None without a hierarchy.
    machine_group
        Number of its machine group, 0 for the first, never falling from stage to stage. None without a hierarchy, and
        in plans of a step.
    chunks
        Under an interleaved schedule, its layers as parts that are passed one after the other: of all stages the first
        parts come first, then all second ones. Empty if the stage is passed once.
    context_parallel
        Groups of t devices that share out the sequence of each replica (c).
    expert_parallel
        Of the d·c groups of t devices so many, one behind the other, share out the experts of each layer (e).
    """

    operators: tuple[int, ...]
    data_parallel: int
    tensor_parallel: int
    configurations: dict[int, str]
    device: str = ""
    machines: int | None = None
    machine_group: int | None = None
    chunks: tuple[tuple[int, ...], ...] = ()
    context_parallel: int = 1
    expert_parallel: int = 1

    @property
    def devices(self) -> int:
        """Devices it uses."""
        return self.data_parallel * self.context_parallel * self.tensor_parallel

    @property
    def replicas_per_machine(self) -> int:
        """Replicas within each of its machines (d_1); all of them without a hierarchy."""
        return self.data_parallel // (self.machines or 1)


class HybridPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stages in pipeline order, first stage first.

    Attributes
    ----------
    stages
        The stages.
    schedule
        How microbatches run through them.
    zero
        What replicas share out (ZeRO's stage): 0 nothing, 1 optimizer states, 2 gradients, 3 weights as well.
    """

    stages: tuple[HybridStage, ...]
    schedule: str = "1f1b"
    zero: int = 0

    @property
    def chunks(self) -> int:
        """How often a microbatch passes the row of stages."""
        return max((len(stage.chunks) for stage in self.stages), default=0) or 1

    @property
    def devices(self) -> int:
        """Devices that all stages use together."""
        return sum(stage.devices for stage in self.stages)

    @property
    def machines(self) -> int:
        """Machines that all machine groups use together; 0 without a hierarchy."""
        groups = {stage.machine_group: stage.machines for stage in self.stages}
        return sum(count or 0 for count in groups.values())

    @property
    def microbatches(self) -> int:
        """Microbatches in flight: data-parallel replicas of all stages together."""
        return sum(stage.data_parallel for stage in self.stages)
