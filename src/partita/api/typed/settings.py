"""Settings that the public functions share: written by ``make signatures``, not by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

from partita.api.arguments import Inputs
from partita.costs.roofline import CostSource
from partita.engines.search.result import Progress
from partita.nouns.graph import Graph
from partita.problems.hybrid.spaces import Offload


class SearchKeywords(TypedDict, total=False):
    """How everything is searched."""

    time_limit_s: float | None
    seed: int
    solver: str | None
    threads: int
    progress: Progress | None


class TracingKeywords(TypedDict, total=False):
    """What a model is traced for."""

    training: bool
    batch_size: int | None
    sequence_length: int | None
    dtype: str | None
    set: Mapping[str, object] | None
    task: str | None
    decode: int | None
    lora: int | None
    lora_targets: Sequence[str]
    inputs: Inputs | None


class ModelPricingKeywords(TypedDict, total=False):
    """Of any model that is priced."""

    optimizer: Literal["adam", "adamw", "adam-8bit", "adamw-8bit", "sgd", "sgd-momentum", "adafactor", "none"]
    """The optimizer whose state is held. [default: "adam"]"""
    optimizer_dtype: str
    """The number format of the optimizer's state. [default: "float32"]"""
    costs: CostSource | str | None
    """Where operator times come from: a source of costs, or the path of a table or profile of measured ones; the
    roofline if None. [default: None]
    """
    runtime: str | None
    """Plan what this runtime can run, exactly: a name that `partita exporters` lists. [default: None]"""
    master_weights: bool | None
    """Whether a copy of the weights in optimizer_dtype is kept; if None, where the weights are narrower. [default:
    None]
    """
    name: str | None
    """The problem's name; the model's and the cluster's if None. [default: None]"""


class ThroughputSearchKeywords(TypedDict, total=False):
    """Of a search for plans of throughput problems."""

    contiguity: Literal["acyclic", "free"]
    """acyclic: stages in a row; free: any assignment. [default: "acyclic"]"""


class ThroughputPricingKeywords(TypedDict, total=False):
    """Of a model that is priced as a throughput problem."""

    microbatches: int | None
    """Microbatches of the whole batch; if None 1, or 4 per device for training. [microbatches; default: None]"""
    schedule: Literal["1f1b", "gpipe"]
    """The schedule of the microbatches. [default: "1f1b"]"""
    weights: Literal["nf4"] | None
    """What frozen weights of linear layers are kept in, unpacked for each product; their own number format if None.
    [default: None]
    """
    recompute: bool
    """Keep only what enters a stage, and run its forward part again. [default: False]"""
    tied: Literal["copy", "together"]
    """Tied parameters: a copy on each device that reads them, or their readers on one device. [default: "copy"]"""
    cuts: Literal["operator", "module", "layer"]
    """Where stages may begin: between operators, modules of a layer, or layers. [default: "operator"]"""
    hierarchy: bool
    """Machines are groups: fast links inside, the network between. [default: False]"""
    working_memory: Literal["largest", "peak"]
    """Memory of a running stage: the largest workspace, or the peak of the order in which operators run (which
    streams). [default: "largest"]
    """


class CommonChangesValueKeywords(TypedDict, total=False):
    """What may be changed of several sorts of problems: one value of what a sweep takes several of."""

    devices: int | None
    """Number of accelerators. [devices; unchanged unless given]"""
    memory: float | str | None
    """Bytes per accelerator, or inf. [bytes; unchanged unless given]"""


class ThroughputChangesKeywords(TypedDict, total=False):
    """What may be changed of throughput problems."""

    weight_sync_per_batch: bool
    """Replicas synchronise weights once per batch, not per microbatch. [unchanged unless given]"""
    cpus: int | None
    """Number of CPUs. [CPUs; unchanged unless given]"""
    communication: Literal["sum", "overlap", "duplex"] | None
    """Load of a device: work + transfers, max(work, transfers), or max(work, in, out). [unchanged unless given]"""
    max_replicas: int | None
    """Most devices that share a stage. [devices; unchanged unless given]"""
    groups: int | None
    """Devices in G groups behind slower links. [groups; unchanged unless given]"""
    group_bandwidth: float
    """With groups: the bandwidth of a group's link, relative to an accelerator's. [share of an accelerator's
    bandwidth; default: 0.1]
    """
    streaming: bool
    """Memory over the limit is allowed, and fetched for each sample. [unchanged unless given]"""
    reload_bandwidth: float | None
    """With streaming: the bandwidth of reloading; the file's or the link's if None. [bytes/s; unchanged unless
    given]
    """


