"""partita plan: a model in, a proven pipeline plan out."""

from __future__ import annotations

import sys
from typing import Any

import click

from partita.cli.common import (
    check_writable,
    console,
    emit_json,
    exit_code,
    progress_line,
    run_options,
    summary_lines,
    weight_sync_option,
    write_result,
)
from partita.cli.model import model_options, pricing_arguments, read_cluster, read_model, take_pricing
from partita.cli.plan_hybrid import (
    HYBRID_OPTIONS,
    Counts,
    choose_objective,
    hybrid_options,
    hybrid_pricing,
    plan_hybrid_model,
    single_count,
)
from partita.cli.variants import VARIANT_OPTIONS, apply_variants, variant_options
from partita.errors import InputError, UnsupportedError

__all__ = ["plan"]


@click.command()
@click.argument("model")
@click.option("--cluster", required=True, metavar="CLUSTER", help="Short form such as 8xA100-80GB, or a file.")
@click.option(
    "--objective",
    type=click.Choice(["throughput", "latency", "hybrid"]),
    help="Default: hybrid for training on devices of one kind, otherwise throughput.",
)
@click.option(
    "--microbatches",
    type=Counts(),
    metavar="N|N,N,…|LOW:HIGH[:STEP]",
    help="Per batch; default 1, for training 4 per device. Of several the best is chosen (hybrid).",
)
@model_options
@hybrid_options
@variant_options
@weight_sync_option
@run_options
@click.option("--problem-output", type=click.Path(), metavar="P.json", help="Write the priced problem.")
@click.option("--graph-output", type=click.Path(), metavar="G.json", help="Write the traced graph.")
def plan(
    model: str,
    cluster: str,
    objective: str | None,
    microbatches: tuple[int, ...] | None,
    contiguity: str,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    problem_output: str | None,
    graph_output: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Split MODEL over CLUSTER.

    Training on devices of one kind is planned with data, tensor and pipeline parallelism at once (objective hybrid).

    MODEL is path/to/file.py:callable, hf:TYPE_OR_FILE (a transformers model type or configuration file; no weights, no
    network), or a graph file.
    """
    if objective == "latency":
        raise UnsupportedError(f"objective {objective!r} is not planned by this version; use throughput")
    for path in (output, problem_output, graph_output):
        check_writable(path)
    # The cluster and the options are read first: a mistake there should not cost the time of tracing.
    machines = read_cluster(cluster)
    pricing = take_pricing(options)
    hybrid = {name: options.pop(name) for name in HYBRID_OPTIONS}
    variants = {name: options.pop(name) for name in VARIANT_OPTIONS if name != "schedule"}
    variants["weight_sync_per_batch"] = options.pop("weight_sync_per_batch")
    chosen, notes = choose_objective(objective, machines, options["training"], solver)
    graph = read_model(model, **options)
    if chosen is None:
        chosen, notes = choose_objective(objective, machines, graph.training, solver, known=True)
    if chosen == "hybrid" and not graph.training:
        raise InputError("objective hybrid plans training; add --training, or use --objective throughput")

    from partita.conductor.pipeline import plan as run
    from partita.problems.throughput.files.native import write_graph, write_problem
    from partita.problems.throughput.report.model_plan import model_plan_document, model_plan_tables

    if graph_output is not None:
        write_graph(graph_output, graph)
    if chosen == "hybrid":
        return plan_hybrid_model(
            graph,
            machines,
            microbatches=microbatches,
            minimise=hybrid["minimise"],
            solver=solver,
            time_limit=time_limit,
            seed=seed,
            threads=threads,
            output=output,
            problem_output=problem_output,
            as_json=as_json,
            pricing=hybrid_pricing(pricing, hybrid),
        )
    number = single_count(microbatches, chosen or "throughput")
    for note in notes:
        print(f"partita: note: {note}", file=sys.stderr)
    # Peaks count tensors by themselves, so workspaces are priced without them.
    pricing["working_memory"] = variants.pop("working_memory") or "largest"
    with progress_line("s", "splitting") as progress:
        answer = run(
            graph,
            machines,
            time_limit_s=time_limit,
            seed=seed,
            contiguity=contiguity,  # type: ignore[arg-type]
            solver=solver,
            threads=threads,
            progress=progress,
            change=lambda problem: apply_variants(problem, **variants),
            **pricing_arguments(pricing, graph, machines, number),
        )
    if problem_output is not None:
        write_problem(problem_output, answer.problem)
    document = model_plan_document(answer)
    document["notes"] = [*notes, *document["notes"]]
    write_result(output, document)
    if as_json:
        emit_json(document)
    else:
        screen = console()
        for part in model_plan_tables(answer):
            screen.print(part, soft_wrap=isinstance(part, str), highlight=False)
    if not as_json or answer.result.plan is None:
        for line in summary_lines(answer.result):
            print(line, file=sys.stdout if not as_json and sys.stdout.isatty() else sys.stderr)
    return exit_code(answer.result)
