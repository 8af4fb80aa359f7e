"""The page of a sweep: what becomes of plan, bound and best baseline from point to point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partita.ground.fronts import front
from partita.ground.units import format_bytes, format_time
from partita.report.pages.again import again, notes
from partita.report.pages.assemble import assembled
from partita.report.pages.figures import BOUND, WAIT, WORK, chart, colour, figure, scaled
from partita.report.pages.markup import Markup, exact, joined, section, share, table, tag, time
from partita.report.pages.verdict import STATUS, tiles

Row = Mapping[str, Any]

#: Keys of a row that are no axis, and what they are called.
_FIGURES = {
    "objective": "objective",
    "bound": "proven bound",
    "gap": "gap",
    "status": "status",
    "stop_reason": "stopped",
    "runtime_s": "search",
    "baseline": "best baseline",
    "baseline_objective": "baseline's objective",
    "reason": "reason",
}
#: Keys that are times in the unit of the sweep, and shares.
_TIMES = {"objective", "bound", "baseline_objective", "latency", "step_per_microbatch", "step_per_sample"}
_SHARES = {"efficiency", "bubble", "model_flops_utilisation"}
#: Up to so many points of an axis are marked, and no others.
_TICKS = 12
#: What is drawn over the first axis: key, title, colour, dash.
_LINES = (
    ("objective", "plan", WORK, "solid"),
    ("bound", "proven bound", BOUND, "dash"),
    ("baseline_objective", "best baseline", WAIT, "dot"),
    ("step_per_microbatch", "plan, whole batch", "#e08214", "solid"),
)


def axes_of(rows: Sequence[Row]) -> list[str]:
    """The keys that rows are told apart by, the one with most values first; the first key if there is but one row."""
    keys: list[str] = []
    for key in rows[0] if rows else ():
        if key == "objective":
            break
        keys.append(key)
    counts = {key: len({str(row[key]) for row in rows}) for key in keys}
    varied = sorted((key for key in keys if counts[key] > 1), key=lambda key: -counts[key])
    return varied or keys[:1]


def shown(key: str, value: Any, unit: str) -> Any:
    """A value of a row for people."""
    if value is None:
        return "no limit" if key == "memory_bytes" else "—"
    if key == "runtime_s":
        return exact(value, f"{value:.2f} s")
    if key in _TIMES:
        return time(value, unit)
    if key == "gap":
        return share(value, 3)
    if key in _SHARES:
        return share(value)
    if key.endswith("_bytes"):
        return exact(value, format_bytes(value))
    if isinstance(value, float):
        return exact(value, f"×{value:g}" if key == "bandwidth" else f"{value:.4g}")
    if isinstance(value, list | dict):
        return f"{len(value)}"
    return str(value)


def point_words(axes: Sequence[str], row: Row, unit: str) -> str:
    """Where a row is, in words."""
    return ", ".join(f"{_title(key)} {_plain(shown(key, row[key], unit))}" for key in axes)


def _plain(value: Any) -> str:
    return value[value.index(">") + 1 : value.rindex("<")] if isinstance(value, Markup) and ">" in value else str(value)


def _title(key: str) -> str:
    return _FIGURES.get(key, key.removesuffix("_bytes").replace("_", " "))


def sweep_page(document: Mapping[str, Any]) -> str:
    """A sweep: the verdict, its lines, and all rows."""
    rows, unit = document["rows"], str(document.get("unit", "s"))
    name = str((document.get("problem") or {}).get("name") or "sweep")
    axes = axes_of(rows)
    sections = [
        _verdict(document, rows, axes, unit),
        _lines(rows, axes, unit),
        _efficiency(rows, axes, unit),
        _pareto(rows, axes, unit),
        _table(rows, unit),
        notes(document),
        again(document),
    ]
    return assembled(name, "Sweep", sections)


def headline(document: Mapping[str, Any]) -> Markup:
    """A sweep in one sentence."""
    rows, unit = document["rows"], str(document.get("unit", "s"))
    axes = axes_of(rows)
    planned = [row for row in rows if row["objective"] is not None]
    if not planned:
        return joined([f"None of {len(rows)} points has a plan."])
    best = min(planned, key=lambda row: row["objective"])
    where = point_words(axes, best, unit)
    return joined(
        [f"Of {len(rows)} points the fastest takes ", time(best["objective"], unit), f", at {where}."]
        if len(rows) > 1
        else ["The one point takes ", time(best["objective"], unit), f", at {where}."]
    )


def _verdict(document: Mapping[str, Any], rows: Sequence[Row], axes: Sequence[str], unit: str) -> Markup:
    counts = {status: sum(row["status"] == status for row in rows) for status in STATUS}
    pairs: list[tuple[str, Any]] = [("Points", str(len(rows)))]
    pairs += [(STATUS[status], str(count)) for status, count in counts.items() if count]
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    if gaps:
        pairs.append(("Largest gap", share(max(gaps), 4)))
    cut = document.get("interrupted")
    return tag(
        "section",
        tag("h2", "Verdict", id_="verdict-title", class_="hidden"),
        tag("p", headline(document), class_="verdict"),
        tag("p", f"Along {' and '.join(_title(key) for key in axes)}.", class_="about") if axes else "",
        tiles(iter(pairs)),
        tag("p", "The sweep was interrupted: rows are missing.") if cut else "",
        id_="verdict",
        aria_labelledby="verdict-title",
    )


def _grouped(rows: Sequence[Row], axes: Sequence[str], unit: str) -> dict[str, list[Row]]:
    """Lines over the first axis by where they are on the others."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row[axes[0]] is not None:
            found.setdefault(point_words(axes[1:], row, unit), []).append(row)
    return {label: sorted(line, key=lambda row: row[axes[0]]) for label, line in found.items()}


