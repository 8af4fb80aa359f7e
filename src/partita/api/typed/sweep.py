"""``sweep`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from typing import Literal, Unpack, overload

from partita.api import sweeping
from partita.api.arguments import Devices, Model
from partita.api.listing import listed
from partita.api.sweeping import SweepAnswer
from partita.api.typed import settings
from partita.engines.processes.pool import Backend
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Stated
from partita.problems.latency.problem import LatencyProblem
from partita.problems.layer_placement.problem import LayerPlacementProblem
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.mapping.problem import MappingProblem
from partita.problems.serving.problem import ServingProblem
from partita.problems.throughput.problem import ThroughputProblem


class SweepKeywords(settings.SearchKeywords, settings.TracingKeywords, total=False):
    """What it takes of any model."""

    jobs: int
    backend: Backend
    address: str | None


class ThroughputSweepSettings(
    SweepKeywords,
    settings.CommonAxesKeywords,
    settings.ThroughputSearchKeywords,
    settings.ModelPricingKeywords,
    settings.ThroughputPricingKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "throughput"."""


class HybridSweepSettings(
    SweepKeywords,
    settings.CommonAxesKeywords,
    settings.HybridSearchKeywords,
    settings.ModelPricingKeywords,
    settings.HybridPricingKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "hybrid"."""


class HostMemorySweepSettings(
    SweepKeywords,
    settings.CommonAxesKeywords,
    settings.ModelPricingKeywords,
    settings.LatencyChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "host-memory"."""


class LatencySweepSettings(
    SweepKeywords,
    settings.CommonAxesKeywords,
    settings.MakespanSearchKeywords,
    settings.ModelPricingKeywords,
    settings.MakespanPricingKeywords,
    settings.MakespanChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "latency"."""


class Layer_PlacementSweepSettings(
    SweepKeywords,
    settings.LayerPlacementAxesKeywords,
    settings.ModelPricingKeywords,
    settings.LayerPlacementPricingKeywords,
    settings.LayerPlacementChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "layer_placement"."""


class ServingSweepSettings(
    SweepKeywords,
    settings.ServingAxesKeywords,
    settings.ModelPricingKeywords,
    settings.ServingPricingKeywords,
    total=False,
):
    """Of a model that is planned with objective "serving"."""


class SweepProblemKeywords(settings.SearchKeywords, total=False):
    """What it takes of any problem."""

    jobs: int
    backend: Backend
    address: str | None


class ThroughputProblemSweepSettings(
    SweepProblemKeywords,
    settings.CommonAxesKeywords,
    settings.ThroughputSearchKeywords,
    settings.ThroughputStatedKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of throughput problems."""


class HybridProblemSweepSettings(
    SweepProblemKeywords,
    settings.CommonAxesKeywords,
    settings.HybridSearchKeywords,
    settings.HybridStatedKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of hybrid problems."""


class LatencyProblemSweepSettings(
    SweepProblemKeywords, settings.CommonAxesKeywords, settings.LatencyChangesKeywords, total=False
):
    """Of latency problems."""


class MakespanProblemSweepSettings(
    SweepProblemKeywords,
    settings.CommonAxesKeywords,
    settings.MakespanSearchKeywords,
    settings.MakespanChangesKeywords,
    settings.MakespanStatedKeywords,
    total=False,
):
    """Of makespan problems."""


class MappingProblemSweepSettings(
    SweepProblemKeywords, settings.MappingAxesKeywords, settings.MappingStatedKeywords, total=False
):
    """Of mapping problems."""


class Layer_PlacementProblemSweepSettings(
    SweepProblemKeywords,
    settings.LayerPlacementAxesKeywords,
    settings.LayerPlacementChangesKeywords,
    settings.LayerPlacementStatedKeywords,
    total=False,
):
    """Of layer_placement problems."""


class ServingProblemSweepSettings(
    SweepProblemKeywords, settings.ServingAxesKeywords, settings.ServingStatedKeywords, total=False
):
    """Of serving problems."""


class AnySweepSettings(
    settings.AnyOfPlanSolveCompareSweep,
    settings.AnyOfPlanPriceCompareSweep,
    settings.AnyOfPlanPriceSolveCompareSweep,
    settings.AnyOfSolveCompareSweep,
    settings.AnyOfCompareSweep,
    settings.AnyOfSweep,
    total=False,
):
    """Of whatever it is."""


class SweepAnyKeywords(settings.SearchKeywords, settings.TracingKeywords, total=False):
    """What it takes of whatever it is."""

    jobs: int
    backend: Backend
    address: str | None
    format: str | None
    kind: str | None
    scale_communication: float


class SweepSettings(SweepAnyKeywords, AnySweepSettings, total=False):
    """Of what is known when it is read: a model."""


@overload
def sweep(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["throughput"],
    **settings: Unpack[ThroughputSweepSettings],
) -> SweepAnswer: ...


@overload
def sweep(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["hybrid"],
    **settings: Unpack[HybridSweepSettings],
) -> SweepAnswer: ...


@overload
def sweep(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["host-memory"],
    **settings: Unpack[HostMemorySweepSettings],
) -> SweepAnswer: ...


@overload
def sweep(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["latency"],
    **settings: Unpack[LatencySweepSettings],
) -> SweepAnswer: ...


@overload
def sweep(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["layer_placement"],
    **settings: Unpack[Layer_PlacementSweepSettings],
) -> SweepAnswer: ...


@overload
def sweep(
    what: Model,
    cluster: Devices | None = None,
    *,
    objective: Literal["serving"],
    **settings: Unpack[ServingSweepSettings],
) -> SweepAnswer: ...


@overload
def sweep(
    what: Model, cluster: Devices | None = None, *, objective: None = None, **settings: Unpack[SweepSettings]
) -> SweepAnswer: ...


@overload
def sweep(what: ThroughputProblem, **settings: Unpack[ThroughputProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(what: HybridProblem, **settings: Unpack[HybridProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(what: LatencyProblem, **settings: Unpack[LatencyProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(what: MakespanProblem, **settings: Unpack[MakespanProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(what: MappingProblem, **settings: Unpack[MappingProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(what: LayerPlacementProblem, **settings: Unpack[Layer_PlacementProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(what: ServingProblem, **settings: Unpack[ServingProblemSweepSettings]) -> SweepAnswer: ...


@overload
def sweep(
    what: Model, cluster: Devices | None = None, *, objective: str, **settings: Unpack[SweepAnyKeywords]
) -> SweepAnswer: ...


@overload
def sweep(what: Stated, **settings: Unpack[SweepProblemKeywords]) -> SweepAnswer: ...


@listed(
    AnySweepSettings,
    {
        "Settings with objective throughput": ThroughputSweepSettings,
        "Settings with objective hybrid": HybridSweepSettings,
        "Settings with objective host-memory": HostMemorySweepSettings,
        "Settings with objective latency": LatencySweepSettings,
        "Settings with objective layer_placement": Layer_PlacementSweepSettings,
        "Settings with objective serving": ServingSweepSettings,
        "Settings of throughput problems": ThroughputProblemSweepSettings,
        "Settings of hybrid problems": HybridProblemSweepSettings,
        "Settings of latency problems": LatencyProblemSweepSettings,
        "Settings of makespan problems": MakespanProblemSweepSettings,
        "Settings of mapping problems": MappingProblemSweepSettings,
        "Settings of layer_placement problems": Layer_PlacementProblemSweepSettings,
        "Settings of serving problems": ServingProblemSweepSettings,
    },
    "Settings of every problem",
    written=sweeping.sweep,
)
def sweep(*given: object, **named: object) -> object:
    """Plan a model, or solve a problem, at every combination of the values given.

    Parameters
    ----------
    what
        A model, as for ``plan``, or a problem or its file, as for ``solve``.
    cluster
        Of a model: its devices. ``devices=[2, 4, 8]`` replaces their count.
    time_limit_s
        Wall time of each point.
    jobs, backend, address
        Workers that solve points side by side that do not bound each other.
    settings
        Axes as lists of values (``devices``, ``memory``, ``bandwidth`` and others of the problem); an axis that is not
        given stays as it is. The rest is as for ``plan`` or ``solve``.

    Returns
    -------
    SweepAnswer
        Points that have no plan are rows, too.

    Raises
    ------
    InputError
        As ``plan`` and ``solve`` do, and if the problem cannot be swept along an axis.
    """
