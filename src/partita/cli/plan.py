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
from partita.cli.variants import VARIANT_OPTIONS, apply_variants, variant_options
from partita.errors import UnsupportedError

__all__ = ["plan"]


@click.command()
@click.argument("model")
@click.option("--cluster", required=True, metavar="CLUSTER", help="Short form such as 8xA100-80GB, or a file.")
@click.option(
    "--objective", type=click.Choice(["throughput", "latency", "hybrid"]), default="throughput", show_default=True
)
@click.option("--microbatches", type=click.IntRange(min=1), help="Per batch; default 1, for training 4 per device.")
@model_options
@variant_options
@weight_sync_option
@run_options
@click.option("--problem-output", type=click.Path(), metavar="P.json", help="Write the priced problem.")
@click.option("--graph-output", type=click.Path(), metavar="G.json", help="Write the traced graph.")
def plan(
    model: str,
    cluster: str,
    objective: str,
    microbatches: int | None,
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

    MODEL is path/to/file.py:callable, hf:TYPE_OR_FILE (a transformers model type or configuration file; no weights, no
    network), or a graph file.
    """
    if objective != "throughput":
        raise UnsupportedError(f"objective {objective!r} is not planned by this version; use throughput")
    for path in (output, problem_output, graph_output):
        check_writable(path)
    # The cluster is read first: a mistake there should not cost the time of tracing.
    machines = read_cluster(cluster)
    pricing = take_pricing(options)
    variants = {name: options.pop(name) for name in VARIANT_OPTIONS if name != "schedule"}
    variants["weight_sync_per_batch"] = options.pop("weight_sync_per_batch")
    graph = read_model(model, **options)

    from partita.formats.native import write_graph, write_problem
    from partita.pipeline import plan as run
    from partita.reports.model_plan import model_plan_document, model_plan_tables

    if graph_output is not None:
        write_graph(graph_output, graph)
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
            **pricing_arguments(pricing, graph, machines, microbatches),
        )
    if problem_output is not None:
        write_problem(problem_output, answer.problem)
    document = model_plan_document(answer)
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
