"""partita plan: a model in, a proven plan out."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import Output, Search, exit_code, output_options, progress_line, run_options
from partita.cli.flags import GroupedCommand, path_option
from partita.cli.options import machine_options, model_options, settings_of_models
from partita.cli.source import read_model


def command() -> click.Command:
    """The command, with a flag for every setting of the problems that models become."""

    @click.command("plan", cls=GroupedCommand)
    @click.argument("model")
    @machine_options()
    @model_options
    @settings_of_models()
    @run_options
    @output_options
    @path_option("--problem-output", metavar="P.json", help="Write the priced problem.")
    @path_option("--graph-output", metavar="G.json", help="Write the traced graph.")
    @path_option("--gantt", metavar="OUT.png|svg|html", help="Draw the time line of one batch of the plan.")
    def plan(
        model: str,
        cluster: str | None,
        objective: str | None,
        problem_output: str | None,
        graph_output: str | None,
        gantt: str | None,
        **parameters: Any,
    ) -> int:
        """Split MODEL over CLUSTER.

        MODEL is path/to/file.py:callable, hf:TYPE_OR_FILE (a transformers model type or configuration file; no weights,
        no network), or a graph file. Training on devices of one kind is planned with data, tensor and pipeline
        parallelism at once unless another objective is asked for.
        """
        from partita.conductor.documents import answer_document
        from partita.conductor.plan import plan_priced
        from partita.conductor.solve import options_of
        from partita.documents.stated import write_graph, write_problem
        from partita.tables.results import comparison_table, summary_lines
        from partita.tables.text import paragraphs

        output = Output.take(parameters, problem_output, graph_output, gantt)
        if gantt is not None:
            from partita.simulator.gantt_plot import check_picture

            check_picture(gantt)
        search = Search.take(parameters)
        found = read_model(model, cluster, objective, parameters, solver=search.solver)
        if graph_output is not None:
            write_graph(graph_output, found.graph)
        options = options_of(found.kind, search.seed, search.threads, found.options)
        report = found.kind.report
        with progress_line("s", report.doing) as progress:
            answer = plan_priced(
                found.price(), options, search.solver, time_limit_s=search.time_limit, progress=progress
            )
        if problem_output is not None:
            write_problem(problem_output, answer.problem)
        document, result = answer_document(answer, found.notes), answer.result
        if gantt is not None and result.plan is not None:
            from partita.conductor.simulate import simulate_plan
            from partita.simulator.gantt_plot import write_gantt

            write_gantt(gantt, simulate_plan(result.problem, result.plan, result.evaluation).simulation.timeline)
        output.document(document, result.problem)
        output.show(report.answer_tables(answer))
        output.show([comparison_table(report, result, answer.baselines), paragraphs("Notes", document["notes"])])
        output.show(summary_lines(report, result), always=result.plan is None)
        return exit_code(result)

    return plan
