"""A pipelined plan: stages in the order in which a microbatch passes them, each with its operators and devices.

It is what is decided, and the same value whatever problem it answers. What a stage then takes, holds and hands on is
the lowered pipeline (``partita.simulator.stages``), which a problem makes of it.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec

from partita.ground.errors import InputError
from partita.ground.shown import brief

#: ``acyclic``: the stages can be ordered so that every tensor goes forward; ``free``: any assignment.
Contiguity = Literal["acyclic", "free"]


class SharedDegrees(NamedTuple):
    """What the devices of a stage share out beside features: sequences, and experts."""

    context: int = 1  #: Groups that share out the sequence of each replica (c).
    expert: int = 1  #: Groups that share out the experts of each layer (e).
    #: Devices of each such group, which share out the features of every expert (x); 0 for a tensor-parallel group.
    expert_tensor: int = 0

    @property
    def shares_experts(self) -> bool:
        """Whether experts have other groups than all else."""
        return self.expert > 1 or self.expert_tensor > 0

    def experts_on(self, tensor: int) -> int:
        """Devices that hold every expert once, all neighbours, given those of a tensor-parallel group."""
        return self.expert * (self.expert_tensor or tensor)

    def block(self, tensor: int) -> int:
        """The fewest devices that are whole tensor-parallel groups and whole groups of experts: all in one machine."""
        return math.lcm(tensor, self.expert_tensor or 1)

    def __str__(self) -> str:
        if not self.expert_tensor:
            return f"context degree {self.context} and expert degree {self.expert}"
        experts = f"expert degree {self.expert} and expert-tensor degree {self.expert_tensor}"
        return f"context degree {self.context}, {experts}"


#: Neither.
UNSHARED = SharedDegrees()


def state_copies(groups: int, shards: int) -> int:
    """How often state that ZeRO shares out is held, given all groups of the same weights and those that share it out.

    0 of them are all. (``num_distributed_optimizer_instances`` of Megatron Core, ``data_parallel_replicate_degree`` of
    torchtitan.)
    """
    return max(1, groups // shards) if shards else 1


def zero_text(zero: int, shards: int) -> str:
    """ZeRO's stage, and among how many groups it shares out where these are not all, in words; empty for none."""
    return f"ZeRO-{zero}" + (f" among {shards}" if shards else "") if zero else ""


class Stage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What runs together on ``data_parallel · context_parallel · tensor_parallel`` devices.

    In a problem with a hierarchy, consecutive stages of one *machine group* share machines: each of the group's
    machines runs all of them, and the group is data-parallel over its machines.

    Raises ``InputError`` if it names more or fewer devices than its degrees make.
    """

    #: Ids of its operators, or of the layers that the problem is about: in the order in which they run if the problem
    #: counts working memory by peaks, otherwise in any.
    operators: tuple[int, ...]
    #: Name of its kind of device; the problem's first if empty. ``device`` in files.
    kind: str = msgspec.field(default="", name="device")
    #: Names of its devices (``<kind>:<number>``), replica after replica. Empty where the plan does not name them:
    #: devices of a kind are then taken in their order, along the stages.
    devices: tuple[str, ...] = ()
    data_parallel: int = 1  #: Replicas of the stage (d), over all machines; they take turns at microbatches.
    tensor_parallel: int = 1  #: Devices of each group that shares out the work on a part of a sequence (t).
    context_parallel: int = 1  #: Such groups that share out the sequence of each replica (c).
    #: Of the d·c groups so many, one behind the other, share out the experts of each layer (e).
    expert_parallel: int = 1
    #: If not 0, experts have groups of their own: of all d·c·t devices so many share out the features of an expert (x),
    #: and ``expert_parallel`` such groups, one behind the other, the experts (Liu et al., "MoE Parallel Folding with
    #: Megatron Core", 2025).
    expert_tensor_parallel: int = 0
    #: Id of the configuration chosen for each operator, all of degree t; empty where there is nothing to choose.
    configurations: dict[int, str] = {}
    #: Machines of its machine group (d_2); they divide ``data_parallel``. None without a hierarchy.
    machines: int | None = None
    #: Number of its machine group, 0 for the first, never falling from stage to stage. None without a hierarchy, and in
    #: plans of a step.
    machine_group: int | None = None
    #: Under an interleaved schedule, its operators as parts that are passed one after the other: of all stages the
    #: first parts come first, then all second ones. Empty if the stage is passed once.
    chunks: tuple[tuple[int, ...], ...] = ()

    __repr__ = brief

    def __post_init__(self) -> None:
        if self.devices and len(self.devices) != self.device_count:
            raise InputError(
                f"a stage on {', '.join(self.devices)} has degrees for {self.device_count} devices; name each once"
            )

    @property
    def device_count(self) -> int:
        """Devices it uses."""
        return self.data_parallel * self.context_parallel * self.tensor_parallel

    @property
    def shared(self) -> SharedDegrees:
        """What its devices share out beside features."""
        return SharedDegrees(self.context_parallel, self.expert_parallel, self.expert_tensor_parallel)

    @property
    def replicas_per_machine(self) -> int:
        """Replicas within each of its machines (d_1); all of them without a hierarchy."""
        return self.data_parallel // (self.machines or 1)


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stages in pipeline order, first stage first; devices left empty are not listed."""

    stages: tuple[Stage, ...]
    #: What the plan claims, where problems know splits that are not acyclic; ``evaluate`` checks it.
    contiguity: Contiguity = "acyclic"
    #: How microbatches run through them, where the plan decides it; problems that state a schedule do not ask.
    schedule: str = "1f1b"
    #: What replicas share out (ZeRO's stage): 0 nothing, 1 optimizer states, 2 gradients, 3 weights as well.
    zero: int = 0
    #: Groups, one behind the other, that share it out among them while others hold the same (hybrid sharding); 0 for
    #: all groups that hold the same weights.
    zero_shards: int = 0

    __repr__ = brief

    @property
    def chunks(self) -> int:
        """How often a microbatch passes the pipeline."""
        return max((len(stage.chunks) for stage in self.stages), default=0) or 1

    @property
    def device_count(self) -> int:
        """Devices that all stages use together."""
        return sum(stage.device_count for stage in self.stages)

    @property
    def machines(self) -> int:
        """Machines that all machine groups use together; 0 without a hierarchy."""
        groups = {stage.machine_group: stage.machines for stage in self.stages}
        return sum(count or 0 for count in groups.values())

    @property
    def microbatches(self) -> int:
        """Microbatches in flight: data-parallel replicas of all stages together."""
        return sum(stage.data_parallel for stage in self.stages)
