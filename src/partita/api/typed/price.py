"""``price`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from typing import Literal, Unpack, overload

from partita.api import planning
from partita.api.arguments import Devices, Model
from partita.api.listing import listed
from partita.api.typed import settings
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Stated
from partita.problems.latency.problem import LatencyProblem
from partita.problems.layer_placement.problem import LayerPlacementProblem
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.serving.problem import ServingProblem
from partita.problems.throughput.problem import ThroughputProblem


class PriceKeywords(settings.TracingKeywords, total=False):
    """What it takes of any model."""


class ThroughputPriceSettings(
    PriceKeywords,
    settings.ModelPricingKeywords,
    settings.ThroughputPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "throughput"."""


class HybridPriceSettings(
    PriceKeywords,
    settings.ModelPricingKeywords,
    settings.HybridPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "hybrid"."""


class HostMemoryPriceSettings(
    PriceKeywords,
    settings.ModelPricingKeywords,
    settings.CommonChangesValueKeywords,
    settings.LatencyChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "host-memory"."""


class LatencyPriceSettings(
    PriceKeywords,
    settings.ModelPricingKeywords,
    settings.MakespanPricingKeywords,
    settings.MakespanChangesValueKeywords,
    settings.MakespanChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "latency"."""


class Layer_PlacementPriceSettings(
    PriceKeywords,
    settings.ModelPricingKeywords,
    settings.LayerPlacementPricingKeywords,
    settings.LayerPlacementChangesValueKeywords,
    settings.LayerPlacementChangesKeywords,
    total=False,
):
    """Of a model that is planned with objective "layer_placement"."""


class ServingPriceSettings(
    PriceKeywords,
    settings.ModelPricingKeywords,
    settings.ServingPricingKeywords,
    settings.ServingPricingValueKeywords,
    settings.ServingChangesValueKeywords,
    total=False,
):
    """Of a model that is planned with objective "serving"."""


class AnyPriceSettings(
    settings.AnyOfPlanPriceCompareSweep,
    settings.AnyOfPlanPrice,
    settings.AnyOfPlanPriceSolveCompare,
    settings.AnyOfPlanPriceSolveCompareSweep,
    total=False,
):
    """Of whatever it is."""


class PriceSettings(PriceKeywords, AnyPriceSettings, total=False):
    """Of what is known when it is read: a model."""


@overload
def price(
    model: Model, cluster: Devices, *, objective: Literal["throughput"], **settings: Unpack[ThroughputPriceSettings]
) -> ThroughputProblem: ...


@overload
def price(
    model: Model, cluster: Devices, *, objective: Literal["hybrid"], **settings: Unpack[HybridPriceSettings]
) -> HybridProblem: ...


@overload
def price(
    model: Model, cluster: Devices, *, objective: Literal["host-memory"], **settings: Unpack[HostMemoryPriceSettings]
) -> LatencyProblem: ...


@overload
def price(
    model: Model, cluster: Devices, *, objective: Literal["latency"], **settings: Unpack[LatencyPriceSettings]
) -> MakespanProblem: ...


@overload
def price(
    model: Model,
    cluster: Devices,
    *,
    objective: Literal["layer_placement"],
    **settings: Unpack[Layer_PlacementPriceSettings],
) -> LayerPlacementProblem: ...


@overload
def price(
    model: Model, cluster: Devices, *, objective: Literal["serving"], **settings: Unpack[ServingPriceSettings]
) -> ServingProblem: ...


@overload
def price(
    model: Model, cluster: Devices, *, objective: None = None, **settings: Unpack[ThroughputPriceSettings]
) -> ThroughputProblem: ...


@overload
def price(model: Model, cluster: Devices, *, objective: str, **settings: Unpack[PriceKeywords]) -> Stated: ...


@listed(
    AnyPriceSettings,
    {
        "Settings with objective throughput": ThroughputPriceSettings,
        "Settings with objective hybrid": HybridPriceSettings,
        "Settings with objective host-memory": HostMemoryPriceSettings,
        "Settings with objective latency": LatencyPriceSettings,
        "Settings with objective layer_placement": Layer_PlacementPriceSettings,
        "Settings with objective serving": ServingPriceSettings,
    },
    "Settings with every objective",
    written=planning.price,
)
def price(*given: object, **named: object) -> object:
    """The problem of a model on a cluster, in seconds and bytes.

    Parameters
    ----------
    model, cluster, training, batch_size, sequence_length, dtype, set, task, decode, inputs, lora, lora_targets
        As for ``plan``.
    objective
        What is planned for; None for the first problem in the list that models become.
    settings
        How it is priced: ``microbatches``, ``optimizer``, and so on (``FromModel.pricing`` of the problem), and
        changes of the priced problem.

    Raises
    ------
    InputError
        If a setting is unknown or out of range, or does not fit the model or the cluster.
    TraceError
        If the model cannot be built or traced.
    """
