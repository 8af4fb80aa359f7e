"""partita plan: a model in, a proven plan out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from partita.cli.common import Output, exit_code, output_options, progress_line, run_options, take_search, warn
from partita.cli.flags import path_option, subcommand
from partita.cli.options import (
    machine_options,
    model_options,
    replicas_option,
    settings_of_models,
    take_workers,
    worker_options,
)
from partita.cli.source import read_model


@subcommand(
    click.argument("model"),
    machine_options,
    model_options,
    settings_of_models,
    run_options,
    output_options,
    replicas_option,
    worker_options,
    path_option("--placement-plot", metavar="OUT.png|svg", help="Draw the devices with the stages that run there."),
    path_option("--problem-output", metavar="P.json", help="Write the priced problem."),
    path_option("--graph-output", metavar="G.json", help="Write the traced graph."),
    path_option("--gantt", metavar="OUT.png|svg|html", help="Draw the time line of one batch of the plan."),
)
def plan(
    model: str,
    search_replicas: bool,
    placement_plot: str | None,
    problem_output: str | None,
    graph_output: str | None,
    gantt: str | None,
    **parameters: Any,
) -> int:
    """Split MODEL over CLUSTER.

    MODEL is path/to/file.py:callable, hf:TYPE_OR_FILE (a transformers model type or configuration file; no weights,
    no network), path/to/model.onnx, or a graph file. Training on devices of one kind is planned with data, tensor
    and pipeline parallelism at once unless another objective is asked for. On devices that are not all alike to
    each other, the plan is placed: which device runs what.
    """
    from partita.api.planning import plan_source, replica_workers
    from partita.documents.stated import write_graph, write_problem
    from partita.documents.tables.topology_plot import save_topology

    output = Output.take(parameters, problem_output, graph_output, gantt, placement_plot)
    if gantt is not None:
        from partita.simulator.gantt_plot import check_picture

        check_picture(gantt)
    search, (jobs, backend, address) = take_search(parameters), take_workers(parameters)
    source = read_model(model, parameters, search.solver)
    if graph_output is not None:
        write_graph(graph_output, source.graph)
    workers = replica_workers(source, jobs, backend, address, search_replicas=search_replicas)
    with progress_line(source.kind.report.doing) as progress:
        answer = plan_source(source, replace(search, progress=progress), workers=workers)
    if problem_output is not None:
        write_problem(problem_output, answer.problem)
    if answer.not_placed:
        warn(f"note: {answer.not_placed}")
    if gantt is not None and answer.plan is not None:
        answer.simulate().save(gantt)
    output.answer(answer)
    output.show(answer.tables())
    if answer.placed is not None and placement_plot is not None:
        from partita.conductor.place import stage_labels

        save_topology(placement_plot, answer.placed.topology, stage_labels(answer.placed))
    elif placement_plot is not None:
        warn(f"{placement_plot} was not drawn: nothing was placed")
    output.show(answer.verdict(), always=answer.plan is None)
    return exit_code(answer.result)
