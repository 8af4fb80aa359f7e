"""``compare`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Unpack, overload

from partita.api import comparing
from partita.api.arguments import Devices, Model
from partita.api.comparing import Comparison
from partita.api.listing import listed
from partita.api.typed import settings
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Stated
from partita.problems.latency.problem import LatencyProblem
from partita.problems.layer_placement.problem import LayerPlacementProblem
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.mapping.problem import MappingProblem
from partita.problems.serving.problem import ServingProblem
from partita.problems.throughput.problem import ThroughputProblem
from partita.report.results import Rank


class CompareKeywords(settings.SearchKeywords, settings.TracingKeywords, total=False):
    """What it takes of any model."""

    experts: Sequence[str | Path]
    rank: Rank | None


class ThroughputCompareSettings(
    CompareKeywords,
    settings.ThroughputSearchKeywords,
    settings.ModelPricingKeywords,
    settings.ThroughputPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "throughput"."""


class HybridCompareSettings(
    CompareKeywords,
    settings.HybridSearchKeywords,
    settings.ModelPricingKeywords,
    settings.HybridPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "hybrid"."""


class HostMemoryCompareSettings(
    CompareKeywords,
    settings.ModelPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.LatencyChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "host-memory"."""


class LatencyCompareSettings(
    CompareKeywords,
    settings.MakespanSearchKeywords,
    settings.ModelPricingKeywords,
    settings.MakespanPricingKeywords,
    settings.MakespanChangesValueKeywords,
    settings.MakespanChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "latency"."""


class Layer_PlacementCompareSettings(
    CompareKeywords,
    settings.ModelPricingKeywords,
    settings.LayerPlacementPricingKeywords,
    settings.LayerPlacementChangesValueKeywords,
    settings.LayerPlacementChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "layer_placement"."""


class ServingCompareSettings(
    CompareKeywords,
    settings.ModelPricingKeywords,
    settings.ServingPricingKeywords,
    settings.ServingPricingValueKeywords,
    settings.ServingChangesValueKeywords,
    total=False,
):
    """Of a model that is planned with objective "serving"."""


class CompareProblemKeywords(settings.SearchKeywords, total=False):
    """What it takes of any problem."""

    experts: Sequence[str | Path]
    rank: Rank | None


class ThroughputProblemCompareSettings(
    CompareProblemKeywords,
    settings.ThroughputSearchKeywords,
    settings.CommonChangesValueKeywords,
    settings.ThroughputStatedKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of throughput problems."""


class HybridProblemCompareSettings(
    CompareProblemKeywords,
    settings.HybridSearchKeywords,
    settings.CommonChangesValueKeywords,
    settings.HybridStatedKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of hybrid problems."""


class LatencyProblemCompareSettings(
    CompareProblemKeywords, settings.CommonChangesValueKeywords, settings.LatencyChangesKeywords, total=False
):
    """Of latency problems."""


class MakespanProblemCompareSettings(
    CompareProblemKeywords,
    settings.MakespanSearchKeywords,
    settings.MakespanChangesValueKeywords,
    settings.MakespanChangesKeywords,
    settings.MakespanStatedKeywords,
    total=False,
):
    """Of makespan problems."""


class MappingProblemCompareSettings(
    CompareProblemKeywords, settings.MappingStatedKeywords, settings.MappingStatedValueKeywords, total=False
):
    """Of mapping problems."""


class Layer_PlacementProblemCompareSettings(
    CompareProblemKeywords,
    settings.LayerPlacementChangesValueKeywords,
    settings.LayerPlacementChangesKeywords,
    settings.LayerPlacementStatedKeywords,
    total=False,
):
    """Of layer_placement problems."""


class ServingProblemCompareSettings(
    CompareProblemKeywords,
    settings.ServingChangesValueKeywords,
    settings.ServingStatedValueKeywords,
    settings.ServingStatedKeywords,
    total=False,
):
    """Of serving problems."""


class AnyCompareSettings(
    settings.AnyOfPlanSolveCompareSweep,
    settings.AnyOfPlanPriceCompareSweep,
    settings.AnyOfPlanPriceSolveCompare,
    settings.AnyOfPlanPriceSolveCompareSweep,
    settings.AnyOfSolveCompareSweep,
    settings.AnyOfSolveCompare,
    settings.AnyOfCompareSweep,
    total=False,
):
    """Of whatever it is."""


class CompareAnyKeywords(settings.SearchKeywords, settings.TracingKeywords, total=False):
    """What it takes of whatever it is."""

    experts: Sequence[str | Path]
    rank: Rank | None
    format: str | None
    kind: str | None
    scale_communication: float


class CompareSettings(CompareAnyKeywords, AnyCompareSettings, total=False):
    """Of what is known when it is read: a model."""


@overload
def compare(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["throughput"],
    **settings: Unpack[ThroughputCompareSettings],
) -> Comparison: ...


@overload
def compare(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["hybrid"],
    **settings: Unpack[HybridCompareSettings],
) -> Comparison: ...


@overload
def compare(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["host-memory"],
    **settings: Unpack[HostMemoryCompareSettings],
) -> Comparison: ...


@overload
def compare(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["latency"],
    **settings: Unpack[LatencyCompareSettings],
) -> Comparison: ...


@overload
def compare(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["layer_placement"],
    **settings: Unpack[Layer_PlacementCompareSettings],
) -> Comparison: ...


@overload
def compare(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["serving"],
    **settings: Unpack[ServingCompareSettings],
) -> Comparison: ...


@overload
def compare(
    what: Model, cluster: Devices | None = None, *, objective: None = None, **settings: Unpack[CompareSettings]
) -> Comparison: ...


@overload
def compare(what: ThroughputProblem, **settings: Unpack[ThroughputProblemCompareSettings]) -> Comparison: ...


@overload
def compare(what: HybridProblem, **settings: Unpack[HybridProblemCompareSettings]) -> Comparison: ...


@overload
def compare(what: LatencyProblem, **settings: Unpack[LatencyProblemCompareSettings]) -> Comparison: ...


@overload
def compare(what: MakespanProblem, **settings: Unpack[MakespanProblemCompareSettings]) -> Comparison: ...


@overload
def compare(what: MappingProblem, **settings: Unpack[MappingProblemCompareSettings]) -> Comparison: ...


@overload
def compare(what: LayerPlacementProblem, **settings: Unpack[Layer_PlacementProblemCompareSettings]) -> Comparison: ...


@overload
def compare(what: ServingProblem, **settings: Unpack[ServingProblemCompareSettings]) -> Comparison: ...


@overload
def compare(
    what: Model, cluster: Devices | None = None, *, objective: str, **settings: Unpack[CompareAnyKeywords]
) -> Comparison: ...


@overload
def compare(what: Stated, **settings: Unpack[CompareProblemKeywords]) -> Comparison: ...


@listed(
    AnyCompareSettings,
    {
        "Settings with objective throughput": ThroughputCompareSettings,
        "Settings with objective hybrid": HybridCompareSettings,
        "Settings with objective host-memory": HostMemoryCompareSettings,
        "Settings with objective latency": LatencyCompareSettings,
        "Settings with objective layer_placement": Layer_PlacementCompareSettings,
        "Settings with objective serving": ServingCompareSettings,
        "Settings of throughput problems": ThroughputProblemCompareSettings,
        "Settings of hybrid problems": HybridProblemCompareSettings,
        "Settings of latency problems": LatencyProblemCompareSettings,
        "Settings of makespan problems": MakespanProblemCompareSettings,
        "Settings of mapping problems": MappingProblemCompareSettings,
        "Settings of layer_placement problems": Layer_PlacementProblemCompareSettings,
        "Settings of serving problems": ServingProblemCompareSettings,
    },
    "Settings of every problem",
    written=comparing.compare,
)
def compare(*given: object, **named: object) -> object:
    """Put every baseline beside the plan of a model, or of a problem.

    Parameters
    ----------
    what
        A model, as for ``plan``, or a problem or its file, as for ``solve``.
    cluster, objective, training, batch_size, sequence_length, dtype, set, task, decode, inputs, lora, lora_targets
        Of a model, as for ``plan``.
    experts
        Files of further plans to compare: result files, or others that plans of the problem are written in.
    rank
        What rows are ranked by: the ``objective``, or the simulated time of a batch (``step``); None leaves them in the
        order of the problem's list.
    time_limit_s
        Wall time of everything.
    seed, solver, threads, progress
        As for ``solve``.
    format, kind, scale_communication
        Of a file, as for ``solve``.
    settings
        As for ``plan`` or ``solve``; baselines that do not give what was asked for are rows without a plan.

    Raises
    ------
    InputError
        As ``plan`` and ``solve`` do, and if the plan of an expert is none of the problem.
    """
