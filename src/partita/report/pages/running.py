"""How the plan runs: the use of every device, its memory against the limit, and the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from partita.ground.units import GIB, format_bytes, format_time
from partita.report.pages.figures import LIMIT, MOVE, WAIT, WORK, chart, colour, figure, scaled
from partita.report.pages.markup import Markup, facts, joined, section, share, size, table, time
from partita.report.pages.subject import Subject
from partita.simulator.critical import critical_summary
from partita.simulator.simulate import Simulation

#: Up to so many devices have a bar with its name.
_NAMED = 40
#: Rows of tables.
_ROWS = 512
#: Parts of a critical path that are shown one by one.
_PARTS = 40


class DeviceRow(NamedTuple):
    """How one device, or several in lockstep, spend the step, in its unit; memory in bytes."""

    name: str
    busy: float
    exposed: float
    hidden: float
    idle: float
    memory: dict[str, float]
    limit: float | None


def device_rows(simulation: Simulation) -> list[DeviceRow]:
    """One for each group of devices in lockstep."""
    found = []
    memory = simulation.timeline.memory
    for number, use in enumerate(simulation.uses):
        held: dict[str, float] = {}
        limit = None
        if memory:
            curve = memory[number]
            at = int(curve.total.argmax()) if len(curve.times) else 0
            held = {name: float(levels[at]) for name, levels in curve.parts.items() if len(levels)}
            limit = curve.limit
        name = use.devices[0] if len(use.devices) == 1 else f"{use.devices[0]} … {use.devices[-1]}"
        found.append(
            DeviceRow(name, use.busy, use.communication_exposed, use.communication_hidden, use.idle, held, limit)
        )
    return found


def _bars(names: Sequence[str], parts: Sequence[tuple[str, Sequence[float], str]], axis: str, template: str) -> Any:
    """Stacked bars: lying with their names where these can be read, standing close together otherwise."""
    from plotly.graph_objects import Bar

    lying = len(names) <= _NAMED
    traces = []
    for title, values, shade in parts:
        place = (
            {"y": list(names), "x": list(values), "orientation": "h"}
            if lying
            else {"x": list(range(len(names))), "y": list(values)}
        )
        traces.append(
            Bar(
                **place,
                name=title,
                marker={"color": shade, "line": {"width": 0}},
                customdata=list(names),
                hovertemplate="%{customdata}<br>"
                + title
                + ": "
                + template.replace("@", "x" if lying else "y")
                + "<extra></extra>",
            )
        )
    values_axis = {"title": {"text": axis}, "rangemode": "tozero"}
    names_axis: dict[str, Any] = (
        {"autorange": "reversed", "type": "category"} if lying else {"title": {"text": "device"}}
    )
    return figure(
        traces,
        height=110 + 26 * len(names) if lying else 340,
        barmode="stack",
        bargap=0.25 if lying else 0,
        xaxis=values_axis if lying else names_axis,
        yaxis=names_axis if lying else values_axis,
    )


def devices(subject: Subject) -> Markup:
    """What every device does of the step."""
    if subject.simulated is None:
        return Markup("")
    simulation, unit = subject.simulated.simulation, subject.run_unit
    return devices_section(device_rows(simulation), unit, simulation.step_time, simulation.bubble_fraction)


def devices_section(rows: Sequence[DeviceRow], unit: str, step: float, bubble: float) -> Markup:
    """The use of devices, of a step of a length and the share of it that they wait."""
    parts = (
        ("works", [row.busy for row in rows], WORK),
        ("moves data, exposed", [row.exposed for row in rows], MOVE),
        ("waits", [row.idle for row in rows], WAIT),
    )
    factor, shown_unit = scaled(step, unit)
    drawn = [(title, [value * factor for value in values], shade) for title, values, shade in parts]
    found = _bars([row.name for row in rows], drawn, f"time of a batch ({shown_unit})", "%{@:.4~g} " + shown_unit)
    shown = [
        (
            row.name,
            time(row.busy, unit),
            time(row.exposed, unit),
            time(row.hidden, unit),
            time(row.idle, unit),
            share(row.idle / step if step > 0 else 0.0),
        )
        for row in rows[:_ROWS]
    ]
    columns = ("device", "works", "moves data, exposed", "moves data, hidden", "waits", "share of waiting")
    says = f"A batch takes {format_time(step, unit)}; all devices together wait for {bubble:.1%} of it."
    return section("devices", "Devices", chart("uses", found, says, table("Use of devices", columns, shown)))


def memory(subject: Subject) -> Markup:
    """The most that every device holds at once, against its limit."""
    if subject.simulated is None:
        return Markup("")
    return memory_section(device_rows(subject.simulated.simulation))


def memory_section(rows: Sequence[DeviceRow]) -> Markup:
    """The peaks of devices, and what they are made of."""
    names = list(dict.fromkeys(name for row in rows for name, value in row.memory.items() if value > 0))
    if not names:
        return Markup("")
    from plotly.graph_objects import Scatter

    parts = [(name, [row.memory.get(name, 0.0) / GIB for row in rows], colour(n)) for n, name in enumerate(names)]
    found = _bars([row.name for row in rows], parts, "memory (GiB)", "%{@:.3f} GiB")
    if any(row.limit for row in rows):
        lying = len(rows) <= _NAMED
        marks = [None if row.limit is None else row.limit / GIB for row in rows]
        places = [row.name for row in rows] if lying else list(range(len(rows)))
        found.add_trace(
            Scatter(
                x=marks if lying else places,
                y=places if lying else marks,
                mode="markers",
                name="limit",
                marker={
                    "symbol": "line-ns-open" if lying else "line-ew-open",
                    "size": 18 if lying else 8,
                    "color": LIMIT,
                    "line": {"width": 3, "color": LIMIT},
                },
                hovertemplate="limit: %{" + ("x" if lying else "y") + ":.3f} GiB<extra></extra>",
            )
        )
    rows_shown = []
    for row in rows[:_ROWS]:
        total = sum(row.memory.values())
        rows_shown.append(
            (
                row.name,
                *(size(row.memory.get(name, 0.0)) for name in names),
                size(total),
                size(row.limit),
                share(total / row.limit) if row.limit else "—",
            )
        )
    fullest = max(rows, key=lambda row: sum(row.memory.values()) / row.limit if row.limit else 0.0)
    most = sum(fullest.memory.values())
    says = f"The fullest device is {fullest.name}: {format_bytes(most)} at its peak"
    says += (
        f" of {format_bytes(fullest.limit)} ({most / fullest.limit:.0%})." if fullest.limit else ", without a limit."
    )
    columns = ("device", *names, "peak", "limit", "share")
    return section(
        "memory", "Memory", chart("held", found, says, table("Memory of devices at their peak", columns, rows_shown))
    )


def critical(subject: Subject) -> Markup:
    """The chain of what the step's length is made of."""
    if subject.simulated is None:
        return Markup("")
    line, unit = subject.simulated.simulation.timeline, subject.run_unit
    path = subject.simulated.simulation.critical()
    if not path:
        return Markup("")
    summary = critical_summary(line, path)
    spent = {**summary.by_sort, **({"waiting": summary.waiting} if summary.waiting > 0 else {})}
    pairs = [
        (
            name.capitalize(),
            joined([time(value, unit), " (", share(value / summary.finish if summary.finish else 0.0), ")"]),
        )
        for name, value in spent.items()
    ]
    parts: list[list[Any]] = []
    for place in path:
        owner, start, end = line.lanes[int(line.lane[place])].owner, float(line.start[place]), float(line.end[place])
        if end <= start:
            continue
        if parts and parts[-1][0] == owner:
            parts[-1][2] = end
            parts[-1][3].append(place)
        else:
            parts.append([owner, start, end, [place]])
    chosen = sorted(sorted(range(len(parts)), key=lambda n: parts[n][1] - parts[n][2])[:_PARTS])
    rows = [
        (
            parts[n][0],
            line.label(parts[n][3][0]) + (f" … {line.label(parts[n][3][-1])}" if len(parts[n][3]) > 1 else ""),
            str(len(parts[n][3])),
            time(parts[n][1], unit),
            time(parts[n][2] - parts[n][1], unit),
        )
        for n in chosen
    ]
    title = "Parts of the critical path"
    if len(chosen) < len(parts):
        title += f": the longest {len(chosen)} of {len(parts)}"
    found = table(title, ("device", "what", "slices", "starts", "takes"), rows, words=("what",))
    lead = f"The chain of {len(path)} slices, each of which let the next one start: to shorten the batch, shorten it."
    return section("critical-path", "Critical path", facts(pairs), found, lead=lead)
