"""What is where: stages, layers over their stages, and every operator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from partita.ground.units import format_time
from partita.problems.facets.records import OperatorPlace
from partita.report.pages.figures import BARE, chart, colour, figure, scaled, script
from partita.report.pages.markup import Markup, details, of_rich, rich_tables, section, table, tag, time
from partita.report.pages.subject import Subject

#: As many parts of a model as a reader looks at one by one, and more than can be told apart.
_MANY, _MOST_BARS = 64, 400
#: Up to so many stages are named, up to so many parts, and up to so many of these in a straight line.
_NAMED, _LABELLED, _FLAT = 24, 40, 6
#: Rows of the tables under charts.
_MOST_ROWS = 400


def stages(subject: Subject) -> Markup:
    """Tables of the plan as the command line has them, and the model over its stages."""
    shown: list[Any] = []
    if subject.planned is not None and subject.report is not None:
        found = subject.report.tables(subject.planned.problem, subject.planned.plan, subject.evaluation)
        shown += [of_rich(part) for part in rich_tables(found)]
    drawn = _model(subject)
    lead = "Which part of the model runs where, from the input to the output."
    return section("stages", "Stages", drawn, *shown, _layers(subject), *_operators(subject), lead=lead)


class _Bar(NamedTuple):
    """What one place has of one part of the model."""

    part: int  #: Number of the part, in the model's order.
    label: str
    place: int
    where: str
    time: float
    pieces: int


def _keys(parts: Sequence[OperatorPlace]) -> list[str]:
    """What every part is drawn as: its module, cut off where there are many; a piece of a row where there are none."""
    depths = range(max(part.module.count(".") + 1 if part.module else 0 for part in parts), 0, -1)
    keys: list[str] = []
    for depth in depths:
        keys = [".".join(part.module.split(".")[:depth]) or "(root)" for part in parts]
        if len(set(keys)) <= _MANY:
            return keys
    if keys and len(set(keys)) <= _MOST_BARS:
        return keys
    size = -(-len(parts) // _MOST_BARS)
    if size == 1:
        return [f"{number}: {part.name}" for number, part in enumerate(parts)]
    first = [number // size * size for number in range(len(parts))]
    return [f"{parts[n].name} … {parts[min(n + size, len(parts)) - 1].name} ({n})" for n in first]


def _model_bars(parts: Sequence[OperatorPlace]) -> list[_Bar]:
    keys = _keys(parts)
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    found: dict[tuple[int, int], _Bar] = {}
    for key, part in zip(keys, parts, strict=True):
        at = number[key], part.stage
        old = found.get(at) or _Bar(at[0], key, part.stage, part.device, 0.0, 0)
        found[at] = old._replace(time=old.time + (part.time or 0.0), pieces=old.pieces + 1)
    return sorted(found.values())


def _model(subject: Subject) -> Markup:
    """A bar for every part of the model, in its order, in the colours of its stages."""
    parts, unit = subject.operators, subject.unit
    if not any(part.time for part in parts):
        return Markup("")
    from plotly.graph_objects import Bar

    bars = _model_bars(parts)
    whole: dict[int, float] = {}
    for bar in bars:
        whole[bar.part] = whole.get(bar.part, 0.0) + bar.time
    factor, shown = scaled(max(whole.values()), unit)
    places = sorted({bar.place for bar in bars})
    traces = []
    for place in places if len(places) <= _NAMED else [None]:
        mine = [bar for bar in bars if place is None or bar.place == place]
        traces.append(
            Bar(
                x=[bar.part for bar in mine],
                y=[bar.time * factor for bar in mine],
                customdata=[[bar.label, bar.place, bar.where, format_time(bar.time, unit)] for bar in mine],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{customdata[2]}<br>%{customdata[3]}" + BARE,
                marker={"color": [colour(bar.place) for bar in mine], "line": {"width": 0}},
                name="" if place is None else f"{place}: {_short(mine[0].where)}",
                showlegend=place is not None,
            )
        )
        if place is not None:
            # Also the key's.
            traces[-1].marker.color = colour(place)
    labels = {bar.part: bar.label for bar in bars}
    few = len(whole) <= _LABELLED
    found = figure(
        traces,
        height=340,
        barmode="stack",
        bargap=0.15 if len(whole) < 150 else 0,
        xaxis={
            "title": {"text": "" if few else "parts of the model, in order"},
            "showgrid": False,
            "zeroline": False,
            "tickvals": list(labels) if few else [],
            "ticktext": [_short(label, 22) for label in labels.values()] if few else [],
            "tickangle": -40 if len(whole) > _FLAT else 0,
        },
        yaxis={"title": {"text": f"time ({shown})"}},
    )
    rows = [(bar.label, str(bar.place), bar.where, str(bar.pieces), time(bar.time, unit)) for bar in bars[:_MOST_ROWS]]
    numbers = table("Parts of the model", ("part", "stage", "device", "pieces", "time"), rows, words=("device",))
    longest = max(whole, key=whole.__getitem__)
    says = (
        f"{len(whole)} parts of the model, from the input to the output, in the colours of {_stages(len(places))}; "
        f"the longest is {labels[longest]} with {format_time(whole[longest], unit)}."
    )
    return chart("model", found, says, numbers)


def _stages(count: int) -> str:
    return "the one stage that has them" if count == 1 else f"the {count} stages that have them"


def _short(text: str, most: int = 30) -> str:
    """The end of a long name says more than its start."""
    return text if len(text) <= most else "…" + text[1 - most :]


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


def _operators(subject: Subject) -> list[Markup]:
    """Everything that is placed, and where that is layers, the operators inside them."""
    parts = subject.operators
    if not parts:
        return []
    placed = [
        (part.id, part.name, part.module, part.stage, part.device, part.time, part.memory_bytes, part.note)
        for part in parts
    ]
    shown = [_searched("placed", f"Everything that is placed, one by one ({len(placed)})", placed, subject.unit)]
    inside = _model_operators(subject)
    if inside:
        shown.append(_searched("inside", f"Operators of the model ({len(inside)})", inside, subject.unit))
    return shown


#: Number, name, module, place, device, time, memory, and how it runs.
_Placed = tuple[int, str, str, int, str, float | None, float | None, str]


def _searched(identity: str, title: str, placed: Sequence[_Placed], unit: str) -> Markup:
    """Rows that the page makes a table of when it is asked for: there may be many thousands."""
    modules = {module: place for place, module in enumerate(dict.fromkeys(row[2] for row in placed))}
    wheres = {where: place for place, where in enumerate(dict.fromkeys(row[4] for row in placed))}
    rows = [[*row[:2], modules[row[2]], row[3], wheres[row[4]], *row[5:]] for row in placed]
    data = {"unit": unit, "modules": list(modules), "where": list(wheres), "rows": rows}
    return details(
        title,
        tag("div", class_="operators", data_source=f"{identity}-data", data_title=title),
        script(f"{identity}-data", json.dumps(data, separators=(",", ":"))),
    )


def _model_operators(subject: Subject) -> list[_Placed]:
    """The operators of a model whose plan is one of layers, by the stage that has them."""
    known = subject.document.get("operators")
    split = None if subject.planned is None else subject.planned.split
    if not isinstance(known, Mapping) or split is None or not any(stage.planned for stage in split.stages):
        return []
    backward = set(known["backward"])
    names, modules, module_of = known["names"], known["modules"], known["module_of"]
    found: list[_Placed] = []
    for number, stage in enumerate(split.stages):
        where = f"{len(stage.devices)} × {stage.kind}" if len(stage.devices) != 1 else stage.devices[0]
        for op in stage.operators:
            note = "backward" if op in backward else ""
            found.append((op, names[op], modules[module_of[op]], number, where, None, None, note))
    return sorted(found, key=lambda row: row[0])
