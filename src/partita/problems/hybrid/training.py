"""What a problem about one optimizer step says beside its layers: what a plan may choose, and what replicas exchange.

Sources: ZeRO's stages are those of Rajbhandari et al., "ZeRO" (SC 2020), §5; schedules those of Narayanan et al.,
"Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021), §2.2, and of Qi et al.,
"Zero Bubble Pipeline Parallelism" (ICLR 2024).
"""

from __future__ import annotations

import itertools
from collections.abc import Container

import msgspec

from partita.ground.checks import check_number
from partita.ground.errors import InputError
from partita.nouns.catalogue.meshes import MeshLimits
from partita.nouns.pipeline import SharedDegrees

#: Schedules that a plan may have, in the simulator's words.
SCHEDULES = ("1f1b", "interleaved", "zero-bubble", "gpipe")

#: Stages of ZeRO: none, and optimizer states, gradients, weights shared out among replicas, each with those before.
ZERO_STAGES = (0, 1, 2, 3)


#: Whether all stages have the same degrees, or each its own.
MESHES = ("uniform", "free")


class LayerState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each device of a tensor-parallel group holds of a layer's weights, and what replicas do with it."""

    parameter_bytes: float = 0.0  #: Weights; replicas gather them from each other where each holds a share.
    #: Their gradients, in the number format in which microbatches are added up and replicas exchange them.
    gradient_bytes: float = 0.0
    optimizer_bytes: float = 0.0  #: What the optimizer keeps.
    update_time: float = 0.0  #: Of the optimizer's step on all of it.
    #: What of the backward part of a microbatch makes gradients of weights, which nobody waits for; half of the
    #: backward part of the fastest configuration (of equally fast ones the least) if None.
    weight_gradient_time: float | None = None
    #: The same of experts that an expert-parallel group shares out, beside all that: fewer replicas hold each of them.
    #: ``weight_gradient_time`` counts both.
    experts: LayerState | None = None


class StageLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stages, or parts of stages under an interleaved schedule, have to keep; the defaults limit nothing."""

    together: tuple[tuple[int, ...], ...] = ()  #: Ids of layers that share a stage, group by group.
    #: Pairs of layer ids: what the first hands to the second must not pass over a stage.
    handed: tuple[tuple[int, int], ...] = ()
    #: Ids of layers that all run in the same of these configurations, while the others run in ``none``; without ways
    #: each layer in its own.
    blocks: tuple[int, ...] = ()
    ways: tuple[str, ...] = ()
    meshes: MeshLimits = MeshLimits()  #: Which degrees, schedules and stages of ZeRO go together.


class Training(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one optimizer step may run."""

    schedules: tuple[str, ...] = ("1f1b",)  #: Schedules that a plan may have.
    zero: tuple[int, ...] = (0,)  #: Stages of ZeRO that a plan may have.
    #: Groups of devices among which that may be shared out; 0 for all that hold the same weights.
    zero_shards: tuple[int, ...] = (0,)
    mesh: str = "uniform"  #: Whether all stages have the same degrees (``uniform``), or each its own (``free``).
    #: Context- and expert-parallel degrees that a plan may have.
    context: tuple[int, ...] = (1,)
    expert: tuple[int, ...] = (1,)
    #: Devices that share out the features of each expert; 0 for those of the tensor-parallel group.
    expert_tensor: tuple[int, ...] = (0,)
    #: Whether replicas exchange gradients behind the backward part of the last microbatch, and gather weights behind
    #: the forward part of the first one; otherwise both come after the last backward part.
    overlap: bool = True
    #: Whether the parts of stages under an interleaved schedule may have unlike numbers of layers, and recompute unlike
    #: ones; otherwise they are dealt out equally.
    uneven: bool = False
    occupied: float = 0.0  #: Part of a device that a collective takes away from the work that hides it, from 0 to 1.
    #: What a collective of replicas takes beside its bytes, inside a machine and between machines: once, and for every
    #: message that waits for another. A tensor handed over between stages takes the first of them.
    call_times: tuple[float, float] = (0.0, 0.0)
    hop_times: tuple[float, float] = (0.0, 0.0)
    #: Whether any two devices of a machine, and any two machines, reach each other directly.
    switched: tuple[bool, bool] = (False, False)
    #: By tensor-parallel degree, working memory of each device that no layer holds for itself.
    reserves: dict[int, float] = {}
    limits: StageLimits = StageLimits()  #: What stages have to keep beside that.

    @property
    def shared(self) -> list[SharedDegrees]:
        """All context-, expert- and expert-tensor degrees that a plan may have together."""
        return [SharedDegrees(*degrees) for degrees in itertools.product(self.context, self.expert, self.expert_tensor)]


def check_training(owner: str, training: Training) -> None:
    """Refuse settings of a step that mean nothing."""
    for what, given, known in (
        ("schedule", training.schedules, SCHEDULES),
        ("ZeRO stage", training.zero, ZERO_STAGES),
    ):
        if not given:
            raise InputError(f"{owner}: a step allows no {what}; give at least one of {', '.join(map(str, known))}")
        for entry in given:
            if entry not in known:
                raise InputError(f"{owner}: {what} {entry!r} is unknown; known are {', '.join(map(str, known))}")
        if len(set(given)) < len(given):
            raise InputError(f"{owner}: a {what} appears twice")
    if not 0.0 <= training.occupied <= 1.0:
        raise InputError(f"{owner}: a step's collectives occupy {training.occupied!r} of a device; it must be 0 to 1")
    for what, degrees, least in (
        ("context", training.context, 1),
        ("expert", training.expert, 1),
        ("expert-tensor", training.expert_tensor, 0),
    ):
        if not degrees or len(set(degrees)) < len(degrees) or min(degrees) < least:
            raise InputError(
                f"{owner}: {what}-parallel degrees are {degrees}; give at least one, each at least {least} and once"
            )
    shards = training.zero_shards
    if not shards or len(set(shards)) < len(shards) or any(count < 0 or count == 1 for count in shards):
        raise InputError(
            f"{owner}: ZeRO shares out among {shards} groups; give at least one number, 0 or at least 2, each once"
        )
    if training.mesh not in MESHES:
        raise InputError(f"{owner}: a step's mesh is {training.mesh!r}; it must be one of {', '.join(MESHES)}")
    if training.mesh == "free" and shards != (0,):
        raise InputError(
            f"{owner}: where stages have degrees of their own, ZeRO shares out among all replicas of a stage; leave "
            "zero_shards out"
        )
    for name, values in (
        ("call time", training.call_times),
        ("hop time", training.hop_times),
        ("reserve", training.reserves.values()),
    ):
        for value in values:
            check_number(f"{owner}: a step", name, value)


def check_limits(owner: str, limits: StageLimits, known: Container[int]) -> None:
    """Refuse limits of stages about layers that are not among the ``known`` ids."""
    for identity in (v for group in (*limits.together, *limits.handed, limits.blocks) for v in group):
        if identity not in known:
            raise InputError(f"{owner}: a limit of stages names layer {identity}, which does not exist")