def _over_axis(
    rows: Sequence[Row], axes: Sequence[str], unit: str, lines: Sequence[tuple[str, str, str, str]], title: str
) -> Any:
    """Some keys of the rows over the first axis."""
    from plotly.graph_objects import Scatter

    most = max((row[key] for row in rows for key, *_ in lines if row.get(key) is not None), default=0.0)
    factor, axis = scaled(most, unit) if lines[0][0] in _TIMES else (1.0, "")
    groups = _grouped(rows, axes, unit)
    traces = []
    for number, (label, line) in enumerate(groups.items()):
        for key, what, shade, dash in lines:
            if any(row.get(key) is not None for row in line):
                traces.append(
                    Scatter(
                        x=[row[axes[0]] for row in line],
                        y=[None if row.get(key) is None else row[key] * factor for row in line],
                        mode="lines+markers",
                        name=", ".join(part for part in (what, label) if part),
                        line={"color": shade if len(groups) == 1 else colour(number), "dash": dash, "width": 2},
                        hovertemplate="%{x}: %{y:.4~g} " + axis + "<extra>%{fullData.name}</extra>",
                    )
                )
    places = sorted({row[axes[0]] for row in rows if row[axes[0]] is not None})
    return figure(
        traces,
        height=380,
        xaxis={"title": {"text": _title(axes[0])}, **({"tickvals": places} if len(places) <= _TICKS else {})},
        yaxis={"title": {"text": f"{title} ({axis})" if axis else title}, "rangemode": "tozero"},
    )


def _lines(rows: Sequence[Row], axes: Sequence[str], unit: str) -> Markup:
    if not axes or not any(row[axes[0]] is not None and row["objective"] is not None for row in rows):
        return Markup("")
    found = _over_axis(rows, axes, unit, _LINES, "time")
    says = f"Plan, proven bound and best baseline over {_title(axes[0])}."
    return section("lines", "Time", chart("times", found, says, None))


def _efficiency(rows: Sequence[Row], axes: Sequence[str], unit: str) -> Markup:
    if not axes or not any(row.get("efficiency") is not None for row in rows):
        return Markup("")
    found = _over_axis(rows, axes, unit, [("efficiency", "", WORK, "solid")], "efficiency, relative to the fewest")
    says = f"Efficiency over {_title(axes[0])}: speed of each device, relative to the smallest point."
    return section("efficiency", "Efficiency", chart("efficient", found, says, None))


def pareto(rows: Sequence[Row], cost: str) -> list[Row]:
    """Rows that no other one beats in both the cost and the objective, the cheapest first."""
    there = [row for row in rows if row["objective"] is not None and row[cost] is not None]
    # Not all costs are numbers.
    _, rank = np.unique([row[cost] for row in there], return_inverse=True)
    return [there[v] for v in front(rank, [row["objective"] for row in there]).tolist()]


def _pareto(rows: Sequence[Row], axes: Sequence[str], unit: str) -> Markup:
    """What is best for its cost, where more than one thing varies."""
    best = pareto(rows, axes[0]) if len(axes) > 1 else []
    if len(best) < 2:
        return Markup("")
    from plotly.graph_objects import Scatter

    there = [row for row in rows if row["objective"] is not None and row[axes[0]] is not None]
    factor, axis = scaled(max(row["objective"] for row in there), unit)
    traces = [
        Scatter(
            x=[row[axes[0]] for row in there],
            y=[row["objective"] * factor for row in there],
            mode="markers",
            marker={"color": WAIT, "size": 9},
            name="points",
            customdata=[[point_words(axes, row, unit), format_time(row["objective"], unit)] for row in there],
            hovertemplate="%{customdata[0]}: %{customdata[1]}<extra></extra>",
        ),
        Scatter(
            x=[row[axes[0]] for row in best],
            y=[row["objective"] * factor for row in best],
            mode="lines+markers",
            line={"shape": "hv", "color": WORK, "width": 2},
            marker={"size": 9},
            name="nothing is better in both",
            hoverinfo="skip",
        ),
    ]
    found = figure(
        traces,
        height=360,
        xaxis={"title": {"text": _title(axes[0])}},
        yaxis={"title": {"text": f"objective ({axis})"}, "rangemode": "tozero"},
    )
    listed = [(point_words(axes, row, unit), time(row["objective"], unit)) for row in best]
    numbers = table("Points that no other one beats in both", ("point", "objective"), listed)
    says = f"{len(best)} of {len(there)} points are best for their {_title(axes[0])}."
    return section("pareto", "Best for its cost", chart("front", found, says, numbers))


def _table(rows: Sequence[Row], unit: str) -> Markup:
    if not rows:
        return Markup("")
    keys = [key for key in rows[0] if any(row.get(key) is not None for row in rows) or key == "objective"]
    words = [
        _title(key) for key in keys if isinstance(next((row[key] for row in rows if row[key] is not None), ""), str)
    ]
    listed = [[shown(key, row.get(key), unit) for key in keys] for row in rows]
    return section(
        "points", "All points", table("Points of the sweep", [_title(key) for key in keys], listed, words=words)
    )
