"""``solve`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, Unpack, overload

from partita.api import solving
from partita.api.answer import Answer
from partita.api.listing import listed
from partita.engines.search.result import PlanEvaluation, Progress
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Stated
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.layer_placement.evaluate import LayerPlacementEvaluation
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem
from partita.problems.makespan.evaluate import MakespanEvaluation
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.mapping.evaluate import MappingEvaluation
from partita.problems.mapping.problem import MappingProblem, Placement
from partita.problems.serving.evaluate import ServingEvaluation
from partita.problems.serving.problem import ServingPlan, ServingProblem
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem

SolveReturned: TypeAlias = (
    Answer[ThroughputProblem, Plan, Evaluation]
    | Answer[HybridProblem, Plan, HybridEvaluation]
    | Answer[LatencyProblem, LatencyPlan, LatencyEvaluation]
    | Answer[MakespanProblem, MakespanPlan, MakespanEvaluation]
    | Answer[MappingProblem, Placement, MappingEvaluation]
    | Answer[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation]
    | Answer[ServingProblem, ServingPlan, ServingEvaluation]
)


class SolveProblemKeywords(TypedDict, total=False):
    """What it takes of any problem."""

    time_limit_s: float | None
    seed: int
    solver: str | None
    threads: int
    progress: Progress | None
    target: float | None
    explain: bool


class ThroughputSolveSettings(SolveProblemKeywords, total=False):
    """Of throughput problems."""

    contiguity: Literal["acyclic", "free"]
    """acyclic: stages in a row; free: any assignment. [default: "acyclic"]"""
    devices: int | None
    """Number of accelerators. [devices; unchanged unless given]"""
    memory: float | str | None
    """Bytes per accelerator, or inf. [bytes; unchanged unless given]"""
    microbatches: int | None
    """Microbatches of the batch. [microbatches; unchanged unless given]"""
    weight_sync_per_batch: bool
    """Replicas synchronise weights once per batch, not per microbatch. [unchanged unless given]"""
    cpus: int | None
    """Number of CPUs. [CPUs; unchanged unless given]"""
    schedule: Literal["1f1b", "gpipe"] | None
    """The schedule of the microbatches; gpipe adds the largest forward and the largest backward load. [unchanged
    unless given]
    """
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
    working_memory: Literal["largest", "peak"] | None
    """With streaming, memory of a running stage: the largest workspace, or the peak of the order in which operators
    run. [unchanged unless given]
    """
    reload_bandwidth: float | None
    """With streaming: the bandwidth of reloading; the file's or the link's if None. [bytes/s; unchanged unless
    given]
    """


class HybridSolveSettings(SolveProblemKeywords, total=False):
    """Of hybrid problems."""

    machine_devices: int | None
    """Devices of one machine, for baselines that keep tensor parallelism inside; those of the problem's hierarchy
    if None, and without one 8. [devices; default: None]
    """
    devices: int | None
    """Number of accelerators. [devices; unchanged unless given]"""
    memory: float | str | None
    """Bytes per accelerator, or inf. [bytes; unchanged unless given]"""
    microbatches: int | None
    """Microbatches of the batch. [microbatches; unchanged unless given]"""
    weight_sync_per_batch: bool
    """Replicas synchronise weights once per batch, not per microbatch. [unchanged unless given]"""


class LatencySolveSettings(SolveProblemKeywords, total=False):
    """Of latency problems."""

    devices: int | None
    """Number of accelerators. [devices; unchanged unless given]"""
    memory: float | str | None
    """Bytes per accelerator, or inf. [bytes; unchanged unless given]"""
    pieces: int | None
    """Most contiguous pieces of an accelerator. [pieces; unchanged unless given]"""


class MakespanSolveSettings(SolveProblemKeywords, total=False):
    """Of makespan problems."""

    episodes: int
    """Episodes that the learned baseline trains for. [episodes; default: 200]"""
    memory: float | str | None
    """Bytes (or what the file counts memory in) per device, or inf. [bytes; unchanged unless given]"""
    ignore_sender_congestion: bool
    """Flows that leave one device may overlap. [unchanged unless given]"""
    ignore_receiver_congestion: bool
    """Flows that enter one device may overlap. [unchanged unless given]"""
    parallel_operators: bool
    """Operators on one device may overlap. [unchanged unless given]"""
    fuse: bool
    """Operators are fused by rules over their types: one kernel for a group, as the runtime runs it. [unchanged
    unless given]
    """
    fusion_rules: str | None
    """Rules for fuse, which it implies: common, moirai, or a file in TOML or JSON. [unchanged unless given]"""


class MappingSolveSettings(SolveProblemKeywords, total=False):
    """Of mapping problems."""

    topology: str | None
    """The devices: a topology (see `partita topologies`), a file of one, or a bandwidth matrix in CSV. [unchanged
    unless given]
    """
    form: Literal["both", "point-to-point", "all-reduce"] | None
    """Terms of the time of a replica: transfers and all-reduce, or one of them. [unchanged unless given]"""
    replicas: int | None
    """Replicas of each stage. [replicas; unchanged unless given]"""


class Layer_PlacementSolveSettings(SolveProblemKeywords, total=False):
    """Of layer_placement problems."""

    layers: int | None
    """Layers of the model. [layers; unchanged unless given]"""
    overlap: bool | None
    """Tokens may enter a machine in the middle of its layers (Helix's overlap rule). [unchanged unless given]"""
    prompt_tokens: int | None
    """Tokens of every prompt. [tokens; unchanged unless given]"""
    output_tokens: int | None
    """Tokens of every output. [tokens; unchanged unless given]"""
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


class ServingSolveSettings(SolveProblemKeywords, total=False):
    """Of serving problems."""

    devices: int | None
    """Number of devices. [devices; unchanged unless given]"""
    concurrency: int | None
    """Requests in flight. [requests; unchanged unless given]"""
    rate: float | None
    """Requests per second. [requests/s; unchanged unless given]"""
    ttft: float | None
    """Seconds to the first token, at most. [seconds; unchanged unless given]"""
    tpot: float | None
    """Seconds per token, at most. [seconds; unchanged unless given]"""
    percentile: float | None
    """Share of requests that keeps these. [a share; unchanged unless given]"""
    roles: Literal["both", "split", "any"] | None
    """Units that do all of a request (both), units for prompts and units for decoding (split), or either (any).
    [unchanged unless given]
    """


class AnySolveSettings(TypedDict, total=False):
    """Of whatever it is."""

    contiguity: Literal["acyclic", "free"]
    devices: int | None
    memory: float | str | None
    microbatches: int | None
    weight_sync_per_batch: bool
    cpus: int | None
    schedule: Literal["1f1b", "gpipe"] | None
    communication: Literal["sum", "overlap", "duplex"] | None
    max_replicas: int | None
    groups: int | None
    group_bandwidth: float
    streaming: bool
    working_memory: Literal["largest", "peak"] | None
    reload_bandwidth: float | None
    machine_devices: int | None
    pieces: int | None
    episodes: int
    ignore_sender_congestion: bool
    ignore_receiver_congestion: bool
    parallel_operators: bool
    fuse: bool
    fusion_rules: str | None
    topology: str | None
    form: Literal["both", "point-to-point", "all-reduce"] | None
    replicas: int | None
    layers: int | None
    overlap: bool | None
    prompt_tokens: int | None
    output_tokens: int | None
    worth: Literal["flow", "served"] | None
    run_requests: int | None
    layer_requests: int | None
    concurrency: int | None
    rate: float | None
    ttft: float | None
    tpot: float | None
    percentile: float | None
    roles: Literal["both", "split", "any"] | None


class SolveAnyKeywords(TypedDict, total=False):
    """What it takes of whatever it is."""

    time_limit_s: float | None
    seed: int
    solver: str | None
    threads: int
    progress: Progress | None
    target: float | None
    explain: bool
    format: str | None
    kind: str | None
    scale_communication: float


class SolveSettings(SolveAnyKeywords, AnySolveSettings, total=False):
    """Of what is known when it is read: a file."""


@overload
def solve(
    problem: ThroughputProblem, **settings: Unpack[ThroughputSolveSettings]
) -> Answer[ThroughputProblem, Plan, Evaluation]: ...


@overload
def solve(
    problem: HybridProblem, **settings: Unpack[HybridSolveSettings]
) -> Answer[HybridProblem, Plan, HybridEvaluation]: ...


@overload
def solve(
    problem: LatencyProblem, **settings: Unpack[LatencySolveSettings]
) -> Answer[LatencyProblem, LatencyPlan, LatencyEvaluation]: ...


@overload
def solve(
    problem: MakespanProblem, **settings: Unpack[MakespanSolveSettings]
) -> Answer[MakespanProblem, MakespanPlan, MakespanEvaluation]: ...


@overload
def solve(
    problem: MappingProblem, **settings: Unpack[MappingSolveSettings]
) -> Answer[MappingProblem, Placement, MappingEvaluation]: ...


@overload
def solve(
    problem: LayerPlacementProblem, **settings: Unpack[Layer_PlacementSolveSettings]
) -> Answer[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation]: ...


@overload
def solve(
    problem: ServingProblem, **settings: Unpack[ServingSolveSettings]
) -> Answer[ServingProblem, ServingPlan, ServingEvaluation]: ...


@overload
def solve(problem: str | Path, **settings: Unpack[SolveSettings]) -> SolveReturned: ...


@overload
def solve(problem: Stated, **settings: Unpack[SolveProblemKeywords]) -> Answer[Stated, object, PlanEvaluation]: ...


@listed(AnySolveSettings)
def solve(
    problem: Stated | str | Path,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    target: float | None = None,
    explain: bool = True,
    format: str | None = None,
    kind: str | None = None,
    scale_communication: float = 1.0,
    **settings: Unpack[AnySolveSettings],
) -> Answer[Stated, object, PlanEvaluation]:
    """Find the best plan of a problem, and prove how good it is.

    Parameters
    ----------
    problem
        What to plan: what ``read_problem`` or ``price`` returns, or the path of its file.
    time_limit_s
        Wall time after which the best plan so far is returned; None runs until the proof is done.
    seed
        Same seed, same answer, when the clock is not what stops the run.
    solver
        A solver's or baseline's name; None for the default.
    threads
        Most threads to use.
    progress
        Called with an ``Event`` for every better plan or bound.
    target
        Stop as soon as a plan at most this good is known.
    explain
        For an infeasible problem, look for what would be enough.
    format, kind, scale_communication
        Of a file: its format and the problem that it is read as, recognised if None, and a factor on transfers.
    settings
        The problem's own: options of its search (``contiguity`` of throughput problems, for example), and changes of
        the problem (``devices``, ``memory``, …).

    Returns
    -------
    Answer
        Never raises for a time limit or Ctrl-C; the answer says why it stopped.

    Raises
    ------
    InputError
        If a setting has no meaning, the solver does not support the problem, or the file cannot be read.
    DisagreementError
        If a solver's claim does not survive the evaluator: a defect.

    Settings of throughput problems
    -------------------------------
    contiguity : {"acyclic", "free"}
        acyclic: stages in a row; free: any assignment. [default: "acyclic"]
    devices : int | None
        Number of accelerators. [devices; unchanged unless given]
    memory : float | str | None
        Bytes per accelerator, or inf. [bytes; unchanged unless given]
    microbatches : int | None
        Microbatches of the batch. [microbatches; unchanged unless given]
    weight_sync_per_batch : bool
        Replicas synchronise weights once per batch, not per microbatch. [unchanged unless given]
    cpus : int | None
        Number of CPUs. [CPUs; unchanged unless given]
    schedule : {"1f1b", "gpipe"} | None
        The schedule of the microbatches; gpipe adds the largest forward and the largest backward load. [unchanged
        unless given]
    communication : {"sum", "overlap", "duplex"} | None
        Load of a device: work + transfers, max(work, transfers), or max(work, in, out). [unchanged unless given]
    max_replicas : int | None
        Most devices that share a stage. [devices; unchanged unless given]
    groups : int | None
        Devices in G groups behind slower links. [groups; unchanged unless given]
    group_bandwidth : float
        With groups: the bandwidth of a group's link, relative to an accelerator's. [share of an accelerator's
        bandwidth; default: 0.1]
    streaming : bool
        Memory over the limit is allowed, and fetched for each sample. [unchanged unless given]
    working_memory : {"largest", "peak"} | None
        With streaming, memory of a running stage: the largest workspace, or the peak of the order in which
        operators run. [unchanged unless given]
    reload_bandwidth : float | None
        With streaming: the bandwidth of reloading; the file's or the link's if None. [bytes/s; unchanged unless
        given]

    Settings of hybrid problems
    ---------------------------
    machine_devices : int | None
        Devices of one machine, for baselines that keep tensor parallelism inside; those of the problem's hierarchy
        if None, and without one 8. [devices; default: None]
    devices : int | None
        Number of accelerators. [devices; unchanged unless given]
    memory : float | str | None
        Bytes per accelerator, or inf. [bytes; unchanged unless given]
    microbatches : int | None
        Microbatches of the batch. [microbatches; unchanged unless given]
    weight_sync_per_batch : bool
        Replicas synchronise weights once per batch, not per microbatch. [unchanged unless given]

    Settings of latency problems
    ----------------------------
    devices : int | None
        Number of accelerators. [devices; unchanged unless given]
    memory : float | str | None
        Bytes per accelerator, or inf. [bytes; unchanged unless given]
    pieces : int | None
        Most contiguous pieces of an accelerator. [pieces; unchanged unless given]

    Settings of makespan problems
    -----------------------------
    episodes : int
        Episodes that the learned baseline trains for. [episodes; default: 200]
    memory : float | str | None
        Bytes (or what the file counts memory in) per device, or inf. [bytes; unchanged unless given]
    ignore_sender_congestion : bool
        Flows that leave one device may overlap. [unchanged unless given]
    ignore_receiver_congestion : bool
        Flows that enter one device may overlap. [unchanged unless given]
    parallel_operators : bool
        Operators on one device may overlap. [unchanged unless given]
    fuse : bool
        Operators are fused by rules over their types: one kernel for a group, as the runtime runs it. [unchanged
        unless given]
    fusion_rules : str | None
        Rules for fuse, which it implies: common, moirai, or a file in TOML or JSON. [unchanged unless given]

    Settings of mapping problems
    ----------------------------
    topology : str | None
        The devices: a topology (see `partita topologies`), a file of one, or a bandwidth matrix in CSV. [unchanged
        unless given]
    form : {"both", "point-to-point", "all-reduce"} | None
        Terms of the time of a replica: transfers and all-reduce, or one of them. [unchanged unless given]
    replicas : int | None
        Replicas of each stage. [replicas; unchanged unless given]

    Settings of layer_placement problems
    ------------------------------------
    layers : int | None
        Layers of the model. [layers; unchanged unless given]
    overlap : bool | None
        Tokens may enter a machine in the middle of its layers (Helix's overlap rule). [unchanged unless given]
    prompt_tokens : int | None
        Tokens of every prompt. [tokens; unchanged unless given]
    output_tokens : int | None
        Tokens of every output. [tokens; unchanged unless given]
    worth : {"flow", "served"} | None
        What counts: the largest flow of tokens, as published; or tokens served in a simulated run, with the room
        for caches and the length of paths. [unchanged unless given]
    run_requests : int | None
        Requests of the run in which tokens served are counted. [requests; unchanged unless given]
    layer_requests : int | None
        Requests whose caches of a layer take as much memory as its weights, for machines of which only rates are
        known. [requests; unchanged unless given]

    Settings of serving problems
    ----------------------------
    devices : int | None
        Number of devices. [devices; unchanged unless given]
    concurrency : int | None
        Requests in flight. [requests; unchanged unless given]
    rate : float | None
        Requests per second. [requests/s; unchanged unless given]
    ttft : float | None
        Seconds to the first token, at most. [seconds; unchanged unless given]
    tpot : float | None
        Seconds per token, at most. [seconds; unchanged unless given]
    percentile : float | None
        Share of requests that keeps these. [a share; unchanged unless given]
    roles : {"both", "split", "any"} | None
        Units that do all of a request (both), units for prompts and units for decoding (split), or either (any).
        [unchanged unless given]
    """
    return solving.solve(
        problem,
        time_limit_s=time_limit_s,
        seed=seed,
        solver=solver,
        threads=threads,
        progress=progress,
        target=target,
        explain=explain,
        format=format,
        kind=kind,
        scale_communication=scale_communication,
        **settings,
    )
