"""A time line in small, as SVG: what a notebook shows, and what a page shows until it can be looked at closely.

It is drawn here: no library is there to draw it, because a cell needs no extra, and a page has not unpacked it yet.
"""

from __future__ import annotations

import itertools

import numpy as np

from partita.ground.units import format_time
from partita.report.pages.markup import Markup, joined, tag
from partita.simulator.gantt_text import main_sorts
from partita.simulator.timeline import SORTS, Timeline

#: Rows and pieces of time of the picture.
_ROWS, _COLUMNS = 24, 240


def picture(line: Timeline) -> Markup:
    """A time line in small: a row for each device, and what takes most of each piece of the time."""
    lanes = [k for k, lane in enumerate(line.lanes) if lane.stream == "compute"]
    # Of many devices some, evenly.
    lanes = lanes[:: -(-len(lanes) // _ROWS)] if lanes else []
    if not lanes or line.finish <= 0:
        return Markup("")
    row_of = np.full(len(line.lanes), -1)
    row_of[lanes] = np.arange(len(lanes))
    sorts = main_sorts(line, row_of, len(lanes), _COLUMNS)
    left, step, high = 150, 3, 18
    width = step * _COLUMNS
    drawn: list[Markup] = []
    shapes: dict[int, list[str]] = {}
    for row, codes in enumerate(sorts):
        edges = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1, [_COLUMNS])).tolist()
        name = line.lanes[lanes[row]].owner
        y = row * high
        drawn.append(_text(left - 8, y + 13, name if len(name) <= 22 else name[:21] + "…", "end"))
        for a, b in itertools.pairwise(edges):
            if codes[a] >= 0:
                long = step * (b - a)
                shapes.setdefault(int(codes[a]), []).append(f"M{left + step * a} {y + 2}h{long}v{high - 4}h-{long}z")
    # One shape for each sort, because a cell has to be small.
    drawn += [tag("path", d="".join(parts), fill=SORTS[sort].colour) for sort, parts in sorted(shapes.items())]
    bottom, end = len(lanes) * high, format_time(line.finish, line.unit)
    drawn += [_text(left, bottom + 15, "0", "start"), _text(left + width, bottom + 15, end, "end")]
    words = ", ".join(SORTS[sort].name for sort in sorted(shapes))
    more = sum(lane.stream == "compute" for lane in line.lanes) - len(lanes)
    says = f"Time line of {len(lanes)} devices{f' of {len(lanes) + more}' if more else ''}, {end}: {words}"
    keys = [
        tag("span", tag("span", "■ ", style=f"color:{SORTS[k].colour}"), SORTS[k].name + "  ", class_="soft")
        for k in sorted(shapes)
    ]
    svg = tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {left + width + 10} {bottom + 22}",
        width=left + width + 10,
        role="img",
        aria_label=says,
        font_size=11,
        font_family="system-ui,sans-serif",
    )
    return joined([tag("div", svg), tag("p", *keys)])


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return tag("text", words, x=x, y=y, text_anchor=anchor, fill="currentColor")