class ThroughputStatedKeywords(TypedDict, total=False):
    """Of a stated throughput problem."""

    microbatches: int | None
    """Microbatches of the batch. [microbatches; unchanged unless given]"""
    schedule: Literal["1f1b", "gpipe"] | None
    """The schedule of the microbatches; gpipe adds the largest forward and the largest backward load. [unchanged
    unless given]
    """
    working_memory: Literal["largest", "peak"] | None
    """With streaming, memory of a running stage: the largest workspace, or the peak of the order in which operators
    run. [unchanged unless given]
    """


class CommonAxesKeywords(TypedDict, total=False):
    """Along what several sorts of problems are swept."""

    devices: int | Sequence[int]
    """Accelerators. [devices; unchanged unless given]"""
    memory: float | str | Sequence[float | str]
    """Bytes per accelerator, or inf. [bytes; unchanged unless given]"""
    bandwidth: float | Sequence[float]
    """Factors on every bandwidth, for example (0.5, 1, 2). [factor; unchanged unless given]"""


class HybridSearchKeywords(TypedDict, total=False):
    """Of a search for plans of hybrid problems."""

    machine_devices: int | None
    """Devices of one machine, for baselines that keep tensor parallelism inside; those of the problem's hierarchy
    if None, and without one 8. [devices; default: None]
    """


class HybridPricingKeywords(TypedDict, total=False):
    """Of a model that is priced as a hybrid problem."""

    microbatches: int | Sequence[int]
    """Microbatches of the whole batch, over all replicas; of several the best is chosen; 4 per device if not given.
    [microbatches; default: ()]
    """
    global_batch: int | None
    """Samples of a step, instead of its microbatches. [samples; default: None]"""
    minimise: Literal["step", "steady"]
    """What is minimised: the time of an optimizer step, or per sample of an endless stream of microbatches.
    [default: "step"]
    """
    mesh: Literal["uniform", "free"] | None
    """uniform: the same degrees in every stage; free: each stage its own. If None, uniform for steps. [default:
    None]
    """
    schedule: (
        Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]
        | Sequence[Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]]
    )
    """Schedules of a step to choose from; 1f1b, interleaved and zero-bubble if not given. [default: ()]"""
    zero: int | Sequence[int]
    """Stages of ZeRO to choose from; all if not given. [0, 1, 2 or 3; default: ()]"""
    zero_shards: int | Sequence[int]
    """Groups of devices among which that is shared out while others hold the same (hybrid sharding), to choose
    from; 0 for all of the same weights, and all if not given. [groups; default: ()]
    """
    layout: str | None
    """Price this layout, such as tensor=8,pipeline=4,data=2,recompute=full, without search. [default: None]"""
    uneven: bool | None
    """Whether parts of stages under an interleaved schedule may have unlike numbers of layers; if None, of models
    with more than 16 like layers that are no multiple of four. [default: None]
    """
    weight_sync: Literal["behind", "after"]
    """Replicas exchange gradients behind the last backward part, or after it. [default: "behind"]"""
    gradient_dtype: str
    """Of a step, the number format in which gradients are added up and exchanged; parameter for that of weights.
    [default: "float32"]
    """
    weights: Literal["nf4"] | None
    """What frozen weights of linear layers are kept in, unpacked for each product; their own number format if None.
    [default: None]
    """
    zero1: bool
    """Replicas share out the optimizer's states, as zero 1. [default: False]"""
    sequence_parallel: bool
    """Whether tensor-parallel groups share out tokens between their products. [default: True]"""
    fused: bool | None
    """Whether chains of elementwise operators run as one kernel; if None, where the model is compiled. [default:
    None]
    """
    precision: Literal["bf16", "fp8", "fp8-block", "mxfp8", "nvfp4"]
    """Number format in which the products of weights in repeated layers run; bf16 for that of the model. Attention,
    the embedding, the head, weights and states keep theirs. [default: "bf16"]
    """
    hide: Literal["tensor", "expert"] | Sequence[Literal["tensor", "expert"]]
    """Exchanges that the runtime hides: tensor, those of tensor-parallel groups behind their products; expert,
    those of experts behind the work of another microbatch. [default: ()]
    """
    expert_dispatch: Literal["rows", "tokens"]
    """What travels to the experts of a token: a row for each of them (rows), or the token once to each device that
    has some (tokens). [default: "rows"]
    """
    tensor_parallel_degrees: int | Sequence[int]
    """Devices that share out each operator; 1, 2, 4, … up to a machine's devices if not given. [devices; default:
    ()]
    """
    context_parallel_degrees: int | Sequence[int]
    """Devices that share out the sequence; 1, 2, 4, … with 4,096 tokens each if not given. [devices; default: ()]"""
    expert_parallel_degrees: int | Sequence[int]
    """Devices that share out experts; 1, 2, 4, … that divide them if not given. [devices; default: ()]"""
    expert_tensor_parallel_degrees: int | Sequence[int]
    """Devices that share out each expert's features: 0 for a tensor-parallel group, or 1 for experts that stay
    whole and are shared out over all devices of a stage; both if not given. [devices; default: ()]
    """
    expert_capacity: float
    """Rows of the busiest device that shares out experts, relative to the mean. [factor; default: 1.0]"""
    recompute_options: (
        Literal["none", "elementwise", "selective", "full"]
        | Sequence[Literal["none", "elementwise", "selective", "full"]]
    )
    """What layers may recompute; none,selective,full if not given; elementwise: all but products, attention.
    [default: ()]
    """
    offload_activations: bool
    """Of a step: layers may keep activations in the host's memory, sent and brought back in time. [default: False]"""
    offload_optimizer: bool
    """Of a step: the optimizer runs on the host, which keeps its states; gradients go there, weights back.
    [default: False]
    """
    offload: Offload | None
    """Further ways to run a layer: by name and degree, or a function of its LayerStrategy (docs/hybrid.md).
    [default: None]
    """
    trace: Callable[[int], Graph] | None
    """The model traced with so many samples in a microbatch: with global_batch their number is then chosen.
    [default: None]
    """


