"""What there is: problems, solvers, bounds, baselines, devices, links, one line each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import click

from partita.cli.common import aligned, emit_json
from partita.cli.flags import json_option


def _listing(name: str, home: str, text: str) -> Callable[[], click.Command]:
    """What makes the command that prints what a function of ``partita.components`` returns."""

    def build() -> click.Command:
        @click.command(name, help=text)
        @json_option
        def command(as_json: bool) -> int:
            found: Any = resolve_name(f"partita.components.{home}")()
            if as_json:
                emit_json(found.document())
                return 0
            sys.stdout.writelines(f"{line}\n" for line in aligned(found.rows()))
            return 0

        return command

    return build


problems = _listing("problems", "solved:problem_kinds", "List the problems.")
solvers = _listing("solvers", "solved:solvers", "List the solvers of every problem.")
bounds = _listing("bounds", "solved:bounds", "List the bounds of every problem, cheapest first.")
baselines = _listing("baselines", "solved:baselines", "List the baselines of every problem: what people do by hand.")
schedules = _listing("schedules", "scheduled:schedules", "List the schedules of pipelines.")
exporters = _listing("exporters", "exported:runtimes", "List the runtimes that plans are exported to.")
devices = _listing("devices", "catalogued:devices", "List the device catalogue.")
links = _listing("links", "catalogued:links", "List the link catalogue.")
