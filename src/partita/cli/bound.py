"""partita bound: a proven lower bound."""

from __future__ import annotations

import sys
from typing import Any

import click

from partita.cli.common import emit_json, file_options, positive, read_file, weight_sync_option
from partita.cli.variants import schedule_option, variant_options

__all__ = ["bound"]


@click.command()
@click.argument("file", type=click.Path())
@file_options
@variant_options
@schedule_option
@weight_sync_option
@click.option("--method", metavar="NAME", help="See `partita bounds`; the default solver's if not given.")
@click.option("--time-limit", type=positive, default=60.0, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def bound(file: str, method: str | None, time_limit: float, as_json: bool, **reading: Any) -> int:
    """Prove a lower bound on the best objective of the problem in FILE."""
    from partita.pipeline import bound as run
    from partita.units import format_time

    problem = read_file(file, **reading)
    found = run(problem, method, time_limit_s=time_limit)
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
                "valid_for": found.valid_for,
                "runtime_s": found.runtime_s,
                "problem": {"name": problem.name},
            }
        )
        return 0
    stream = sys.stdout if sys.stdout.isatty() else sys.stderr
    value = format_time(found.value, problem.unit)
    print(f"no {found.valid_for} split is better than {value} ({found.method}, {found.runtime_s:.2f} s)", file=stream)
    return 0
