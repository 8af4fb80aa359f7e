"""What there is: problems, solvers, bounds, baselines, devices, links, one line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from partita.cli.common import emit_json, json_option
from partita.problems import kinds


def _print(rows: Iterable[tuple[str, ...]]) -> None:
    listed = list(rows)
    widths = [max(len(row[i]) for row in listed) for i in range(len(listed[0]) - 1)] if listed else []
    for row in listed:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join([*cells, row[-1]]) + "\n")


def _components(name: str, text: str, of: Callable[[Any], Iterable[Any]]) -> Callable[[], click.Command]:
    """The command that lists a kind of component of every problem."""

    def build() -> click.Command:
        @click.command(name, help=text)
        @json_option
        def listing(as_json: bool) -> int:
            rows = [(found.name, kind.name, found.summary) for kind in kinds() for found in of(kind)]
            if as_json:
                keys = ("name", "problem", "summary")
                emit_json({name: [dict(zip(keys, row, strict=True)) for row in rows]})
            else:
                _print(rows)
            return 0

        return listing

    return build


solvers = _components("solvers", "List the solvers of every problem, the default first.", lambda kind: kind.solvers)
bounds = _components("bounds", "List the bounds of every problem, cheapest first.", lambda kind: kind.bounds)
baselines = _components(
    "baselines", "List the baselines of every problem: what people do by hand.", lambda kind: kind.baselines
)


def problems() -> click.Command:
    """The command that lists the problems."""

    @click.command("problems", help="List the problems.")
    @json_option
    def listing(as_json: bool) -> int:
        rows = [(kind.name, kind.summary) for kind in kinds()]
        if as_json:
            emit_json({"problems": [{"name": name, "summary": summary} for name, summary in rows]})
        else:
            _print(rows)
        return 0

    return listing


def devices() -> click.Command:
    """The command that lists the device catalogue."""

    @click.command("devices", help="List the device catalogue.")
    @json_option
    def listing(as_json: bool) -> int:
        from partita.catalogue.loader import load_catalogue
        from partita.units import format_bytes, format_count

        found = load_catalogue().devices
        if as_json:
            emit_json({"devices": list(found.values())})
            return 0
        _print(
            (
                spec.name,
                f"{format_bytes(spec.memory_bytes)}, {format_count(spec.memory_bandwidth_bytes_per_s)}B/s, "
                + ", ".join(f"{dtype} {format_count(value)}FLOP/s" for dtype, value in spec.peak_flops.items())
                + f", link {spec.link}; {spec.source}",
            )
            for spec in found.values()
        )
        return 0

    return listing


def links() -> click.Command:
    """The command that lists the link catalogue."""

    @click.command("links", help="List the link catalogue.")
    @json_option
    def listing(as_json: bool) -> int:
        from partita.catalogue.loader import load_catalogue
        from partita.units import format_count

        found = load_catalogue().links
        if as_json:
            emit_json({"links": list(found.values())})
            return 0
        _print(
            (
                spec.name,
                f"{format_count(spec.bandwidth_bytes_per_s)}B/s each way, {spec.latency_s:.1e} s; {spec.source}",
            )
            for spec in found.values()
        )
        return 0

    return listing
