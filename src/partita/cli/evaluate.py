"""partita evaluate: what a given plan is worth."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import emit_json, show
from partita.cli.flags import GroupedCommand, json_option
from partita.cli.options import file_options, settings_of_files
from partita.cli.source import read_file


def command() -> click.Command:
    """The command, with a flag for every setting that some problem has."""

    @click.command("evaluate", cls=GroupedCommand)
    @click.argument("file", type=click.Path())
    @click.argument("plan_file", metavar="PLAN", type=click.Path())
    @file_options()
    @settings_of_files()
    @json_option
    def evaluate(file: str, plan_file: str, as_json: bool, **parameters: Any) -> int:
        """Evaluate PLAN, a result file or another file that plans are written in, on the problem in FILE."""
        from partita.conductor.documents import evaluation_document
        from partita.problems.planned import read_plan
        from partita.report.results import verdict_lines

        stated = read_file(file, parameters)
        problem, report = stated.problem, stated.kind.report
        plan = read_plan(plan_file, problem)
        evaluation = stated.kind.evaluate(problem, plan)
        if as_json:
            emit_json(evaluation_document(problem, plan, evaluation))
        else:
            tables = report.tables(problem, plan, evaluation)
            show([*tables, *verdict_lines(report, problem, plan, evaluation)])
        return 0

    return evaluate