class HybridChangesKeywords(TypedDict, total=False):
    """What may be changed of hybrid problems."""

    weight_sync_per_batch: bool
    """Replicas synchronise weights once per batch, not per microbatch. [unchanged unless given]"""


class HybridStatedKeywords(TypedDict, total=False):
    """Of a stated hybrid problem."""

    microbatches: int | None
    """Microbatches of the batch. [microbatches; unchanged unless given]"""


class LatencyChangesKeywords(TypedDict, total=False):
    """What may be changed of latency problems."""

    pieces: int | None
    """Most contiguous pieces of an accelerator. [pieces; unchanged unless given]"""


class MakespanSearchKeywords(TypedDict, total=False):
    """Of a search for plans of makespan problems."""

    episodes: int
    """Episodes that the learned baseline trains for. [episodes; default: 200]"""


class MakespanPricingKeywords(TypedDict, total=False):
    """Of a model that is priced as a makespan problem."""

    tied: Literal["copy", "together"]
    """Tied parameters: a copy on each device that reads them, or their readers on one device. [default: "copy"]"""
    fuse: bool
    """Operators are fused by rules over their types: one kernel for a group, as the runtime runs it. [default:
    False]
    """
    fusion_rules: str | None
    """Rules for fuse, which it implies: common, moirai, or a file in TOML or JSON. [default: None]"""


class MakespanChangesValueKeywords(TypedDict, total=False):
    """What may be changed of makespan problems: one value of what a sweep takes several of."""

    memory: float | str | None
    """Bytes (or what the file counts memory in) per device, or inf. [bytes; unchanged unless given]"""


class MakespanChangesKeywords(TypedDict, total=False):
    """What may be changed of makespan problems."""

    ignore_sender_congestion: bool
    """Flows that leave one device may overlap. [unchanged unless given]"""
    ignore_receiver_congestion: bool
    """Flows that enter one device may overlap. [unchanged unless given]"""
    parallel_operators: bool
    """Operators on one device may overlap. [unchanged unless given]"""


class MakespanStatedKeywords(TypedDict, total=False):
    """Of a stated makespan problem."""

    fuse: bool
    """Operators are fused by rules over their types: one kernel for a group, as the runtime runs it. [unchanged
    unless given]
    """
    fusion_rules: str | None
    """Rules for fuse, which it implies: common, moirai, or a file in TOML or JSON. [unchanged unless given]"""


