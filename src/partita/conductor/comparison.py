"""Plans from elsewhere beside the solver's: baselines, experts' splits, and which of them is the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from partita.errors import DisagreementError
from partita.problems.throughput.baselines import DEFAULT_BASELINES
from partita.problems.throughput.evaluate import Evaluation, evaluate
from partita.problems.throughput.plan import Contiguity, Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options
from partita.problems.throughput.sample_latency import Pipeline, pipeline_of
from partita.problems.throughput.working_memory import ordered_plan
from partita.run.interrupt import interruptible
from partita.run.monitor import Monitor
from partita.run.result import OPTIMALITY_GAP, Event, Result, Statistics, Status, StopReason, relative_gap
from partita.units import TOLERANCE

__all__ = ["BASELINE_TIME_S", "Comparison", "adopt_better", "best_of", "compare", "judge_plan"]

ThroughputResult = Result[ThroughputProblem, Plan, Evaluation]


@dataclass(frozen=True)
class Comparison:
    """One row of a comparison.

    Attributes
    ----------
    name, summary
        The solver or baseline and what it ignores.
    evaluation
        What its plan is worth, feasible or not; None if it made none.
    plan
        Its plan.
    runtime_s
        Wall time.
    note
        Why there is no plan, or the first thing wrong with it.
    pipeline
        How the plan runs as a pipeline.
    interrupted
        Whether Ctrl-C came while it was made; further baselines were left out then.
    """

    name: str
    summary: str
    evaluation: Evaluation | None
    plan: Plan | None
    runtime_s: float
    note: str = ""
    pipeline: Pipeline | None = None
    interrupted: bool = False


#: Wall time of one baseline; all but the local search take a moment.
BASELINE_TIME_S = 10.0


def judge_plan(problem: ThroughputProblem, name: str, summary: str, plan: Plan | None, runtime_s: float) -> Comparison:
    """A row for a plan from anywhere, such as an expert's split.

    Raises
    ------
    InputError
        If it is not a plan of the problem.
    """
    if plan is None:
        return Comparison(name, summary, None, None, runtime_s, "it finds no split that fits")
    evaluation = evaluate(problem, plan)
    note = "" if evaluation.feasible else evaluation.violations[0]
    return Comparison(name, summary, evaluation, plan, runtime_s, note, pipeline_of(problem, plan, evaluation))


def compare(
    problem: ThroughputProblem,
    *,
    contiguity: Contiguity = "acyclic",
    seed: int = 0,
    time_limit_s: float = BASELINE_TIME_S,
) -> list[Comparison]:
    """Every baseline on a problem, judged by the one evaluator.

    Parameters
    ----------
    problem, contiguity, seed
        As for ``solve``; baselines that give free splits only are rows without a plan unless free is asked for.
    time_limit_s
        Wall time of each. Ctrl-C ends the baseline that runs and leaves out the rest.
    """
    rows = []
    options = Options(contiguity=contiguity, seed=seed)
    for baseline in DEFAULT_BASELINES:
        refusal = baseline.supports(problem, options)
        if refusal is not None:
            rows.append(Comparison(baseline.name, baseline.summary, None, None, 0.0, refusal))
            continue
        monitor = Monitor(time_limit_s)
        with interruptible(monitor):
            outcome = baseline.solve(problem, options, monitor)
        # Baselines know no order of execution; they get the best one found.
        found = None if outcome.plan is None else ordered_plan(problem, outcome.plan)
        row = judge_plan(problem, baseline.name, baseline.summary, found, monitor.elapsed_s)
        rows.append(dataclasses.replace(row, interrupted=monitor.interrupted))
        if monitor.interrupted:
            break
    return rows


def best_of(rows: Sequence[Comparison], contiguity: Contiguity = "acyclic") -> Comparison | None:
    """The row with the best feasible plan of a contiguity, the first of equal ones; None if there is none."""
    best: Comparison | None = None
    for row in rows:
        if row.evaluation is None or not row.evaluation.feasible:
            continue
        if contiguity == "acyclic" and not row.evaluation.acyclic:
            continue
        if best is None or best.evaluation is None or row.evaluation.objective < best.evaluation.objective:
            best = row
    return best


def adopt_better(
    result: ThroughputResult, rows: Sequence[Comparison], contiguity: Contiguity = "acyclic"
) -> ThroughputResult:
    """The result, with the best plan of the rows in place of its own where that is better.

    Only a run that was stopped early can be beaten by a feasible plan of the contiguity asked for; then that plan is
    the answer, a line in the statistics says whose it is, and status and gap are judged anew. If Ctrl-C came while the
    rows were made, that is why the result stopped.

    Raises
    ------
    DisagreementError
        If a row contradicts what the solver proved: a defect.
    """
    if any(row.interrupted for row in rows):
        result = dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED)
    chosen = best_of(rows, contiguity)
    if chosen is None or chosen.evaluation is None or chosen.plan is None:
        return result
    slack = 1e3 * TOLERANCE
    value = chosen.evaluation.objective
    if result.status is Status.INFEASIBLE:
        raise DisagreementError(f"{result.solver} proved that there is no plan, but {chosen.name} has one: {value!r}")
    if result.bound is not None and value < result.bound.value * (1 - slack) - slack:
        raise DisagreementError(f"{result.solver} claims bound {result.bound.value!r}, but {chosen.name} has {value!r}")
    if result.objective is not None and value >= result.objective * (1 - TOLERANCE):
        return result
    bound = result.bound and dataclasses.replace(result.bound, value=min(result.bound.value, value))
    gap = relative_gap(value, None if bound is None else bound.value)
    events = [
        *result.statistics.events,
        Event(result.runtime_s, value, None if bound is None else bound.value, f"plan of {chosen.name} adopted"),
    ]
    return dataclasses.replace(
        result,
        plan=msgspec.structs.replace(chosen.plan, contiguity=contiguity),
        evaluation=chosen.evaluation,
        bound=bound,
        status=Status.OPTIMAL if gap is not None and gap <= OPTIMALITY_GAP else Status.FEASIBLE,
        reason="",
        statistics=Statistics(events, dict(result.statistics.counters)),
    )
