"""What is where: stages, layers over their stages, and every operator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from partita.ground.units import format_time
from partita.problems.facets.report import PlacedPart
from partita.report.pages.figures import chart, colour, figure, script
from partita.report.pages.markup import Markup, details, joined, of_rich, section, table, tag, time
from partita.report.pages.subject import Subject

#: More bars than this cannot be told apart; neighbours in one place are then drawn as one.
_MOST_BARS = 600
#: Rows of the tables under charts.
_MOST_ROWS = 400


def stages(subject: Subject) -> Markup:
    """Tables of the plan as the command line has them, and the model over its stages."""
    shown: list[Any] = []
    if subject.planned is not None and subject.report is not None:
        found = subject.report.tables(subject.planned.problem, subject.planned.plan, subject.evaluation)
        shown += [of_rich(part) for part in found if hasattr(part, "columns")]
    strip = _strip(subject)
    lead = "Which part of the model runs where, from the input to the output."
    return section("stages", "Stages", strip, *shown, _layers(subject), _operators(subject), lead=lead)


def _groups(parts: Sequence[PlacedPart], most: int) -> list[list[PlacedPart]]:
    """Parts in a row, those of one module and place as one, and if these are too many, those of one place."""

    def grouped(key: Any) -> list[list[PlacedPart]]:
        found: list[list[PlacedPart]] = []
        for part in parts:
            if found and key(found[-1][-1]) == key(part):
                found[-1].append(part)
            else:
                found.append([part])
        return found

    finest = grouped(lambda part: (part.place, part.module or part.id))
    if len(finest) <= most:
        return finest
    layers = grouped(lambda part: (part.place, ".".join(part.module.split(".")[:3]) or part.id // (len(parts) // most)))
    return layers if len(layers) <= most else grouped(lambda part: part.place)[:most]


def _strip(subject: Subject) -> Markup:
    """A bar for every part of the model, in its order, in the colour of its stage."""
    parts = subject.parts
    if not parts or not any(part.time for part in parts):
        return Markup("")
    from plotly.graph_objects import Bar

    unit = subject.unit
    groups = _groups(parts, _MOST_BARS)
    times = [sum(part.time or 0.0 for part in group) for group in groups]
    labels = [_named(group) for group in groups]
    places = sorted({part.place for part in parts})
    traces = []
    for place in places if len(places) <= 24 else [None]:
        mine = [n for n, group in enumerate(groups) if place is None or group[0].place == place]
        traces.append(
            Bar(
                x=mine,
                y=[times[n] for n in mine],
                customdata=[[labels[n], groups[n][0].place, groups[n][0].where] for n in mine],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{customdata[2]}<br>%{y:.4s}"
                + unit
                + "<extra></extra>",
                marker={
                    "color": colour(place) if place is not None else [colour(groups[n][0].place) for n in mine],
                    "line": {"width": 0},
                },
                name="" if place is None else f"{place}: {_where(parts, place)}",
                showlegend=place is not None,
            )
        )
    found = figure(
        traces,
        height=300,
        bargap=0.1 if len(groups) < 200 else 0,
        xaxis={"title": {"text": "parts of the model in order"}, "showticklabels": False, "showgrid": False},
        yaxis={"title": {"text": f"time ({unit})"}, "exponentformat": "SI" if unit == "s" else "none"},
    )
    rows = [
        (label, str(group[0].place), group[0].where, str(len(group)), time(spent, unit))
        for label, group, spent in zip(labels[:_MOST_ROWS], groups, times, strict=False)
    ]
    numbers = table("Parts of the model", ("part", "#", "device", "operators", "time"), rows, words=("device",))
    says = f"{len(parts)} parts of the model in their order over {len(places)} places; the tallest bar is {_tallest(times, labels, unit)}."
    return chart("model", found, says, numbers)


def _tallest(times: Sequence[float], labels: Sequence[str], unit: str) -> str:
    most = max(range(len(times)), key=times.__getitem__)
    return f"{labels[most]} with {format_time(times[most], unit)}"


def _where(parts: Sequence[PlacedPart], place: int) -> str:
    where = next(part.where for part in parts if part.place == place)
    return where if len(where) <= 28 else where[:27] + "…"


def _named(group: Sequence[PlacedPart]) -> str:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first.name
    if first.module and first.module == last.module:
        return first.module
    return f"{first.module or first.name} … {last.module or last.name}"


def _layers(subject: Subject) -> Markup:
    """The row of layers that runtimes count, with the stages that have them."""
    split = subject.document.get("split")
    layers = split.get("layers") if isinstance(split, Mapping) else None
    if not layers:
        return Markup("")
    rows = [
        (
            layer["name"],
            ", ".join(str(stage) for stage in layer["stages"]) + (" (cut)" if len(layer["stages"]) > 1 else ""),
            layer["part"],
            ", ".join(layer["modules"]),
            "" if layer["recompute"] == "none" else layer["recompute"],
        )
        for layer in layers
    ]
    columns = ("layer", "stage", "part", "modules", "recomputed")
    found = table("Layers and their stages", columns, rows, words=columns)
    return details(f"Layers ({len(layers)})", found, open_=len(layers) <= 16)


def _operators(subject: Subject) -> Markup:
    """Every operator, made a table by the page when it is asked for: there may be many thousands."""
    parts = subject.parts
    if not parts:
        return Markup("")
    modules = list(dict.fromkeys(part.module for part in parts))
    wheres = list(dict.fromkeys(part.where for part in parts))
    number = {module: place for place, module in enumerate(modules)}
    device = {where: place for place, where in enumerate(wheres)}
    rows = [
        [
            part.id,
            part.name,
            number[part.module],
            part.place,
            device[part.where],
            part.time,
            part.memory_bytes,
            part.note,
        ]
        for part in parts
    ]
    data = {"unit": subject.unit, "modules": modules, "where": wheres, "rows": rows}
    return details(
        joined([f"Everything that is placed, one by one ({len(parts)})"]),
        tag("div", class_="operators", data_source="operators-data"),
        script("operators-data", json.dumps(data, separators=(",", ":"))),
    )
