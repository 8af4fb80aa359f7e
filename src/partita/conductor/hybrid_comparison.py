"""Hybrid plans from elsewhere beside the solver's: every recipe, judged by the one evaluator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from partita.conductor.hybrid_pipeline import HybridResult
from partita.errors import DisagreementError
from partita.problems.hybrid.baselines import DEFAULT_BASELINES
from partita.problems.hybrid.evaluate import HybridEvaluation, evaluate
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options
from partita.problems.hybrid.step_time import StepTime, step_time
from partita.run.interrupt import interruptible
from partita.run.monitor import Monitor
from partita.run.result import OPTIMALITY_GAP, Event, Statistics, Status, StopReason, relative_gap
from partita.units import TOLERANCE

__all__ = ["RECIPE_TIME_S", "HybridRow", "adopt_better_hybrid", "compare_hybrid", "judge_hybrid"]

#: Wall time of one recipe; most take a moment.
RECIPE_TIME_S = 15.0


@dataclass(frozen=True)
class HybridRow:
    """One row of a comparison.

    Attributes
    ----------
    name, summary
        The recipe and what it does.
    plan, evaluation, step
        Its plan, what that is worth, and how long a step takes; None if it made none.
    runtime_s
        Wall time.
    note
        Why there is no plan, or the first thing wrong with it.
    interrupted
        Whether Ctrl-C came while it was made; further recipes were left out then.
    """

    name: str
    summary: str
    plan: HybridPlan | None
    evaluation: HybridEvaluation | None
    step: StepTime | None
    runtime_s: float
    note: str = ""
    interrupted: bool = False

    @property
    def feasible(self) -> bool:
        """Whether there is a plan that keeps every limit."""
        return self.evaluation is not None and self.evaluation.feasible


def judge_hybrid(
    problem: HybridProblem,
    name: str,
    summary: str,
    plan: HybridPlan,
    runtime_s: float = 0.0,
    update: Sequence[float] = (),
) -> HybridRow:
    """A row for a plan from anywhere.

    Raises
    ------
    InputError
        If it is not a plan of the problem.
    """
    evaluation = evaluate(problem, plan)
    note = "" if evaluation.feasible else evaluation.violations[0]
    return HybridRow(name, summary, plan, evaluation, step_time(problem, plan, evaluation, update), runtime_s, note)


def compare_hybrid(
    problem: HybridProblem,
    *,
    machine_devices: int | None = None,
    seed: int = 0,
    threads: int = 1,
    time_limit_s: float = RECIPE_TIME_S,
) -> list[HybridRow]:
    """Every recipe on a problem.

    Parameters
    ----------
    problem
        The problem.
    machine_devices
        Devices of one machine, for recipes that keep tensor parallelism inside; the problem's hierarchy says so itself,
        and without either it is 8.
    seed, threads
        As for ``solve``.
    time_limit_s
        Wall time of each. Ctrl-C ends the recipe that runs and leaves out the rest.
    """
    if problem.hierarchy is not None:
        machine_devices = problem.devices_per_machine
    options = Options(machine_devices=8 if machine_devices is None else machine_devices, seed=seed, threads=threads)
    rows = []
    for recipe in DEFAULT_BASELINES:
        monitor = Monitor(time_limit_s)
        with interruptible(monitor):
            outcome = recipe.solve(problem, options, monitor)
        if outcome.plan is None:
            row = HybridRow(recipe.name, recipe.summary, None, None, None, monitor.elapsed_s, outcome.reason)
        else:
            row = judge_hybrid(problem, recipe.name, recipe.summary, outcome.plan, monitor.elapsed_s)
        rows.append(dataclasses.replace(row, interrupted=monitor.interrupted))
        if monitor.interrupted:
            break
    return rows


def adopt_better_hybrid(result: HybridResult, rows: Sequence[HybridRow]) -> HybridResult:
    """The result, with the best plan of the rows in place of its own where that is better.

    Only a run that was stopped early can be beaten; a line in the statistics says by what.

    Raises
    ------
    DisagreementError
        If a row contradicts what the solver proved: a defect.
    """
    if any(row.interrupted for row in rows):
        result = dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED)
    feasible = [row for row in rows if row.evaluation is not None and row.evaluation.feasible]
    chosen = min(feasible, key=lambda row: row.evaluation.objective if row.evaluation else 0.0, default=None)
    if chosen is None or chosen.evaluation is None:
        return result
    value, slack = chosen.evaluation.objective, 1e3 * TOLERANCE
    if result.status is Status.INFEASIBLE:
        raise DisagreementError(f"{result.solver} proved that there is no plan, but {chosen.name} has one: {value!r}")
    if result.bound is not None and value < result.bound.value * (1 - slack) - slack * TOLERANCE:
        raise DisagreementError(f"{result.solver} claims bound {result.bound.value!r}, but {chosen.name} has {value!r}")
    if result.objective is not None and value >= result.objective * (1 - TOLERANCE):
        return result
    bound = result.bound and dataclasses.replace(result.bound, value=min(result.bound.value, value))
    gap = relative_gap(value, None if bound is None else bound.value)
    best = None if bound is None else bound.value
    events = [*result.statistics.events, Event(result.runtime_s, value, best, f"plan of {chosen.name} adopted")]
    return dataclasses.replace(
        result,
        plan=chosen.plan,
        evaluation=chosen.evaluation,
        bound=bound,
        status=Status.OPTIMAL if gap is not None and gap <= OPTIMALITY_GAP else Status.FEASIBLE,
        reason="",
        statistics=Statistics(events, dict(result.statistics.counters)),
    )
