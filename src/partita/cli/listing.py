"""What there is: solvers, bounds, baselines, devices, links, one line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from partita.cli.common import emit_json

__all__ = ["baselines", "bounds", "devices", "links", "solvers"]

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


def _print(rows: Iterable[tuple[str, str]]) -> None:
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    for name, text in listed:
        sys.stdout.write(f"{name:<{width}}  {text}\n")


def _components(key: str, components: Iterable[Any], as_json: bool) -> int:
    rows = [(component.name, component.summary) for component in components]
    if as_json:
        emit_json({key: [{"name": name, "summary": summary} for name, summary in rows]})
    else:
        _print(rows)
    return 0


@click.command()
@_json_option
def solvers(as_json: bool) -> int:
    """List the solvers."""
    from partita.problems.throughput.components import SOLVERS

    return _components("solvers", SOLVERS, as_json)


@click.command()
@_json_option
def bounds(as_json: bool) -> int:
    """List the bounds."""
    from partita.problems.throughput.components import BOUNDS

    return _components("bounds", BOUNDS, as_json)


@click.command()
@_json_option
def baselines(as_json: bool) -> int:
    """List the baselines: what people do by hand. Those for hybrid plans come last."""
    from partita.problems.hybrid.baselines import DEFAULT_BASELINES as RECIPES
    from partita.problems.throughput.baselines import DEFAULT_BASELINES

    families: dict[str, Iterable[Any]] = {"throughput": DEFAULT_BASELINES, "hybrid": RECIPES}
    if as_json:
        rows = [
            {"name": found.name, "summary": found.summary, "objective": objective}
            for objective, components in families.items()
            for found in components
        ]
        emit_json({"baselines": rows})
        return 0
    _print(
        [
            *((c.name, c.summary) for c in DEFAULT_BASELINES),
            *((c.name, f"hybrid: {c.summary}") for c in RECIPES),
        ]
    )
    return 0


@click.command()
@_json_option
def devices(as_json: bool) -> int:
    """List the device catalogue."""
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


@click.command()
@_json_option
def links(as_json: bool) -> int:
    """List the link catalogue."""
    from partita.catalogue.loader import load_catalogue
    from partita.units import format_count

    found = load_catalogue().links
    if as_json:
        emit_json({"links": list(found.values())})
        return 0
    _print(
        (spec.name, f"{format_count(spec.bandwidth_bytes_per_s)}B/s each way, {spec.latency_s:.1e} s; {spec.source}")
        for spec in found.values()
    )
    return 0