class MappingStatedKeywords(TypedDict, total=False):
    """Of a stated mapping problem."""

    topology: str | None
    """The devices: a topology (see `partita topologies`), a file of one, or a bandwidth matrix in CSV. [unchanged
    unless given]
    """
    form: Literal["both", "point-to-point", "all-reduce"] | None
    """Terms of the time of a replica: transfers and all-reduce, or one of them. [unchanged unless given]"""


class MappingStatedValueKeywords(TypedDict, total=False):
    """Of a stated mapping problem: one value of what a sweep takes several of."""

    replicas: int | None
    """Replicas of each stage. [replicas; unchanged unless given]"""


class MappingAxesKeywords(TypedDict, total=False):
    """Along what mapping problems are swept."""

    replicas: int | Sequence[int]
    """Replicas. [replicas; unchanged unless given]"""
    bandwidth: float | Sequence[float]
    """Factors on every bandwidth, for example (0.5, 1, 2). [factor; unchanged unless given]"""


class LayerPlacementPricingKeywords(TypedDict, total=False):
    """Of a model that is priced as a layer_placement problem."""

    prompt_tokens: int | None
    """Tokens of every prompt. [tokens; default: None]"""
    output_tokens: int | None
    """Tokens of every output. [tokens; default: None]"""
    engine: Literal["vllm", "trtllm", "sglang"]
    """The serving engine. [default: "vllm"]"""
    weights: str | None
    """Format of dense weights: bf16, fp8, int8, int4, nvfp4, mxfp4, …. [default: None]"""
    cache: str | None
    """Format of the cache: bf16, fp8, …. [default: None]"""
    tensor: int | None
    """Devices of one kind in a machine that work as one, tensor-parallel; powers of two are tried if not given.
    [devices; default: None]
    """


class LayerPlacementChangesValueKeywords(TypedDict, total=False):
    """What may be changed of layer_placement problems: one value of what a sweep takes several of."""

    layers: int | None
    """Layers of the model. [layers; unchanged unless given]"""


class LayerPlacementChangesKeywords(TypedDict, total=False):
    """What may be changed of layer_placement problems."""

    overlap: bool | None
    """Tokens may enter a machine in the middle of its layers (Helix's overlap rule). [unchanged unless given]"""
    worth: Literal["flow", "served"] | None
    """What counts: the largest flow of tokens, as published; or tokens served in a simulated run, with the room for
    caches and the length of paths. [unchanged unless given]
    """
    run_requests: int | None
    """Requests of the run in which tokens served are counted. [requests; unchanged unless given]"""
    layer_requests: int | None
    """Requests whose caches of a layer take as much memory as its weights, for machines of which only rates are
    known. [requests; unchanged unless given]
    """


class LayerPlacementStatedKeywords(TypedDict, total=False):
    """Of a stated layer_placement problem."""

    prompt_tokens: int | None
    """Tokens of every prompt. [tokens; unchanged unless given]"""
    output_tokens: int | None
    """Tokens of every output. [tokens; unchanged unless given]"""


class LayerPlacementAxesKeywords(TypedDict, total=False):
    """Along what layer_placement problems are swept."""

    layers: int | Sequence[int]
    """Layers of the model. [layers; unchanged unless given]"""
    bandwidth: float | Sequence[float]
    """Factors on every bandwidth, for example (0.5, 1, 2). [factor; unchanged unless given]"""


