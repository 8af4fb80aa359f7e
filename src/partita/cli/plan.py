"""partita plan: a model in, a proven plan out."""

from __future__ import annotations

import sys
from typing import Any

import click

from partita.cli.common import (
    STDOUT,
    check_writable,
    emit_json,
    exit_code,
    output_options,
    progress_line,
    run_options,
    show,
    warn,
    write_document,
)
from partita.cli.flags import GroupedCommand, grouped, take_flags
from partita.cli.source import cluster_options, model_options, read_model, settings_of_models

__all__ = ["command"]


def command() -> click.Command:
    """The command, with a flag for every setting of the problems that models become."""

    @click.command("plan", cls=GroupedCommand)
    @click.argument("model")
    @cluster_options
    @model_options
    @settings_of_models
    @run_options
    @output_options
    @grouped(
        "output",
        (
            ("--problem-output",),
            {"type": click.Path(), "metavar": "P.json", "help": "Write the priced problem."},
        ),
        (("--graph-output",), {"type": click.Path(), "metavar": "G.json", "help": "Write the traced graph."}),
    )
    def plan(
        model: str,
        cluster: str | None,
        objective: str | None,
        solver: str | None,
        time_limit: float,
        seed: int,
        threads: int,
        output: str | None,
        problem_output: str | None,
        graph_output: str | None,
        as_json: bool,
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
        from partita.tables.comparison import comparison_table
        from partita.tables.summary import summary_lines
        from partita.tables.text import paragraphs

        check_writable(output, problem_output, graph_output)
        found = read_model(model, cluster, objective, take_flags(parameters), parameters, solver=solver)
        if graph_output is not None:
            write_graph(graph_output, found.graph)
        for note in found.notes:
            warn(f"note: {note}")
        options = options_of(found.kind, seed, threads, found.options)
        candidates = found.price()
        report = found.kind.report
        with progress_line("s", report.doing) as progress:
            answer = plan_priced(found.kind, candidates, options, solver, time_limit_s=time_limit, progress=progress)
        if problem_output is not None:
            write_problem(problem_output, answer.problem)
        document = answer_document(answer, found.notes)
        write_document(output, document)
        result, stream = answer.result, sys.stderr if output == STDOUT else None
        if as_json and output != STDOUT:
            emit_json(document)
        if not as_json:
            tables = [*report.answer_tables(answer), comparison_table(report, result, answer.baselines)]
            show([*tables, paragraphs("Notes", document["notes"])], stream=stream)
        if not as_json or result.plan is None:
            show(summary_lines(report, result), stream=sys.stderr if as_json else stream)
        return exit_code(result)

    return plan
