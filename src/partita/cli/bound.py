"""partita bound: a proven lower bound."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import emit_json, file_options, positive, read_file, weight_sync_option
from partita.cli.variants import schedule_option, variant_options

if TYPE_CHECKING:
    from partita.run.result import Bound

__all__ = ["bound"]


@click.command()
@click.argument("file", type=click.Path())
@file_options
@variant_options
@schedule_option
@weight_sync_option
@click.option("--method", metavar="NAME", help="See `partita bounds`; all that fit if not given.")
@click.option("--time-limit", type=positive, default=60.0, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def bound(file: str, method: str | None, time_limit: float, as_json: bool, **reading: Any) -> int:
    """Prove a lower bound on the best objective of the problem in FILE."""
    from partita.conductor.pipeline import bound as run
    from partita.conductor.pipeline import proof
    from partita.problems.hybrid.problem import HybridProblem
    from partita.units import format_time

    problem = read_file(file, **reading)
    if method is None and not isinstance(problem, HybridProblem):
        proven = proof(problem, time_limit_s=time_limit)
        found, parts = proven.best, proven.methods
    else:
        found = run(problem, method, time_limit_s=time_limit)
        parts = (found,)
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
                "runtime_s": found.runtime_s,
                "methods": [
                    {"method": b.method, "bound": b.value, "valid_for": b.scope, "runtime_s": b.runtime_s}
                    for b in parts
                ],
                "problem": {"name": problem.name},
            }
        )
        return 0
    if len(parts) > 1:
        _show(parts, problem.unit)
    stream = sys.stdout if sys.stdout.isatty() else sys.stderr
    value = format_time(found.value, problem.unit)
    print(f"no {found.scope} split is better than {value} ({found.method}, {found.runtime_s:.2f} s)", file=stream)
    return 0


def _show(parts: Sequence[Bound], unit: str) -> None:
    """A table of what was proven by the end of each method."""
    from rich.table import Table

    from partita.cli.common import console
    from partita.units import format_time

    table = Table(box=None)
    for title in ("method", "proven", "holds for", "time"):
        table.add_column(title, justify="right" if title in ("proven", "time") else "left")
    best = 0.0
    for part in parts:
        value = format_time(part.value, unit) if part.value > best else "no more"
        table.add_row(part.method, value, f"{part.scope} splits", f"{part.runtime_s:.2f} s")
        best = max(best, part.value)
    console().print(table)
