"""partita solve: split the problem of a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import (
    check_writable,
    console,
    emit_json,
    exit_code,
    file_options,
    progress_line,
    read_file,
    run_options,
    summary_lines,
    weight_sync_option,
    write_result,
)
from partita.cli.variants import schedule_option, variant_options
from partita.errors import InputError

if TYPE_CHECKING:
    from partita.problems.throughput.plan import Contiguity

__all__ = ["solve"]


@click.command()
@click.argument("file", type=click.Path())
@file_options
@run_options
@variant_options
@schedule_option
@weight_sync_option
@click.option("--split-output", type=click.Path(), metavar="SPLIT.json", help="Write the published split format.")
def solve(
    file: str,
    contiguity: Contiguity,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    split_output: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Split the problem in FILE over its devices."""
    from partita.cli.hybrid import solve_hybrid_file
    from partita.conductor.pipeline import solve as run
    from partita.documents.document import write_json
    from partita.problems.hybrid.problem import HybridProblem
    from partita.problems.throughput.files.dnn_partitioning import split_document
    from partita.problems.throughput.files.native import result_document
    from partita.problems.throughput.report.modules import stage_modules
    from partita.problems.throughput.report.tables import memory_table, stage_table

    check_writable(output)
    check_writable(split_output)
    problem = read_file(file, **reading)
    if isinstance(problem, HybridProblem):
        if split_output is not None:
            raise InputError(
                "--split-output writes devices, not stages with degrees; use --output for a hybrid problem"
            )
        return solve_hybrid_file(
            problem, solver=solver, time_limit=time_limit, seed=seed, threads=threads, output=output, as_json=as_json
        )
    with progress_line(problem.unit, "splitting") as progress:
        result = run(
            problem,
            time_limit_s=time_limit,
            seed=seed,
            contiguity=contiguity,
            solver=solver,
            threads=threads,
            progress=progress,
        )
    document = result_document(result)
    write_result(output, document)
    if split_output is not None and result.plan is not None and result.evaluation is not None:
        write_json(split_output, split_document(problem, result.plan, result.evaluation))
    if as_json:
        emit_json(document)
    if not as_json or result.plan is None:
        screen = console()
        if result.plan is not None and result.evaluation is not None:
            counts = [len(stage.operators) for stage in result.plan.stages]
            screen.print(stage_table(problem, result.evaluation, counts, stage_modules(problem, result.plan)))
            if any(stage.memory.total for stage in result.evaluation.stages):
                screen.print(memory_table(result.evaluation))
        for line in summary_lines(result):
            print(line, file=sys.stdout if result.plan is not None and sys.stdout.isatty() else sys.stderr)
    return exit_code(result)
