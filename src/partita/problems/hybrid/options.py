"""What can be asked of a hybrid plan: one declaration for keywords, flags and settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec.structs import asdict

from partita.ground.errors import InputError
from partita.problems.facets.model import DeviceChanges, FrozenWeights, Pricing
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import SearchOptions
from partita.problems.settings import setting

#: What a plan is chosen for: one optimizer step, or an endless stream of microbatches.
Aim = Literal["step", "steady"]

#: Formats of products, as ``partita.costs.precision`` knows them.
PrecisionName = Literal["bf16", "fp8", "fp8-block", "mxfp8", "nvfp4"]

#: Schedules that plans of a step may have.
ScheduleName = Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]


class HybridOptions(SearchOptions, frozen=True, kw_only=True):
    """What a search may use."""

    machine_devices: Annotated[
        int | None,
        setting(
            "Devices of one machine, for baselines that keep tensor parallelism inside; those of the problem's "
            "hierarchy if None, and without one 8.",
            python_only=True,
            unit="devices",
        ),
    ] = None

    @property
    def scope(self) -> str:
        """Stages are always in a row."""
        return "acyclic"


class HybridChanges(DeviceChanges, frozen=True, kw_only=True):
    """What may be changed of a stated problem; it has at least one accelerator."""

    devices: Annotated[
        int | None,
        setting("Number of accelerators.", metavar="N", least=1, group="problem", stated=True, unit="devices"),
    ] = None
    weight_sync_per_batch: Annotated[
        bool,
        setting("Replicas synchronise weights once per batch, not per microbatch.", group="problem", stated=True),
    ] = False


class HybridPricing(Pricing, frozen=True, kw_only=True):
    """How a model on a cluster becomes a problem; ``pricing.hybrid_problem`` says what each means."""

    microbatches: Annotated[
        tuple[int, ...],
        setting(
            "Of several (N,N,… or LOW:HIGH[:STEP]) the best is chosen.",
            metavar="N",
            least=1,
            counts=True,
            group="training",
            unit="microbatches",
            meaning="Microbatches of the whole batch, over all replicas; of several the best is chosen; 4 per device "
            "if not given.",
        ),
    ] = ()
    global_batch: Annotated[
        int | None,
        setting(
            "Samples of a step, instead of its microbatches.", metavar="G", least=1, group="training", unit="samples"
        ),
    ] = None
    minimise: Annotated[
        Aim,
        setting(
            "The time of an optimizer step, or per sample of an endless stream of microbatches; both with proof.",
            meaning="What is minimised: the time of an optimizer step, or per sample of an endless stream of "
            "microbatches.",
        ),
    ] = "step"
    mesh: Annotated[
        Literal["uniform", "free"] | None,
        setting(
            "The same degrees in every stage, or each stage its own; uniform for steps.",
            meaning="uniform: the same degrees in every stage; free: each stage its own. If None, uniform for steps.",
        ),
    ] = None
    schedule: Annotated[
        tuple[ScheduleName, ...],
        setting(
            "Of a step; the best of 1f1b, interleaved and zero-bubble if not given.",
            metavar="NAME,…",
            meaning="Schedules of a step to choose from; 1f1b, interleaved and zero-bubble if not given.",
        ),
    ] = ()
    zero: Annotated[
        tuple[int, ...],
        setting("Stages of ZeRO to choose from; all if not given.", metavar="Z,…", least=0, unit="0, 1, 2 or 3"),
    ] = ()
    zero_shards: Annotated[
        tuple[int, ...],
        setting(
            "Groups of devices among which that is shared out while others hold the same (hybrid sharding), to choose "
            "from; 0 for all of the same weights, and all if not given.",
            metavar="N,…",
            least=0,
            unit="groups",
        ),
    ] = ()
    layout: Annotated[
        str | None,
        setting(
            "Price this layout, without search: tensor=8,pipeline=4,data=2,recompute=full,…",
            metavar="LAYOUT",
            meaning="Price this layout, such as tensor=8,pipeline=4,data=2,recompute=full, without search.",
        ),
    ] = None
    uneven: Annotated[
        bool | None,
        setting(
            "Parts of stages under an interleaved schedule may have unlike numbers of layers; where a model has more "
            "than 16 like layers, and no multiple of four, they may unless this is given in Python as False.",
            meaning="Whether parts of stages under an interleaved schedule may have unlike numbers of layers; if None, "
            "of models with more than 16 like layers that are no multiple of four.",
            training=True,
        ),
    ] = None
    weight_sync: Annotated[
        Literal["behind", "after"],
        setting("Replicas exchange gradients behind the last backward part, or after it."),
    ] = "behind"
    gradient_dtype: Annotated[
        str,
        setting(
            "Of a step: gradients are added up and exchanged in it; parameter for that of weights.",
            metavar="NAME",
            meaning="Of a step, the number format in which gradients are added up and exchanged; parameter for that of "
            "weights.",
        ),
    ] = "float32"
    weights: FrozenWeights = None
    zero1: Annotated[bool, setting("Replicas share out the optimizer's states, as --zero 1.")] = False
    sequence_parallel: Annotated[
        bool,
        setting(
            "Tensor-parallel groups do not share out tokens.",
            inverted=True,
            meaning="Whether tensor-parallel groups share out tokens between their products.",
        ),
    ] = True
    fused: Annotated[
        bool | None,
        setting(
            "Chains of elementwise operators run as one kernel, as in compiled models.",
            meaning="Whether chains of elementwise operators run as one kernel; if None, where the model is compiled.",
        ),
    ] = None
    precision: Annotated[
        PrecisionName,
        setting(
            "Format of the products of weights in repeated layers; bf16 for that of the model.",
            meaning="Number format in which the products of weights in repeated layers run; bf16 for that of the "
            "model. Attention, the embedding, the head, weights and states keep theirs.",
        ),
    ] = "bf16"
    hide: Annotated[
        tuple[Literal["tensor", "expert"], ...],
        setting(
            "Exchanges that go on behind work: of tensor-parallel groups, of experts; none if not given.",
            metavar="NAME,…",
            meaning="Exchanges that the runtime hides: tensor, those of tensor-parallel groups behind their products; "
            "expert, those of experts behind the work of another microbatch.",
        ),
    ] = ()
    expert_dispatch: Annotated[
        Literal["rows", "tokens"],
        setting(
            "What travels to experts: a row for each of them, or a token once to each device.",
            meaning="What travels to the experts of a token: a row for each of them (rows), or the token once to each "
            "device that has some (tokens).",
        ),
    ] = "rows"
    tensor_parallel_degrees: Annotated[
        tuple[int, ...],
        setting(
            "1, 2, 4, … up to a machine's devices if not given.",
            metavar="T,T,…",
            least=1,
            unit="devices",
            meaning="Devices that share out each operator; 1, 2, 4, … up to a machine's devices if not given.",
        ),
    ] = ()
    context_parallel_degrees: Annotated[
        tuple[int, ...],
        setting(
            "Devices that share out the sequence; 1, 2, 4, … with 4,096 tokens each if not given.",
            metavar="C,C,…",
            least=1,
            unit="devices",
        ),
    ] = ()
    expert_parallel_degrees: Annotated[
        tuple[int, ...],
        setting(
            "Devices that share out experts; 1, 2, 4, … that divide them if not given.",
            metavar="E,E,…",
            least=1,
            unit="devices",
        ),
    ] = ()
    expert_tensor_parallel_degrees: Annotated[
        tuple[int, ...],
        setting(
            "Devices that share out each expert's features: 0 for a tensor-parallel group, or 1 for experts that stay "
            "whole and are shared out over all devices of a stage; both if not given.",
            metavar="X,X,…",
            least=0,
            unit="devices",
        ),
    ] = ()
    expert_capacity: Annotated[
        float,
        setting(
            "Rows of the busiest device that shares out experts, relative to the mean.", metavar="FACTOR", unit="factor"
        ),
    ] = 1.0
    recompute_options: Annotated[
        tuple[Literal["none", "elementwise", "selective", "full"], ...],
        setting(
            "What layers may recompute; none,selective,full if not given; elementwise: all but products, attention.",
            metavar="NAME,…",
        ),
    ] = ()
    offload_activations: Annotated[
        bool, setting("Of a step: layers may keep activations in the host's memory, sent and brought back in time.")
    ] = False
    offload_optimizer: Annotated[
        bool,
        setting("Of a step: the optimizer runs on the host, which keeps its states; gradients go there, weights back."),
    ] = False
    offload: Annotated[
        Any,
        setting(
            "Further ways to run a layer: by name and degree, or a function of its LayerStrategy (docs/hybrid.md).",
            python_only=True,
            hint="partita.problems.hybrid.spaces:Offload | None",
        ),
    ] = None
    trace: Annotated[
        Any,
        setting(
            "The model traced with so many samples in a microbatch: with global_batch their number is then chosen.",
            python_only=True,
            hint="collections.abc:Callable[[int], partita.nouns.graph:Graph] | None",
        ),
    ] = None


def change(problem: HybridProblem, changes: HybridChanges) -> HybridProblem:
    """The problem with the changes that are stated; InputError if it cannot be changed so."""
    if problem.others and changes.devices is not None:
        raise InputError(f"problem {problem.name!r} has several kinds of devices; leave the number of devices as it is")
    stated = {name: value for name, value in asdict(changes).items() if value is not None and value is not False}
    return problem.replace(memory_bytes=stated.pop("memory", None), **stated)
