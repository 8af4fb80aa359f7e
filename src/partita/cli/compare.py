"""partita compare: every baseline that applies, beside the plan."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
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
from partita.cli.source import (
    all_settings,
    cluster_options,
    file_options,
    is_model,
    model_options,
    read_file,
    read_model,
    refuse_model_options,
    take_reading,
)
from partita.run.result import StopReason

__all__ = ["command"]


def command() -> click.Command:
    """The command, with a flag for every setting that some problem has."""

    @click.command("compare", cls=GroupedCommand)
    @click.argument("what", metavar="FILE|MODEL")
    @cluster_options
    @grouped(
        "search",
        (
            ("--expert", "experts"),
            {"multiple": True, "type": click.Path(), "metavar": "PLAN", "help": "A plan to compare; may repeat."},
        ),
    )
    @model_options
    @file_options
    @all_settings
    @run_options
    @output_options
    def compare(
        what: str,
        cluster: str | None,
        objective: str | None,
        experts: tuple[str, ...],
        solver: str | None,
        time_limit: float,
        seed: int,
        threads: int,
        output: str | None,
        as_json: bool,
        **parameters: Any,
    ) -> int:
        """Put every baseline beside the plan for a problem file or a model.

        Plans given with --expert (result files, or other files that plans are written in) are rows, too. If the search
        was cut short and a feasible row is better than its plan, that row's plan becomes the plan.
        """
        from partita.conductor.compare import run_baselines
        from partita.conductor.documents import answer_document, result_document
        from partita.conductor.judge import adopt_better, judge_plan
        from partita.conductor.plan import plan_priced
        from partita.conductor.solve import options_of, run_solver
        from partita.run.monitor import Monitor
        from partita.tables.comparison import comparison_table
        from partita.tables.summary import summary_lines

        check_writable(output)
        given, reading = take_flags(parameters), take_reading(parameters)
        notes: tuple[str, ...] = ()
        answer, candidates = None, []
        if is_model(what):
            found = read_model(what, cluster, objective, given, parameters, solver=solver)
            notes, candidates = found.notes, found.price()
            kind, options, problem = found.kind, found.options, candidates[0].problem
        else:
            refuse_model_options(what)
            stated = read_file(what, *reading, given)
            kind, options, problem = stated.kind, stated.options, stated.problem
        for note in notes:
            warn(f"note: {note}")
        report, asked = kind.report, options_of(kind, seed, threads, options)
        # Plans are read first: a mistake there should not cost the time of the search.
        plans = [(path, kind.files.read_plan(path, problem)) for path in experts]
        rows = [judge_plan(problem, f"expert {Path(path).stem}", f"the plan in {path}", plan) for path, plan in plans]
        with progress_line(problem.unit, report.doing) as progress:
            if candidates:
                answer = plan_priced(kind, candidates, asked, solver, time_limit_s=time_limit, progress=progress)
                result, baselines = answer.result, list(answer.baselines)
            else:
                result, baselines = run_solver(problem, solver, asked, Monitor(time_limit, progress)), []
                if result.stop_reason is not StopReason.INTERRUPTED:
                    baselines = run_baselines(problem, asked)
        rows = [*baselines, *rows]
        result = adopt_better(result, rows, asked)
        if answer is None:
            document = result_document(result, rows)
        else:
            document = answer_document(dataclasses.replace(answer, result=result, baselines=tuple(rows)), notes)
        write_document(output, document)
        if as_json and output != STDOUT:
            emit_json(document)
        if not as_json:
            stream = sys.stderr if output == STDOUT else None
            show([comparison_table(report, result, rows), *summary_lines(report, result)], stream=stream)
        return exit_code(result)

    return compare
