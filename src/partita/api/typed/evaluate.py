"""``evaluate`` with a signature for every problem: written by ``make signatures``, not by hand."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from partita.api import judging
from partita.api.listing import calling
from partita.engines.search.result import PlanEvaluation, Result
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


@overload
def evaluate(
    problem: ThroughputProblem, plan: Plan | Result[ThroughputProblem, Plan, Evaluation] | str | Path
) -> Evaluation: ...


@overload
def evaluate(
    problem: HybridProblem, plan: Plan | Result[HybridProblem, Plan, HybridEvaluation] | str | Path
) -> HybridEvaluation: ...


@overload
def evaluate(
    problem: LatencyProblem, plan: LatencyPlan | Result[LatencyProblem, LatencyPlan, LatencyEvaluation] | str | Path
) -> LatencyEvaluation: ...


@overload
def evaluate(
    problem: MakespanProblem,
    plan: MakespanPlan | Result[MakespanProblem, MakespanPlan, MakespanEvaluation] | str | Path,
) -> MakespanEvaluation: ...


@overload
def evaluate(
    problem: MappingProblem, plan: Placement | Result[MappingProblem, Placement, MappingEvaluation] | str | Path
) -> MappingEvaluation: ...


@overload
def evaluate(
    problem: LayerPlacementProblem,
    plan: LayerPlacement | Result[LayerPlacementProblem, LayerPlacement, LayerPlacementEvaluation] | str | Path,
) -> LayerPlacementEvaluation: ...


@overload
def evaluate(
    problem: ServingProblem, plan: ServingPlan | Result[ServingProblem, ServingPlan, ServingEvaluation] | str | Path
) -> ServingEvaluation: ...


@overload
def evaluate(problem: Stated | str | Path, plan: object) -> PlanEvaluation: ...


@calling(judging.evaluate)
def evaluate(*given: object, **named: object) -> object:
    """Objective and feasibility of a plan, from the problem alone.

    Parameters
    ----------
    problem
        The problem, or the path of its file.
    plan
        A plan of it, an answer, or the path of a result file or of another file that its plans are written in.

    Returns
    -------
    PlanEvaluation
        With the fields of the problem's own.

    Raises
    ------
    FormatError
        If a file is malformed.
    InputError
        If the plan is not a plan of this problem, or a file cannot be read.
    """
