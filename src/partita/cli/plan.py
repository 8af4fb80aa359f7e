"""partita plan: a model in, a proven plan out."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import Output, SearchArguments, exit_code, output_options, progress_line, run_options, warn
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
from partita.engines.search.result import Event
from partita.ground.errors import InputError
from partita.problems import kind_of

#: Of a time limit, the share of planning; the rest is for placing.
PLANNING = 0.95


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
    from partita.cli.placement import place_answer, placement_tables, search_document, search_tables
    from partita.conductor.documents import answer_document, runtime_sentences
    from partita.conductor.place import placement_document, stage_labels
    from partita.conductor.plan import plan_priced
    from partita.conductor.search_model import search_model
    from partita.conductor.solve import options_of
    from partita.documents.stated import write_graph, write_problem
    from partita.documents.tables.text import paragraphs
    from partita.documents.tables.topology_plot import save_topology
    from partita.engines.processes.pool import Pool
    from partita.engines.search.monitor import Monitor
    from partita.report.results import comparison_table, summary_lines

    output = Output.take(parameters, problem_output, graph_output, gantt, placement_plot)
    if gantt is not None:
        from partita.simulator.gantt_plot import check_picture

        check_picture(gantt)
    search, asked = SearchArguments.take(parameters), take_workers(parameters)
    found = read_model(model, parameters, search.solver)
    if graph_output is not None:
        write_graph(graph_output, found.graph)
    options = options_of(found.kind, search.seed, search.threads, found.options)
    report = found.kind.report
    if search_replicas and found.pricing.get("runtime") is not None:
        raise InputError("--search-replicas does not know what runtimes run; leave it out, or --runtime")
    workers = Pool(*asked) if search_replicas else None
    if workers is None and asked != (1, "processes", None):
        raise InputError("--jobs, --backend and --address are for --search-replicas; add it, or leave them out")
    searched = None
    with progress_line("s", report.doing) as progress:
        if workers is not None:
            answer, searched = search_model(
                found.kind,
                found.graph,
                found.cluster,
                found.topology(),
                found.price(),
                options,
                time_limit_s=search.time_limit,
                pool=workers,
                progress=lambda text: progress(Event(0.0, None, None, text)),
            )
        else:
            candidates = found.price()
            # Of what planning leaves, the rest is for placing.
            clock = Monitor(search.time_limit)
            answer = plan_priced(candidates, options, clock.share(PLANNING), search.solver, progress=progress)
    report = kind_of(answer.problem).report
    if problem_output is not None:
        write_problem(problem_output, answer.problem)
    if searched is not None:
        placed = searched.best.placed
    else:
        placed = place_answer(answer, found.topology, search, clock)
    document, result = answer_document(answer, found.notes), answer.result
    document["placement"] = None if placed is None else placement_document(placed)
    if searched is not None:
        document["search"] = search_document(searched)
    if gantt is not None and result.plan is not None:
        from partita.conductor.simulate import simulate_plan
        from partita.simulator.gantt_plot import write_gantt

        write_gantt(gantt, simulate_plan(result.problem, result.plan, result.evaluation).simulation.timeline)
    output.document(document, result.problem)
    output.show(report.answer_tables(answer))
    if searched is not None:
        output.show(search_tables(searched))
    if placed is not None:
        output.show(placement_tables(placed))
        if placement_plot is not None:
            save_topology(placement_plot, placed.topology, stage_labels(placed))
    elif placement_plot is not None:
        warn(f"{placement_plot} was not drawn: nothing was placed")
    output.show([paragraphs("Runtime", runtime_sentences(answer))])
    output.show([comparison_table(report, result, answer.baselines), paragraphs("Notes", document["notes"])])
    output.show(summary_lines(report, result), always=result.plan is None)
    return exit_code(result)
