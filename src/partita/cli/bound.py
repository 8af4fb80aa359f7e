"""partita bound: a proven lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import emit_json, show
from partita.cli.flags import GroupedCommand, json_option, option, time_limit_option
from partita.cli.options import file_options, settings_of_files
from partita.cli.source import read_file
from partita.ground.units import format_time

if TYPE_CHECKING:
    from rich.table import Table

    from partita.engines.search.result import Bound
    from partita.problems.facets.report import Reporting


def command() -> click.Command:
    """The command, with a flag for every setting that some problem has."""

    @click.command("bound", cls=GroupedCommand)
    @click.argument("file", type=click.Path())
    @file_options()
    @settings_of_files()
    @option("search", "--method", metavar="NAME", help="See `partita bounds`; all that fit if not given.")
    @time_limit_option
    @json_option
    def bound(file: str, method: str | None, time_limit: float, as_json: bool, **parameters: Any) -> int:
        """Prove a lower bound on the best objective of the problem in FILE."""
        from partita.conductor.bound import proof

        stated = read_file(file, parameters)
        problem, report = stated.problem, stated.kind.report
        proven = proof(problem, method, time_limit_s=time_limit)
        found = proven.best
        if as_json:
            emit_json(
                {
                    "objective": None,
                    "bound": found.value,
                    "gap": None,
                    "status": "unknown",
                    "stop_reason": "finished",
                    "unit": problem.unit,
                    "method": found.method,
                    "valid_for": found.scope,
                    "argument": found.argument,
                    "certificate": found.certificate,
                    "runtime_s": found.runtime_s,
                    "methods": [
                        {"method": b.method, "bound": b.value, "valid_for": b.scope, "runtime_s": b.runtime_s}
                        for b in proven.methods
                    ],
                    "problem": {"name": problem.name},
                }
            )
            return 0
        value = format_time(found.value, problem.unit)
        line = f"no {report.scope(found.scope)} is better than {value} ({found.method}, {found.runtime_s:.2f} s)"
        show([_table(proven.methods, problem.unit, report), line] if len(proven.methods) > 1 else [line])
        return 0

    return bound


def _table(parts: Sequence[Bound], unit: str, report: Reporting[Any, Any, Any]) -> Table:
    """What was proven by the end of each method."""
    from partita.documents.tables.text import new_table

    table = new_table("Bounds")
    for title in ("method", "proven", "holds for", "time"):
        table.add_column(title, justify="right" if title in ("proven", "time") else "left")
    best = 0.0
    for part in parts:
        value = format_time(part.value, unit) if part.value > best else "no more"
        table.add_row(part.method, value, f"{report.scope(part.scope)}s", f"{part.runtime_s:.2f} s")
        best = max(best, part.value)
    return table
