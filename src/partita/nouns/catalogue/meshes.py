"""What runtimes of training lack of meshes: which degrees, schedules and ZeRO stages do not go together there.

One function says it, for the solvers that leave such meshes out and for the exporters that refuse them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Mesh(msgspec.Struct, frozen=True, kw_only=True):
    """Degrees that all stages have."""

    stages: int  #: In a row; parts of a stage are not counted.
    #: Replicas, devices of a tensor-parallel group, such groups of a replica, and groups that share out experts.
    data: int
    tensor: int
    context: int
    expert: int
    expert_tensor: int = 0  #: Devices of a group that shares out experts; 0 for the tensor-parallel ones.
    zero: int  #: What replicas share out.
    zero_shards: int = 0  #: Groups that do among them; 0 for all that hold the same weights.
    #: How microbatches run through the stages, and how many of each replica.
    schedule: str
    microbatches: int

    @property
    def groups(self) -> int:
        """Groups that hold the same weights."""
        return self.data * self.context


class MeshLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a mesh has to keep; the defaults limit nothing."""

    #: Stages of ZeRO that several groups of the same weights may have beside a pipeline, and without one.
    zero: tuple[int, ...] = (0, 1, 2, 3)
    zero_alone: tuple[int, ...] = (0, 1, 2, 3)
    experts_apart: bool = False  #: Experts are shared out without tensor parallelism only.
    experts_around: bool = False  #: Groups that share out experts hold whole sequences.
    filled: bool = False  #: Under 1F1B each replica has as many microbatches as there are stages, or more.
    #: What ZeRO's stage says is shared out among all groups that hold the same weights.
    shared_by_all: bool = False
    sharded_whole: bool = False  #: Groups that share it out hold whole sequences.
    #: Several groups hold the same weights, for the runtime's number formats come with sharing these out.
    sharded: bool = False

    def admits(self, mesh: Mesh) -> bool:
        """Whether a mesh keeps all of it."""
        return next(self.refusals(mesh, ""), None) is None

    def refusals(self, mesh: Mesh, name: str) -> Iterator[str]:
        """What a mesh does not keep, a sentence each about the runtime of that name."""
        allowed = self.zero if mesh.stages > 1 else self.zero_alone
        if mesh.groups > 1 and mesh.zero not in allowed:
            where = "beside pipelines" if mesh.stages > 1 else "without a pipeline"
            stages = " or ".join(f"ZeRO-{stage}" for stage in allowed)
            yield (
                f"{name} runs {mesh.groups} groups of the same weights {where} with {stages}, and this is "
                f"ZeRO-{mesh.zero}; plan with --zero {','.join(map(str, allowed))}"
            )
        if self.shared_by_all and mesh.zero_shards:
            yield (
                f"{name} shares out ZeRO's state among all groups of the same weights, and the plan does among "
                f"{mesh.zero_shards} of {mesh.groups}; leave --zero-shards out"
            )
        if self.sharded_whole and mesh.zero_shards % mesh.context:
            yield (
                f"groups that share out state hold whole sequences in {name}, and {mesh.zero_shards} are no multiple "
                f"of context degree {mesh.context}"
            )
        if self.experts_apart and (mesh.expert > 1 or mesh.expert_tensor) and mesh.tensor > 1:
            yield (
                f"{name} shares out experts without tensor parallelism only, and the plan has expert degree "
                f"{mesh.expert} beside tensor degree {mesh.tensor}"
            )
        if self.experts_around and mesh.expert > 1 and mesh.expert % mesh.context:
            yield (
                f"groups that share out experts hold whole sequences in {name}, and expert degree {mesh.expert} is no "
                f"multiple of context degree {mesh.context}"
            )
        if self.filled and mesh.schedule == "1f1b" and mesh.microbatches < mesh.stages > 1:
            yield (
                f"{name} takes as many microbatches under 1F1B as there are stages, or more, and each replica has "
                f"{mesh.microbatches} for {mesh.stages} stages"
            )
        if self.sharded and mesh.groups == 1:
            yield (
                f"{name} has weights, gradients and states in different number formats only where several groups share "
                "them out (FSDP), and here one group has them; train in float32, or with more replicas"
            )
