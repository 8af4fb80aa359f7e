"""The time line on a page: all slices as few bytes as can be, and what draws any part of them.

Slices are sorted by lane and start. Times are whole ticks of the finish, and of each slice the page has its distance
from the slice before, its length, its sort, and by how much stage and microbatch differ from those of the slice before
with the same sort: numbers that are nearly always the same, which compress to a fraction of a byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.ground.units import format_time
from partita.report.pages.figures import script
from partita.report.pages.markup import Markup, joined, section, tag
from partita.report.pages.packed import packed, planes
from partita.report.pages.preview import picture
from partita.report.pages.subject import Subject
from partita.simulator.timeline import SORTS, Timeline

#: Ticks of a time line: its finish is the last. Long ones are told less finely, which still is far below a pixel.
_TICKS, _COARSE, _LONG = 2**30, 2**24, 200_000
#: Up to so many rows are shown with transfers and links, unless somebody asks for them.
_ALL_ROWS = 48


def timeline_document(line: Timeline, critical: Sequence[int] = ()) -> dict[str, Any]:
    """A time line as plain values: ``lanes``, ``finish``, ``unit``, and the slices in ``packed``.

    ``packed`` has, one behind the other as ``planes``, for all slices in order: gap, length, sort, stage, microbatch,
    name and whether it is on the ``critical`` path.
    """
    order = np.lexsort((line.end, line.start, line.lane))
    finish = line.finish or 1.0
    ticks = _TICKS if line.count <= _LONG else _COARSE
    start = np.rint(line.start[order] / finish * ticks).astype(np.int64)
    end = np.rint(line.end[order] / finish * ticks).astype(np.int64)
    lane, sort = line.lane[order], line.sort[order]
    first = np.ones(line.count, dtype=bool)
    first[1:] = lane[1:] != lane[:-1]
    gap = start.copy()
    gap[1:] -= np.where(first[1:], 0, end[:-1])
    names, name = _names(line, order)
    on_path = np.zeros(line.count, dtype=np.int64)
    on_path[list(critical)] = 1
    same = lane * len(SORTS) + sort
    columns = [gap, end - start, sort, *(_steps(v[order], same) for v in (line.stage, line.microbatch)), name]
    counts = np.bincount(lane, minlength=len(line.lanes)).tolist()
    return {
        "name": line.name,
        "unit": line.unit,
        "finish": line.finish,
        "ticks": ticks,
        "count": line.count,
        "sorts": [
            {"name": entry.name, "letter": entry.letter, "colour": entry.colour, "count": int(number)}
            for entry, number in zip(SORTS, np.bincount(sort, minlength=len(SORTS)), strict=True)
        ],
        "lanes": [
            {"owner": entry.owner, "stream": entry.stream, "shared": entry.shared, "count": count}
            for entry, count in zip(line.lanes, counts, strict=True)
        ],
        "names": names,
        "packed": packed(b"".join(planes(column) for column in (*columns, on_path[order]))),
    }


def _steps(values: Longs, same: Longs) -> Longs:
    """By how much each value differs from the one before among those that are the ``same``; the first from 0."""
    order = np.argsort(same, kind="stable")
    inside = values[order].astype(np.int64)
    found = inside.copy()
    found[1:] -= np.where(same[order][1:] == same[order][:-1], inside[:-1], 0)
    steps = np.empty_like(found)
    steps[order] = found
    return steps


def _names(line: Timeline, order: Longs) -> tuple[list[str], Longs]:
    """Names of slices, each once, the empty one first; and the number of each slice's."""
    known = {"": 0}
    numbers = np.zeros(line.count, dtype=np.int64)
    if line.names:
        numbers[:] = [known.setdefault(line.names[place], len(known)) for place in order.tolist()]
    return list(known), numbers


_KEYS = (
    ("zoom-in", "+", "Zoom in (key +)"),
    ("zoom-out", "−", "Zoom out (key −)"),
    ("left", "←", "Earlier (arrow left)"),
    ("right", "→", "Later (arrow right)"),
    ("reset", "All", "The whole batch (key 0)"),
)


def time_line(subject: Subject) -> Markup:
    """The time line of a batch."""
    if subject.simulated is None:
        why = subject.no_run
        return section("timeline", "Time line", tag("p", f"There is no time line: {why}.")) if why else Markup("")
    run = subject.simulated.simulation
    found = timeline_document(run.timeline, run.critical())
    lead = (
        f"{run.program.schedule}, {run.program.microbatches} {run.program.pieces[1]}, "
        f"{format_time(run.step_time, subject.run_unit)} from start to end."
    )
    return timeline_section(found, lead, picture(run.timeline))


def _height(found: Mapping[str, Any]) -> int:
    """Of the drawing, in pixels, as the page's program makes it: nothing then moves when it is drawn."""
    used = [lane for lane in found["lanes"] if lane["count"] or lane["stream"] == "compute"]
    work = [lane for lane in used if lane["stream"] == "compute"]
    rows = used if not work or len(used) <= _ALL_ROWS else work
    return max(170, min(620, 70 + 22 * len(used), 70 + 26 * len(rows)))


def timeline_section(found: Mapping[str, Any], lead: str, preview: Markup | str = "") -> Markup:
    """A time line as ``timeline_document`` gives it, and what is there until it is drawn."""
    buttons = [
        tag("button", shown, type_="button", data_act=act, aria_label=says, title=says) for act, shown, says in _KEYS
    ]
    rows = [
        tag("label", tag("input", "", type_="checkbox", data_act="transfers"), " transfers and links"),
        tag("label", tag("input", "", type_="checkbox", data_act="critical"), " critical path only"),
    ]
    legend = [
        tag("li", tag("span", "", class_="swatch", style=f"background:{entry['colour']}"), entry["name"])
        for entry in found["sorts"]
        if entry["count"]
    ]
    devices = len({lane["owner"] for lane in found["lanes"]})
    says = f"Time line of {found['count']} slices on {devices} devices and links. {lead}"
    return section(
        "timeline",
        "Time line",
        tag(
            "div",
            tag(
                "div", joined(buttons), joined(rows), class_="tools", role="toolbar", aria_label="View of the time line"
            ),
            tag("ul", *legend, class_="legend", aria_label="Colours"),
            tag(
                "div",
                preview,
                class_="line",
                style=f"height:{_height(found)}px",
                tabindex="0",
                role="img",
                aria_label=f"{says} With the keyboard: plus and minus zoom, arrows move, 0 shows all.",
            ),
            tag("p", "", class_="readout", aria_live="polite"),
            script("timeline-data", json.dumps(found, separators=(",", ":"))),
            class_="timeline",
            data_source="timeline-data",
        ),
        lead=joined([lead, tag("span", " Drag over a part to look closer, double-click to go back.", class_="screen")]),
    )
