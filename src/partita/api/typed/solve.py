"""``solve`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias, Unpack, overload

from partita.api import solving
from partita.api.answer import Answer
from partita.api.listing import listed
from partita.api.typed import settings
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


class SolveProblemKeywords(settings.SearchKeywords, total=False):
    """What it takes of any problem."""

    target: float | None
    explain: bool


class ThroughputSolveSettings(
    SolveProblemKeywords,
    settings.ThroughputSearchKeywords,
    settings.CommonChangesValueKeywords,
    settings.ThroughputStatedKeywords,
    settings.ThroughputChangesKeywords,
    total=False,
):
    """Of throughput problems."""


class HybridSolveSettings(
    SolveProblemKeywords,
    settings.HybridSearchKeywords,
    settings.CommonChangesValueKeywords,
    settings.HybridStatedKeywords,
    settings.HybridChangesKeywords,
    total=False,
):
    """Of hybrid problems."""


class LatencySolveSettings(
    SolveProblemKeywords, settings.CommonChangesValueKeywords, settings.LatencyChangesKeywords, total=False
):
    """Of latency problems."""


class MakespanSolveSettings(
    SolveProblemKeywords,
    settings.MakespanSearchKeywords,
    settings.MakespanChangesValueKeywords,
    settings.MakespanChangesKeywords,
    settings.MakespanStatedKeywords,
    total=False,
):
    """Of makespan problems."""


class MappingSolveSettings(
    SolveProblemKeywords, settings.MappingStatedKeywords, settings.MappingStatedValueKeywords, total=False
):
    """Of mapping problems."""


class Layer_PlacementSolveSettings(
    SolveProblemKeywords,
    settings.LayerPlacementChangesValueKeywords,
    settings.LayerPlacementChangesKeywords,
    settings.LayerPlacementStatedKeywords,
    total=False,
):
    """Of layer_placement problems."""


class ServingSolveSettings(
    SolveProblemKeywords,
    settings.ServingChangesValueKeywords,
    settings.ServingStatedValueKeywords,
    settings.ServingStatedKeywords,
    total=False,
):
    """Of serving problems."""


class AnySolveSettings(
    settings.AnyOfPlanSolveCompareSweep,
    settings.AnyOfPlanPriceSolveCompare,
    settings.AnyOfPlanPriceSolveCompareSweep,
    settings.AnyOfSolve,
    settings.AnyOfSolveCompareSweep,
    settings.AnyOfSolveCompare,
    total=False,
):
    """Of whatever it is."""


class SolveAnyKeywords(settings.SearchKeywords, total=False):
    """What it takes of whatever it is."""

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


@listed(
    AnySolveSettings,
    {
        "Settings of throughput problems": ThroughputSolveSettings,
        "Settings of hybrid problems": HybridSolveSettings,
        "Settings of latency problems": LatencySolveSettings,
        "Settings of makespan problems": MakespanSolveSettings,
        "Settings of mapping problems": MappingSolveSettings,
        "Settings of layer_placement problems": Layer_PlacementSolveSettings,
        "Settings of serving problems": ServingSolveSettings,
    },
    "Settings of every problem",
    written=solving.solve,
)
def solve(*given: object, **named: object) -> object:
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
    """