class ServingPricingKeywords(TypedDict, total=False):
    """Of a model that is priced as a serving problem."""

    prompt_tokens: int | None
    """Tokens of every prompt. [tokens; default: None]"""
    output_tokens: int | None
    """Tokens of every output. [tokens; default: None]"""
    requests: str | None
    """Requests of a trace (arrivals and lengths), or a histogram of lengths, in CSV. [default: None]"""
    prefix_tokens: int
    """Tokens that all prompts of a group begin with, and that are reused. [tokens; default: 0]"""
    prefix_groups: int
    """Groups with such a prefix each. [groups; default: 1]"""
    workload_seed: int
    """Of drawn lengths and arrivals. [a seed; default: 0]"""
    engine: Literal["vllm", "trtllm", "sglang"]
    """The serving engine. [default: "vllm"]"""
    weights: str | None
    """Format of dense weights: bf16, fp8, int8, int4, nvfp4, mxfp4, …. [default: None]"""
    expert_weights: str | None
    """Format of the weights of experts; that of the dense ones if not given. [default: None]"""
    cache: str | None
    """Format of the cache: bf16, fp8, …. [default: None]"""
    percentile: float
    """Share of requests that keeps these. [a share; default: 0.9]"""
    price_per_hour: Mapping[str, float] | str | None
    """What a card costs an hour, by kind, as a mapping or as in 'H100=2.5,L40S=0.8'; with a rate the cheapest ones
    are looked for. [default: None]
    """
    layout: str | None
    """Price one unit, without search:
    tensor=T,pipeline=P,expert=E,expert_tensor=X,attention_data=D,requests=B,tokens=N. [default: None]
    """


class ServingPricingValueKeywords(TypedDict, total=False):
    """Of a model that is priced as a serving problem: one value of what a sweep takes several of."""

    concurrency: int | None
    """A closed loop: so many requests in flight, 10 times as many in all. [requests; default: None]"""
    rate: float | None
    """An open loop: requests per second, Poisson or a trace's times scaled. [requests/s; default: None]"""
    ttft: float | None
    """Seconds to the first token, at most. [seconds; default: None]"""
    tpot: float | None
    """Seconds per token after that, at most. [seconds; default: None]"""
    roles: Literal["both", "split", "any"] | None
    """Units that do all of a request (both), units for prompts and units for decoding (split), or whichever is
    better (any); any if None, but both for a closed loop or a layout. [default: None]
    """


class ServingChangesValueKeywords(TypedDict, total=False):
    """What may be changed of serving problems: one value of what a sweep takes several of."""

    devices: int | None
    """Number of devices. [devices; unchanged unless given]"""


class ServingStatedValueKeywords(TypedDict, total=False):
    """Of a stated serving problem: one value of what a sweep takes several of."""

    concurrency: int | None
    """Requests in flight. [requests; unchanged unless given]"""
    rate: float | None
    """Requests per second. [requests/s; unchanged unless given]"""
    ttft: float | None
    """Seconds to the first token, at most. [seconds; unchanged unless given]"""
    tpot: float | None
    """Seconds per token, at most. [seconds; unchanged unless given]"""
    roles: Literal["both", "split", "any"] | None
    """Units that do all of a request (both), units for prompts and units for decoding (split), or either (any).
    [unchanged unless given]
    """


class ServingStatedKeywords(TypedDict, total=False):
    """Of a stated serving problem."""

    percentile: float | None
    """Share of requests that keeps these. [a share; unchanged unless given]"""


class ServingAxesKeywords(TypedDict, total=False):
    """Along what serving problems are swept."""

    devices: int | Sequence[int]
    """Accelerators. [devices; unchanged unless given]"""
    concurrency: int | Sequence[int]
    """Requests in flight. [requests; unchanged unless given]"""
    rate: float | Sequence[float]
    """Requests per second. [requests/s; unchanged unless given]"""
    ttft: float | Sequence[float]
    """Seconds to the first token. [seconds; unchanged unless given]"""
    tpot: float | Sequence[float]
    """Seconds per token. [seconds; unchanged unless given]"""
    roles: Literal["both", "split", "any"] | Sequence[Literal["both", "split", "any"]]
    """Roles of units: both, split or any. [roles; unchanged unless given]"""


class AnyOfPlanSolveCompareSweep(TypedDict, total=False):
    """What plan and solve and compare and sweep take of whatever it is."""

    contiguity: Literal["acyclic", "free"]
    machine_devices: int | None
    episodes: int


