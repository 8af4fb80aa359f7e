"""What can be checked of which problem: the visible list, by the format of the problem's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Certificate, Problem
from partita.checker.hybrid import plan as hybrid_plan
from partita.checker.hybrid.suffix_sets import SuffixSets
from partita.checker.latency import ends as latency_ends
from partita.checker.latency import plan as latency_plan
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

    ``not_covered`` is what of a problem and plan the next knows nothing of, None if it knows all; ``worth`` the
    objective of a plan, which raises if it breaks a rule; ``covers`` says whether what is proven of a scope holds for
    the plans that a plan is one of.
    """

    not_covered: Callable[[Problem, Mapping[str, Any]], str | None]
    worth: Callable[[Problem, Mapping[str, Any]], Fraction]
    covers: Callable[[str, Mapping[str, Any]], bool]
    certificates: tuple[type[Certificate], ...]


def _all(problem: Problem, plan: Mapping[str, Any]) -> str | None:
    return None


def _of_all(scope: str, plan: Mapping[str, Any]) -> bool:
    """Of problems whose proofs are about all plans."""
    return scope == ""


def _checks(plan: Any, *certificates: type[Certificate]) -> Checks:
    """Those of a file with plans; what it leaves out is as in the two above."""
    known, about = getattr(plan, "not_covered", _all), getattr(plan, "covers", _of_all)
    return Checks(known, plan.worth, about, certificates)


LISTED: dict[str, Checks] = {
    "partita.problem": _checks(throughput_plan, LargestOperator, SharedWork, TransferPaths, Downsets),
    "partita.makespan": _checks(makespan_plan, WeightedWork, EarliestEnds, SeparatorPotentials),
    "partita.latency": _checks(latency_plan, latency_ends.EarliestPieceEnds),
    "partita.mapping": _checks(mapping_plan, CrowdedDevices),
    "partita.hybrid": _checks(hybrid_plan, SuffixSets),
}
