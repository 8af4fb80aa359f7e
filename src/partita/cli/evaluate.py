"""partita evaluate: what a given plan is worth."""

from __future__ import annotations

import sys
from typing import Any

import click

from partita.cli.common import console, emit_json, file_options, pipeline_line, read_file, weight_sync_option
from partita.cli.variants import schedule_option, variant_options

__all__ = ["evaluate"]


@click.command()
@click.argument("file", type=click.Path())
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@file_options
@variant_options
@schedule_option
@weight_sync_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def evaluate(file: str, plan_file: str, as_json: bool, **reading: Any) -> int:
    """Evaluate PLAN (a result file, or a split file) on the problem in FILE."""
    from partita.cli.hybrid import evaluate_hybrid
    from partita.problems.hybrid.problem import HybridProblem
    from partita.problems.importers import read_any_plan
    from partita.problems.throughput.evaluate import evaluate as run
    from partita.problems.throughput.files.native import plan_document
    from partita.problems.throughput.report.modules import stage_modules
    from partita.problems.throughput.report.tables import memory_table, stage_table
    from partita.units import format_time

    problem = read_file(file, **reading)
    if isinstance(problem, HybridProblem):
        return evaluate_hybrid(problem, plan_file, as_json=as_json)
    plan = read_any_plan(plan_file, problem)
    evaluation = run(problem, plan)
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
                "acyclic": evaluation.acyclic,
                "violations": list(evaluation.violations),
                "reason": evaluation.violations[0] if evaluation.violations else None,
                "plan": plan_document(problem, plan, evaluation),
            }
        )
        return 0
    screen = console()
    counts = [len(stage.operators) for stage in plan.stages]
    screen.print(stage_table(problem, evaluation, counts, stage_modules(problem, plan)))
    if any(stage.memory.total for stage in evaluation.stages):
        screen.print(memory_table(evaluation))
    stream = sys.stdout if sys.stdout.isatty() else sys.stderr
    contiguous = "contiguous" if evaluation.acyclic else "not contiguous"
    verdict = "feasible" if evaluation.feasible else "not feasible: " + "; ".join(evaluation.violations)
    print(f"objective {format_time(evaluation.objective, problem.unit)} per sample, {contiguous}", file=stream)
    print(pipeline_line(problem, plan, evaluation), file=stream)
    print(verdict, file=stream)
    return 0
