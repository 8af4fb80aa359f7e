"""What can be checked of which problem: the visible list, by the format of the problem's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Certificate, Problem
from partita.checker.hybrid import plan as hybrid_plan
from partita.checker.hybrid.downsets import SuffixSets
from partita.checker.latency import plan as latency_plan
from partita.checker.latency.ends import EarliestPieceEnds
from partita.checker.layer_placement import plan as layer_placement_plan
from partita.checker.layer_placement.area import WorkOfLayers
from partita.checker.makespan import plan as makespan_plan
from partita.checker.makespan.ends import EarliestEnds
from partita.checker.makespan.separators import SeparatorPotentials
from partita.checker.makespan.work import WeightedWork
from partita.checker.mapping import plan as mapping_plan
from partita.checker.mapping.crowded import CrowdedDevices
from partita.checker.throughput import plan as throughput_plan
from partita.checker.throughput.downsets import Downsets
from partita.checker.throughput.paths import TransferPaths
from partita.checker.throughput.work import LargestOperator, SharedWork


@dataclass(frozen=True)
class Checks:
    """What is known of one problem, whose certificates are of some kinds.

    ``worth`` is the objective of a plan, which raises if it breaks a rule; ``not_covered`` what of a problem and plan
    that knows nothing of, None if it knows all; ``covers`` says whether what is proven of a scope holds for the plans
    that a plan is one of.
    """

    worth: Callable[[Problem, Mapping[str, Any]], Fraction]
    certificates: tuple[type[Certificate], ...]
    not_covered: Callable[[Problem, Mapping[str, Any]], str | None] = lambda problem, plan: None
    covers: Callable[[str, Mapping[str, Any]], bool] = lambda scope, plan: scope == ""


LISTED: dict[str, Checks] = {
    "partita.problem": Checks(
        throughput_plan.worth,
        (LargestOperator, SharedWork, TransferPaths, Downsets),
        throughput_plan.not_covered,
        throughput_plan.covers,
    ),
    "partita.makespan": Checks(makespan_plan.worth, (WeightedWork, EarliestEnds, SeparatorPotentials)),
    "partita.latency": Checks(latency_plan.worth, (EarliestPieceEnds,)),
    "partita.layer-placement": Checks(layer_placement_plan.worth, (WorkOfLayers,), layer_placement_plan.not_covered),
    "partita.mapping": Checks(mapping_plan.worth, (CrowdedDevices,)),
    "partita.hybrid": Checks(hybrid_plan.worth, (SuffixSets,), hybrid_plan.not_covered, hybrid_plan.covers),
}