class AnyOfPlanPriceCompareSweep(TypedDict, total=False):
    """What plan and price and compare and sweep take of whatever it is."""

    optimizer: Literal["adam", "adamw", "adam-8bit", "adamw-8bit", "sgd", "sgd-momentum", "adafactor", "none"]
    optimizer_dtype: str
    costs: CostSource | str | None
    runtime: str | None
    master_weights: bool | None
    name: str | None
    microbatches: int | Sequence[int] | None
    weights: Literal["nf4"] | str | None
    recompute: bool
    tied: Literal["copy", "together"]
    cuts: Literal["operator", "module", "layer"]
    hierarchy: bool
    global_batch: int | None
    minimise: Literal["step", "steady"]
    mesh: Literal["uniform", "free"] | None
    zero: int | Sequence[int]
    zero_shards: int | Sequence[int]
    layout: str | None
    uneven: bool | None
    weight_sync: Literal["behind", "after"]
    gradient_dtype: str
    zero1: bool
    sequence_parallel: bool
    fused: bool | None
    precision: Literal["bf16", "fp8", "fp8-block", "mxfp8", "nvfp4"]
    hide: Literal["tensor", "expert"] | Sequence[Literal["tensor", "expert"]]
    expert_dispatch: Literal["rows", "tokens"]
    tensor_parallel_degrees: int | Sequence[int]
    context_parallel_degrees: int | Sequence[int]
    expert_parallel_degrees: int | Sequence[int]
    expert_tensor_parallel_degrees: int | Sequence[int]
    expert_capacity: float
    recompute_options: (
        Literal["none", "elementwise", "selective", "full"]
        | Sequence[Literal["none", "elementwise", "selective", "full"]]
    )
    offload_activations: bool
    offload_optimizer: bool
    offload: Offload | None
    trace: Callable[[int], Graph] | None
    engine: Literal["vllm", "trtllm", "sglang"]
    cache: str | None
    tensor: int | None
    requests: str | None
    prefix_tokens: int
    prefix_groups: int
    workload_seed: int
    expert_weights: str | None
    price_per_hour: Mapping[str, float] | str | None


class AnyOfPlanPrice(TypedDict, total=False):
    """What plan and price take of whatever it is."""

    schedule: (
        Literal["1f1b", "gpipe"]
        | Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]
        | Sequence[Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]]
    )
    working_memory: Literal["largest", "peak"]
    percentile: float


class AnyOfPlanPriceSolveCompare(TypedDict, total=False):
    """What plan and price and solve and compare take of whatever it is."""

    devices: int | None
    memory: float | str | None
    layers: int | None
    concurrency: int | None
    rate: float | None
    ttft: float | None
    tpot: float | None
    roles: Literal["both", "split", "any"] | None


class AnyOfPlanPriceSolveCompareSweep(TypedDict, total=False):
    """What plan and price and solve and compare and sweep take of whatever it is."""

    weight_sync_per_batch: bool
    cpus: int | None
    communication: Literal["sum", "overlap", "duplex"] | None
    max_replicas: int | None
    groups: int | None
    group_bandwidth: float
    streaming: bool
    reload_bandwidth: float | None
    pieces: int | None
    fuse: bool
    fusion_rules: str | None
    ignore_sender_congestion: bool
    ignore_receiver_congestion: bool
    parallel_operators: bool
    prompt_tokens: int | None
    output_tokens: int | None
    overlap: bool | None
    worth: Literal["flow", "served"] | None
    run_requests: int | None
    layer_requests: int | None


class AnyOfSolve(TypedDict, total=False):
    """What solve alone takes of whatever it is."""

    microbatches: int | None
    schedule: Literal["1f1b", "gpipe"] | None


class AnyOfSolveCompareSweep(TypedDict, total=False):
    """What solve and compare and sweep take of whatever it is."""

    working_memory: Literal["largest", "peak"] | None
    topology: str | None
    form: Literal["both", "point-to-point", "all-reduce"] | None
    percentile: float | None


class AnyOfSolveCompare(TypedDict, total=False):
    """What solve and compare take of whatever it is."""

    replicas: int | None


class AnyOfCompareSweep(TypedDict, total=False):
    """What compare and sweep take of whatever it is."""

    schedule: (
        Literal["1f1b", "gpipe"]
        | Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]
        | Sequence[Literal["1f1b", "interleaved", "zero-bubble", "gpipe"]]
        | None
    )


class AnyOfSweep(TypedDict, total=False):
    """What sweep alone takes of whatever it is."""

    devices: int | Sequence[int]
    memory: float | str | Sequence[float | str]
    bandwidth: float | Sequence[float]
    layers: int | Sequence[int]
    concurrency: int | Sequence[int]
    rate: float | Sequence[float]
    ttft: float | Sequence[float]
    tpot: float | Sequence[float]
    roles: Literal["both", "split", "any"] | Sequence[Literal["both", "split", "any"]]
    replicas: int | Sequence[int]
