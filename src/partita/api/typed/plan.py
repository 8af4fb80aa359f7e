"""``plan`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from typing import Literal, TypeAlias, Unpack, overload

from partita.api import planning
from partita.api.answer import Answer
from partita.api.arguments import Devices, Model
from partita.api.listing import listed
from partita.api.typed import settings
from partita.engines.processes.pool import Backend
from partita.engines.search.result import PlanEvaluation
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
from partita.problems.serving.evaluate import ServingEvaluation
from partita.problems.serving.problem import ServingPlan, ServingProblem
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem

PlanReturned: TypeAlias = (
    Answer[ThroughputProblem, Plan, Evaluation]
    | Answer[HybridProblem, Plan, HybridEvaluation]
    | Answer[LatencyProblem, LatencyPlan, LatencyEvaluation]
    | Answer[MakespanProblem, MakespanPlan, MakespanEvaluation]
    | Answer[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation]
    | Answer[ServingProblem, ServingPlan, ServingEvaluation]
)


class PlanKeywords(settings.SearchKeywords, settings.TracingKeywords, total=False):
    """What it takes of any model."""

    baselines: bool
    search_replicas: bool
    jobs: int
    backend: Backend
    address: str | None


class ThroughputPlanSettings(
    PlanKeywords,
    settings.ThroughputSearchKeywords,
    settings.ModelPricingKeywords,
    settings.ThroughputPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "throughput"."""


class HybridPlanSettings(
    PlanKeywords,
    settings.HybridSearchKeywords,
    settings.ModelPricingKeywords,
    settings.HybridPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "hybrid"."""


class HostMemoryPlanSettings(
    PlanKeywords,
    settings.ModelPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.LatencyChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "host-memory"."""


class LatencyPlanSettings(
    PlanKeywords,
    settings.MakespanSearchKeywords,
    settings.ModelPricingKeywords,
    settings.MakespanPricingKeywords,
    settings.MakespanChangesValueKeywords,
    settings.MakespanChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "latency"."""


class Layer_PlacementPlanSettings(
    PlanKeywords,
    settings.ModelPricingKeywords,
    settings.LayerPlacementPricingKeywords,
    settings.LayerPlacementChangesValueKeywords,
    settings.LayerPlacementChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "layer_placement"."""


class ServingPlanSettings(
    PlanKeywords,
    settings.ModelPricingKeywords,
    settings.ServingPricingKeywords,
    settings.ServingPricingValueKeywords,
    settings.ServingChangesValueKeywords,
    total=False,
):
    """Of a model that is planned with objective "serving"."""


class AnyPlanSettings(
    settings.AnyOfPlanSolveCompareSweep,
    settings.AnyOfPlanPriceCompareSweep,
    settings.AnyOfPlanPrice,
    settings.AnyOfPlanPriceSolveCompare,
    settings.AnyOfPlanPriceSolveCompareSweep,
    total=False,
):
    """Of whatever it is."""


class PlanSettings(PlanKeywords, AnyPlanSettings, total=False):
    """Of what is known when it is read: a model."""


@overload
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["throughput"],
    **settings: Unpack[ThroughputPlanSettings],
) -> Answer[ThroughputProblem, Plan, Evaluation]: ...


@overload
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["hybrid"],
    **settings: Unpack[HybridPlanSettings],
) -> Answer[HybridProblem, Plan, HybridEvaluation]: ...


@overload
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["host-memory"],
    **settings: Unpack[HostMemoryPlanSettings],
) -> Answer[LatencyProblem, LatencyPlan, LatencyEvaluation]: ...


@overload
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["latency"],
    **settings: Unpack[LatencyPlanSettings],
) -> Answer[MakespanProblem, MakespanPlan, MakespanEvaluation]: ...


@overload
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["layer_placement"],
    **settings: Unpack[Layer_PlacementPlanSettings],
) -> Answer[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation]: ...


@overload
def plan(
    model: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["serving"],
    **settings: Unpack[ServingPlanSettings],
) -> Answer[ServingProblem, ServingPlan, ServingEvaluation]: ...


@overload
def plan(
    model: Model, cluster: Devices | None = None, *, objective: None = None, **settings: Unpack[PlanSettings]
) -> PlanReturned: ...


@overload
def plan(
    model: Model, cluster: Devices | None = None, *, objective: str, **settings: Unpack[PlanKeywords]
) -> Answer[Stated, object, PlanEvaluation]: ...


@listed(
    AnyPlanSettings,
    {
        "Settings with objective throughput": ThroughputPlanSettings,
        "Settings with objective hybrid": HybridPlanSettings,
        "Settings with objective host-memory": HostMemoryPlanSettings,
        "Settings with objective latency": LatencyPlanSettings,
        "Settings with objective layer_placement": Layer_PlacementPlanSettings,
        "Settings with objective serving": ServingPlanSettings,
    },
    "Settings with every objective",
    written=planning.plan,
)
def plan(*given: object, **named: object) -> object:
    """Split a model over a cluster, compare the plan with what people do by hand, and place it.

    Parameters
    ----------
    model
        ``hf:TYPE_OR_FILE``, ``path/to/file.py:callable``, the path of an ONNX or graph file, a ``Graph``, or a
        ``torch.nn.Module`` with ``inputs``.
    cluster
        The devices: a short form such as ``4xL4``, the path of a file, a ``Cluster`` or a ``Topology``; None for the
        machine that a profile given as ``costs`` was measured on.
    objective
        What is planned for: the name of a problem; None for what suits the model and the cluster.
    time_limit_s
        Wall time of everything but tracing and pricing: searches, baselines, and what is looked at beside the plan.
        Compiling is not counted. None runs until the proof is done.
    seed, solver, threads, progress
        As for ``solve``.
    baselines
        Whether to compare.
    training
        Whether the model is trained: forward and backward, with gradients and optimizer.
    batch_size, sequence_length, dtype, set, task, decode
        What the model is traced for, as in ``load_model``; ``set`` has fields of its configuration.
    inputs
        Of a module its example arguments, as a tuple or by name; of others arguments that are given, by name.
    lora, lora_targets
        Train low-rank adapters of this rank, with all other weights frozen; and on which linear layers, by the ends of
        their names, such as ``q_proj``: all but the output head unless stated.
    search_replicas, jobs, backend, address
        Training: search numbers of stages and replicas, each placed and simulated, by so many workers.
    settings
        The problem's own: options of its search, of its pricing, and changes of the priced problem.

    Returns
    -------
    Answer
        Never raises for a time limit or Ctrl-C; the answer says why it stopped.

    Raises
    ------
    InputError
        If the model, the cluster or a setting is unknown, malformed or out of range, or they do not fit together.
    TraceError
        If the model cannot be built or traced.
    MissingExtraError
        If what a model or a backend needs is not installed.
    """
