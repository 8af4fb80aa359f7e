"""What the commands do with a hybrid problem."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from partita.cli.common import check_writable, console, emit_json, exit_code, progress_line, write_result

if TYPE_CHECKING:
    from partita.conductor.hybrid_pipeline import HybridResult
    from partita.problems.hybrid.evaluate import HybridEvaluation
    from partita.problems.hybrid.plan import HybridPlan
    from partita.problems.hybrid.problem import HybridProblem

__all__ = ["compare_hybrid_file", "evaluate_hybrid", "hybrid_summary", "solve_hybrid_file"]


def solve_hybrid_file(
    problem: HybridProblem,
    *,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    as_json: bool,
) -> int:
    """Solve, write and show."""
    from partita.conductor.hybrid_pipeline import solve_hybrid
    from partita.problems.hybrid.files.native import hybrid_result_document

    check_writable(output)
    with progress_line(problem.unit, "planning") as progress:
        result = solve_hybrid(
            problem, time_limit_s=time_limit, seed=seed, solver=solver, threads=threads, progress=progress
        )
    document = hybrid_result_document(result)
    write_result(output, document)
    if as_json:
        emit_json(document)
    if not as_json or result.plan is None:
        if result.plan is not None and result.evaluation is not None:
            _show(problem, result.plan, result.evaluation)
        for line in hybrid_summary(result):
            print(line, file=sys.stdout if result.plan is not None and sys.stdout.isatty() else sys.stderr)
    return exit_code(result)


def compare_hybrid_file(
    problem: HybridProblem,
    experts: Sequence[str],
    *,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    as_json: bool,
) -> int:
    """Put every recipe, and the plans of result files, beside the plan."""
    from pathlib import Path

    from partita.conductor.hybrid_comparison import adopt_better_hybrid, compare_hybrid, judge_hybrid
    from partita.conductor.hybrid_pipeline import solve_hybrid
    from partita.problems.hybrid.files.native import hybrid_result_document, read_hybrid_plan
    from partita.problems.hybrid.report.comparison import hybrid_comparison_table, recipe_documents, step_document
    from partita.problems.hybrid.step_time import step_time
    from partita.run.result import StopReason

    # Plans are read first: a mistake there should not cost the time of the search.
    expert_rows = [
        judge_hybrid(problem, f"expert {Path(path).stem}", f"the plan in {path}", read_hybrid_plan(path))
        for path in experts
    ]
    with progress_line(problem.unit, "planning") as progress:
        result = solve_hybrid(
            problem, time_limit_s=time_limit, seed=seed, solver=solver, threads=threads, progress=progress
        )
    rows = [] if result.stop_reason is StopReason.INTERRUPTED else compare_hybrid(problem, seed=seed, threads=threads)
    rows += expert_rows
    result = adopt_better_hybrid(result, rows)
    step = None
    if result.plan is not None and result.evaluation is not None:
        step = step_time(problem, result.plan, result.evaluation)
    document = hybrid_result_document(result, step=step_document(step), baselines=recipe_documents(result, rows))
    write_result(output, document)
    if as_json:
        emit_json(document)
    else:
        console().print(hybrid_comparison_table(result, step, rows))
        for line in hybrid_summary(result):
            print(line, file=sys.stdout if sys.stdout.isatty() else sys.stderr)
    return exit_code(result)


def hybrid_summary(result: HybridResult) -> list[str]:
    """Objective, bound, gap and status in words."""
    from partita.units import format_time

    unit = result.problem.unit
    if result.objective is None:
        reason = f": {result.reason}" if result.reason else ""
        return [f"{result.status} ({result.stop_reason}, {result.runtime_s:.2f} s){reason}"]
    bound = "none" if result.bound is None else format_time(result.bound.value, unit)
    gap = "unknown" if result.gap is None else f"{result.gap:.4%}"
    return [
        f"objective {format_time(result.objective, unit)} per sample, proven bound {bound}, gap {gap}",
        f"{result.status}, stopped: {result.stop_reason}, {result.runtime_s:.2f} s, solver {result.solver}",
    ]


def evaluate_hybrid(problem: HybridProblem, plan_file: str, *, as_json: bool) -> int:
    """Evaluate the plan of a result file."""
    from partita.problems.hybrid.evaluate import evaluate
    from partita.problems.hybrid.files.native import hybrid_plan_document, read_hybrid_plan
    from partita.units import format_time

    plan = read_hybrid_plan(plan_file)
    evaluation = evaluate(problem, plan)
    if as_json:
        emit_json(
            {
                "objective": evaluation.objective,
                "bound": None,
                "gap": None,
                "status": "feasible" if evaluation.feasible else "infeasible",
                "stop_reason": "finished",
                "unit": problem.unit,
                "feasible": evaluation.feasible,
                "violations": list(evaluation.violations),
                "reason": evaluation.violations[0] if evaluation.violations else None,
                "plan": hybrid_plan_document(plan, evaluation),
            }
        )
        return 0
    _show(problem, plan, evaluation)
    stream = sys.stdout if sys.stdout.isatty() else sys.stderr
    print(f"objective {format_time(evaluation.objective, problem.unit)} per sample", file=stream)
    print("feasible" if evaluation.feasible else "not feasible: " + "; ".join(evaluation.violations), file=stream)
    return 0


def _show(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> None:
    from partita.problems.hybrid.report.plan_table import hybrid_table, link_table

    screen = console()
    screen.print(hybrid_table(problem, plan, evaluation))
    links = link_table(problem, plan, evaluation)
    if links is not None:
        screen.print(links)
