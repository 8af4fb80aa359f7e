"""Profiles and calibrations as tables, sentences and documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import msgspec

from partita.costs.calibration import Calibration, device_toml
from partita.costs.profile import Profile
from partita.costs.units import cut_units
from partita.documents.tables.text import new_table
from partita.ground.units import format_bytes, format_count, format_time
from partita.nouns.graph import Graph

#: Rows of the table of operators.
MOST_ROWS = 20


def operator_table(profile: Profile) -> Any:
    """The distinct operators that take most of the time."""
    counts = Counter(place for place in profile.operators if place is not None)
    order = sorted(counts, key=lambda place: -counts[place] * profile.measurements[place].time_s)
    table = new_table(
        f"Operators of {profile.model}",
        ("all together", "each", "spread", "best", "times", "peak memory"),
        "operator",
    )
    for place in order[:MOST_ROWS]:
        found = profile.measurements[place]
        shapes = " ".join("×".join(map(str, shape)) or "1" for _, shape in found.signature.inputs)
        table.add_row(
            format_time(counts[place] * found.time_s, "s"),
            format_time(found.time_s, "s"),
            format_time(found.spread_s, "s"),
            format_time(found.best_s, "s"),
            str(counts[place]),
            "" if found.peak_memory_bytes is None else format_bytes(found.peak_memory_bytes),
            f"{found.signature.target.removeprefix('aten.')} {shapes}",
        )
    rest = order[MOST_ROWS:]
    if rest:
        left = sum(counts[place] * profile.measurements[place].time_s for place in rest)
        table.add_row(format_time(left, "s"), "", "", "", str(sum(counts[p] for p in rest)), "", f"{len(rest)} others")
    return table


def block_table(graph: Graph, profile: Profile) -> Any:
    """The repeated blocks of a model with what comes before and behind them, in order."""
    units = cut_units(graph, "layer")
    rows: dict[int, list[float]] = {}
    for v, (op, place) in enumerate(zip(graph.operators, profile.operators, strict=True)):
        if op.free or place is None:
            continue
        backward = op.phase == "backward"
        unit = units[op.colocation if backward and op.colocation is not None else v]
        row = rows.setdefault(unit, [0.0, 0.0, 0.0])
        found = profile.measurements[place]
        row[backward] += profile.time_s(found)
        row[2] = max(row[2], found.peak_memory_bytes or 0)
    table = new_table(f"Blocks of {profile.model}", ("forward", "backward", "peak of an operator"), "block")
    names = _block_names(graph, units)
    for unit in sorted(rows):
        forward, backward_s, peak = rows[unit]
        table.add_row(format_time(forward, "s"), format_time(backward_s, "s"), format_bytes(peak), names[unit])
    return table


def _block_names(graph: Graph, units: list[int]) -> dict[int, str]:
    """For every unit the longest path that its operators' modules have in common."""
    paths: dict[int, list[str]] = {}
    for op, unit in zip(graph.operators, units, strict=True):
        if op.phase == "backward":
            continue
        parts = op.module.split(".") if op.module else []
        known = paths.setdefault(unit, parts)
        same = next((i for i, (a, b) in enumerate(zip(known, parts, strict=False)) if a != b), None)
        paths[unit] = known[: min(len(known), len(parts)) if same is None else same]
    return {unit: ".".join(parts) or graph.operators[unit].module or "(root)" for unit, parts in paths.items()}


def calibration_table(calibration: Calibration) -> Any:
    """The roofline beside what was measured."""
    table = new_table(
        f"Roofline of {calibration.device.name} against measured",
        ("operators", "measured", "roofline", "measured / roofline", "share of the peak"),
        "class",
    )
    for row in calibration.rows:
        table.add_row(
            str(row.operators),
            format_time(row.measured_s, "s"),
            format_time(row.roofline_s, "s"),
            f"{row.measured_s / row.roofline_s:.2f}" if row.roofline_s else "",
            "" if row.efficiency is None else f"{row.efficiency:.1%}",
            row.name,
        )
    return table


def calibration_document(calibration: Calibration) -> dict[str, Any]:
    """The comparison and the fitted device as plain values."""
    return {
        "device": calibration.device.name,
        "classes": [asdict(row) for row in calibration.rows],
        "fitted": msgspec.to_builtins(calibration.fitted),
        "toml": device_toml(calibration),
    }


def profile_lines(graph: Graph, profile: Profile) -> str:
    """What was measured, in sentences."""
    count = sum(not op.free for op in graph.operators)
    measured = sum(place is not None for place in profile.operators)
    hardware, settings = profile.hardware, profile.settings
    where = hardware.gpu if profile.spec.accelerator else hardware.cpu
    phases = [f"forward {format_time(profile.forward.time_s, 's')}"]
    if profile.backward is not None:
        phases.append(f"backward {format_time(profile.backward.time_s, 's')}")
    lines = [
        f"{profile.model} on {where}: {', '.join(phases)} without instruments; {measured} of {count} operators "
        f"measured, {len(profile.measurements)} distinct",
        f"{settings.processes} processes of {settings.threads} threads, {settings.repeats} runs each after "
        f"{settings.warm_up}; device {profile.device}",
    ]
    if profile.transfers:
        link = profile.cluster["links"]["between-processes"]
        speed = link["bandwidth_bytes_per_s"] / 2
        lines.append(f"messages: {format_time(2 * link['latency_s'], 's')} and {format_count(speed)}B/s")
    return "\n".join(lines)
