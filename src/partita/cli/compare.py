"""partita compare: every baseline that applies, beside the plan."""

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
from partita.cli.model import (
    is_model,
    model_options,
    pricing_arguments,
    read_cluster,
    read_model,
    take_pricing,
)
from partita.cli.plan_hybrid import (
    HYBRID_OPTIONS,
    check_objective_options,
    choose_objective,
    compare_hybrid_model,
    hybrid_options,
    hybrid_pricing,
)
from partita.cli.variants import VARIANT_OPTIONS, apply_variants, variant_options
from partita.errors import InputError
from partita.run.result import StopReason

if TYPE_CHECKING:
    from partita.problems.throughput.plan import Contiguity

__all__ = ["compare"]


@click.command()
@click.argument("what", metavar="FILE|MODEL")
@click.option("--cluster", metavar="CLUSTER", help="For a model: short form such as 8xA100-80GB, or a file.")
@click.option(
    "--expert",
    "experts",
    multiple=True,
    type=click.Path(),
    metavar="SPLIT.json",
    help="A split to compare; may repeat.",
)
@click.option(
    "--objective",
    type=click.Choice(["throughput", "hybrid"]),
    help="For a model; default: hybrid for training on devices of one kind, otherwise throughput.",
)
@model_options
@hybrid_options
@file_options
@variant_options
@weight_sync_option
@run_options
def compare(
    what: str,
    cluster: str | None,
    objective: str | None,
    experts: tuple[str, ...],
    contiguity: Contiguity,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Put every baseline beside the plan for a problem file or a model.

    Training on devices of one kind, and files of hybrid problems, are planned with data, tensor and pipeline
    parallelism at once, and compared with the usual recipes for that.

    Splits given with --expert (result files, or split files of the published format) are rows, too. If the search was
    cut short and a feasible row is better than its plan, that row's plan becomes the plan.
    """
    from pathlib import Path

    from partita.cli.hybrid import compare_hybrid_file
    from partita.conductor.comparison import adopt_better, judge_plan
    from partita.conductor.comparison import compare as run_baselines
    from partita.conductor.pipeline import solve as run
    from partita.problems.hybrid.problem import HybridProblem
    from partita.problems.importers import read_any_plan
    from partita.problems.throughput.files.native import result_document
    from partita.problems.throughput.report.model_plan import comparison_documents
    from partita.problems.throughput.report.tables import comparison_table

    check_writable(output)
    pricing = take_pricing(options)
    reading = {
        name: options.pop(name)
        for name in ("file_format", "problem_kind", "devices", "cpus", "memory", "scale_communication")
    }
    microbatches = options.pop("microbatches")
    variants = {name: options.pop(name) for name in VARIANT_OPTIONS if name != "schedule"}
    per_batch = options.pop("weight_sync_per_batch")
    hybrid = {name: options.pop(name) for name in HYBRID_OPTIONS}
    if is_model(what):
        from partita.problems.throughput.from_model import price

        if cluster is None:
            raise InputError(f"{what} is a model; say what to split it over with --cluster, for example 4xA100-80GB")
        machines = read_cluster(cluster)
        chosen, notes = choose_objective(objective, machines, options["training"], solver)
        graph = read_model(what, **options)
        if chosen is None:
            chosen, notes = choose_objective(objective, machines, graph.training, solver, known=True)
        for note in notes:
            print(f"partita: note: {note}", file=sys.stderr)
        if chosen == "hybrid":
            return compare_hybrid_model(
                graph,
                machines,
                experts,
                microbatches=() if microbatches is None else (microbatches,),
                minimise=hybrid["minimise"],
                solver=solver,
                time_limit=time_limit,
                seed=seed,
                threads=threads,
                output=output,
                as_json=as_json,
                pricing=hybrid_pricing(pricing, hybrid),
            )
        problem = price(graph, machines, **pricing_arguments(pricing, graph, machines, microbatches))
        problem = apply_variants(problem, weight_sync_per_batch=per_batch, **variants)
    else:
        if objective is not None:
            raise InputError(f"{what} is a file, which states its own objective; leave --objective out")
        # Models have a default schedule; a file keeps its own.
        source = click.get_current_context().get_parameter_source("schedule")
        variants["schedule"] = pricing["schedule"] if source is click.core.ParameterSource.COMMANDLINE else None
        problem = read_file(what, microbatches=microbatches, weight_sync_per_batch=per_batch, **reading, **variants)
        check_objective_options("hybrid" if isinstance(problem, HybridProblem) else "throughput", solver, planned=False)
        if isinstance(problem, HybridProblem):
            return compare_hybrid_file(
                problem,
                experts,
                solver=solver,
                time_limit=time_limit,
                seed=seed,
                threads=threads,
                output=output,
                as_json=as_json,
            )
    # Splits are read first: a mistake there should not cost the time of the search.
    splits = [(f"expert {Path(path).stem}", path, read_any_plan(path, problem)) for path in experts]
    expert_rows = [judge_plan(problem, name, f"the split in {path}", split, 0.0) for name, path, split in splits]
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
    stopped = result.stop_reason is StopReason.INTERRUPTED
    rows = [] if stopped else run_baselines(problem, contiguity=contiguity, seed=seed)
    rows += expert_rows
    result = adopt_better(result, rows, contiguity)
    document = result_document(result, baselines=comparison_documents(rows))
    write_result(output, document)
    if as_json:
        emit_json(document)
    else:
        console().print(comparison_table(problem, result, rows))
        for line in summary_lines(result):
            print(line, file=sys.stdout if sys.stdout.isatty() else sys.stderr)
    return exit_code(result)
