"""What there is: problems, solvers, bounds, baselines, devices, links, one line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pkgutil import resolve_name
from typing import Any

import click

from partita.cli.common import aligned, emit_json
from partita.cli.flags import json_option
from partita.ground.units import format_bytes, format_count
from partita.problems import kinds

#: Lines for people, cell by cell, and the same as plain values.
Listed = tuple[Sequence[tuple[str, ...]], Sequence[Any]]


def _listing(name: str, text: str, listed: Callable[[], Listed]) -> Callable[[], click.Command]:
    def build() -> click.Command:
        @click.command(name, help=text)
        @json_option
        def command(as_json: bool) -> int:
            lines, values = listed()
            if as_json:
                emit_json({name: values})
                return 0
            sys.stdout.writelines(f"{line}\n" for line in aligned(lines))
            return 0

        return command

    return build


def _named(rows: Iterable[Any], *keys: str) -> Listed:
    lines = [tuple(getattr(row, key) for key in keys) for row in rows]
    return lines, [dict(zip(keys, line, strict=True)) for line in lines]


def _components(name: str, text: str) -> Callable[[], click.Command]:
    """What makes the command that lists a kind of component of every problem."""

    def listed() -> Listed:
        lines = [(found.name, kind.name, found.summary) for kind in kinds() for found in getattr(kind, name)]
        return lines, [dict(zip(("name", "problem", "summary"), line, strict=True)) for line in lines]

    return _listing(name, text, listed)


def _catalogued(of: str, words: Callable[[Any], str]) -> Listed:
    """What the catalogue has, each in words and with its source."""
    from partita.nouns.catalogue.loader import load_catalogue

    found = list(getattr(load_catalogue(), of).values())
    return [(spec.name, f"{words(spec)}; {spec.source}") for spec in found], found


def _device(spec: Any) -> str:
    peaks = ", ".join(f"{dtype} {format_count(value)}FLOP/s" for dtype, value in spec.peak_flops.items())
    speed = format_count(spec.memory_bandwidth_bytes_per_s)
    return f"{format_bytes(spec.memory_bytes)}, {speed}B/s, {peaks}, link {spec.link}"


def _link(spec: Any) -> str:
    return f"{format_count(spec.bandwidth_bytes_per_s)}B/s each way, {spec.latency_s:.1e} s"


problems = _listing("problems", "List the problems.", lambda: _named(kinds(), "name", "summary"))
solvers = _components("solvers", "List the solvers of every problem.")
bounds = _components("bounds", "List the bounds of every problem, cheapest first.")
baselines = _components("baselines", "List the baselines of every problem: what people do by hand.")
schedules = _listing(
    "schedules",
    "List the schedules of pipelines.",
    lambda: _named(resolve_name("partita.simulator.schedules:DEFAULT_SCHEDULES"), "name", "summary"),
)
exporters = _listing(
    "exporters",
    "List the runtimes that plans are exported to.",
    lambda: _named(resolve_name("partita.exporters:EXPORTERS"), "name", "summary"),
)
devices = _listing("devices", "List the device catalogue.", lambda: _catalogued("devices", _device))
links = _listing("links", "List the link catalogue.", lambda: _catalogued("links", _link))
