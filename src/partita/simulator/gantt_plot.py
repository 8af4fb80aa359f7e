"""A time line as a picture, drawn with matplotlib (extra ``plot``); no display is touched."""

from __future__ import annotations

import html
import importlib.util
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from partita.documents.document import write_atomic
from partita.engines.kernels.arrays import Floats, Longs
from partita.ground.errors import InputError, MissingExtraError
from partita.ground.units import GIB, format_bytes
from partita.simulator.gantt_text import main_sorts
from partita.simulator.timeline import SORTS, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Endings of files that can be written.
ENDINGS = (".png", ".svg", ".html")

_DPI = 150
_WIDTH = 12.0
#: Pieces of time that a reader can tell apart: about the pixels of the widest row.
_COLUMNS = 1500
#: Bars of one picture, about; more take long to draw and to show.
_MOST_BARS = 120_000
#: Up to so many bars carry the number of their microbatch.
_NUMBERED = 500
#: Up to so many rows have a label each.
_LABELLED = 140
#: Up to so many devices are named beside the memory curves.
_NAMED = 16

_Bars = tuple[Floats, Floats, Longs, Longs]


def _merged(start: Floats, end: Floats, sort: Longs, pixel: float) -> tuple[Floats, Floats, Longs]:
    """Bars of one lane, by start, with those of one sort made one that follow each other closer than a pixel."""
    gap = start[1:] - np.maximum.accumulate(end)[:-1]
    begins = np.flatnonzero(np.concatenate(([True], (gap >= pixel) | (sort[1:] != sort[:-1]))))
    return start[begins], np.maximum.reduceat(end, begins), sort[begins]


def _sampled(codes: Longs, finish: float) -> tuple[Floats, Floats, Longs]:
    """Bars of one lane from what it does most of each piece of the time; −1 for nothing."""
    edges = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]))
    sort = codes[edges[:-1]]
    there = sort >= 0
    times = edges * (finish / len(codes))
    return times[:-1][there], times[1:][there], sort[there]


def _bars(timeline: Timeline, rows: list[int]) -> Iterator[_Bars]:
    """For each lane that is a row its bars: starts, ends, sorts, microbatches (−1 for bars that stand for several).

    A lane with few slices has one bar for each. On others bars of one sort that are closer than a pixel are merged, and
    if there are still more bars than pixels each pixel shows what the lane does most of the time meanwhile.
    """
    finish = timeline.finish
    columns = int(np.clip(_MOST_BARS // len(rows), 200, _COLUMNS))
    # What takes no time has no area.
    order = np.lexsort((timeline.start, timeline.lane))
    order = order[timeline.end[order] > timeline.start[order]]
    lane = timeline.lane[order]
    for place in rows:
        chosen = order[np.searchsorted(lane, place) : np.searchsorted(lane, place, side="right")]
        start, end, sort = timeline.start[chosen], timeline.end[chosen], timeline.sort[chosen]
        numbers = timeline.microbatch[chosen]
        if len(chosen) > columns // 4:
            start, end, sort = _merged(start, end, sort, finish / columns)
            if len(start) > columns:
                row = np.where(np.arange(len(timeline.lanes)) == place, 0, -1)
                start, end, sort = _sampled(main_sorts(timeline, row, 1, columns)[0], finish)
            numbers = np.full(len(start), -1)
        yield start, end, sort, numbers


def _rows(timeline: Timeline) -> list[int]:
    """Lanes that are shown: those of computing, and others if anything runs on them."""
    used = set(np.unique(timeline.lane).tolist())
    return [k for k, lane in enumerate(timeline.lanes) if k in used or lane.stream == "compute"]


def _height(timeline: Timeline) -> float:
    """Of the panel with the rows, in inches."""
    return min(max(0.28 * len(_rows(timeline)) + 1.2, 2.4), 40.0)


def draw_gantt(timeline: Timeline, ax: Axes | None = None) -> Axes:
    """Draw a time line: a row for each lane, the first at the top, in the colours of ``SORTS``.

    Lanes of computing are always there, others if anything runs on them; slices on shared lanes are half transparent.
    Very many slices are drawn as what takes most of each pixel.

    Parameters
    ----------
    timeline
        The axis is in its unit.
    ax
        Where to draw; None for a figure of its own, ``ax.figure`` of the answer.

    Returns
    -------
    Axes
        Row k, from the top, has its middle at y = k.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error

    if ax is None:
        ax = Figure(figsize=(_WIDTH, _height(timeline)), dpi=_DPI, layout="constrained").add_subplot()
    rows = _rows(timeline)
    colours = np.array([sort.colour for sort in SORTS])
    occurring: set[int] = set()
    pixel = timeline.finish / _COLUMNS
    all_bars = list(_bars(timeline, rows)) if rows and timeline.finish > 0 else []
    numbered = sum(len(bars[0]) for bars in all_bars) <= _NUMBERED
    for y, (place, (start, end, sort, numbers)) in enumerate(zip(rows, all_bars, strict=False)):
        if not len(start):
            continue
        occurring |= set(np.unique(sort).tolist())
        length = end - start
        # Edges tell neighbours apart, but would hide bars that are hardly wider than they are.
        shared = timeline.lanes[place].shared
        ax.broken_barh(
            list(zip(start.tolist(), length.tolist(), strict=True)),
            (y - 0.4, 0.8),
            facecolors=colours[sort],
            edgecolors="white",
            linewidths=np.where(length > 6 * pixel, 0.5, 0.0),
            alpha=0.5 if shared else None,
        )
        # Where bars overlap one could not see whose a number is.
        for k in np.flatnonzero((numbers >= 0) & (length > 20 * pixel) & (numbered and not shared)):
            middle = (start[k] + end[k]) / 2
            ax.text(middle, y, str(numbers[k]), ha="center", va="center", fontsize=6, clip_on=True)
    step = math.ceil(len(rows) / _LABELLED) if rows else 1
    labels = [f"{timeline.lanes[place].owner} {timeline.lanes[place].stream}" for place in rows]
    ax.set_yticks(range(0, len(rows), step), labels[::step], fontsize="small")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, timeline.finish if timeline.finish > 0 else 1)
    ax.set_xlabel(f"time ({timeline.unit})")
    ax.set_title(timeline.name)
    handles = [Patch(facecolor=SORTS[place].colour, label=SORTS[place].name) for place in sorted(occurring)]
    if handles:
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    return ax


def draw_memory(timeline: Timeline, ax: Axes) -> None:
    """Draw what each device holds over time (GiB), and as dashed lines the limits there are."""
    for number, (device, curve) in enumerate(zip(timeline.devices, timeline.memory, strict=True)):
        total = curve.total / GIB
        times = np.append(curve.times, max(timeline.finish, *curve.times[-1:], 0.0))
        ax.step(times, np.append(total, total[-1:]), where="post", color=f"C{number % 10}", linewidth=1.0, label=device)
    for limit in sorted({curve.limit for curve in timeline.memory if curve.limit is not None}):
        if math.isfinite(limit):
            label = f"limit {format_bytes(limit)}"
            ax.axhline(limit / GIB, color="0.4", linestyle="--", linewidth=1.0, label=label)
    ax.set_xlim(0, timeline.finish if timeline.finish > 0 else 1)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"time ({timeline.unit})")
    ax.set_ylabel("memory (GiB)")
    if len(timeline.devices) <= _NAMED:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")


def _figure(timeline: Timeline, memory: bool) -> Figure:
    """Of the rows, and below them of the memory if that is known and asked for."""
    from matplotlib.figure import Figure

    heights = (_height(timeline), *([2.6] if memory and timeline.memory else []))
    figure = Figure(figsize=(_WIDTH, sum(heights)), dpi=_DPI, layout="constrained")
    above, *below = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    draw_gantt(timeline, above)
    for ax in below:
        above.set_xlabel("")
        draw_memory(timeline, ax)
    return figure


def check_picture(path: str | Path) -> None:
    """Refuse what ``write_gantt`` cannot write, before there is anything to draw; it raises the same."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{path}: a picture of a time line ends in {' or '.join(ENDINGS)}, not {ending or 'nothing'}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot")


def write_gantt(path: str | Path, timeline: Timeline, *, memory: bool = True) -> None:
    """Draw a time line into a PNG, SVG or HTML file, by its ending, atomically; equal time lines give equal bytes.

    HTML is a page that holds the SVG.

    Parameters
    ----------
    path
        Of the file.
    timeline
        The axis is in its unit, memory in GiB.
    memory
        Whether a second panel shows what the devices hold, where the time line knows it.

    Raises
    ------
    InputError
        If the ending is none of these, or the file cannot be written.
    MissingExtraError
        If matplotlib is not installed.
    """
    check_picture(path)
    from matplotlib import rc_context

    ending = Path(path).suffix.lower()
    form = "png" if ending == ".png" else "svg"
    buffer = io.BytesIO()
    # The names of parts of an SVG are random unless they are salted, for which there is no argument; as text, labels
    # can be searched.
    with rc_context({"svg.hashsalt": "partita", "svg.fonttype": "none"}):
        metadata = {"Date": None} if form == "svg" else None
        _figure(timeline, memory).savefig(buffer, format=form, dpi=_DPI, metadata=metadata)
    drawn = buffer.getvalue()
    if ending == ".html":
        # An SVG inside a page has no declaration of its own.
        title, inside = html.escape(timeline.name), drawn[drawn.index(b"<svg") :].decode()
        head = f"<head><meta charset='utf-8'><title>{title}</title></head>"
        drawn = f"<!doctype html>\n<html>{head}\n<body>\n{inside}</body></html>\n".encode()
    write_atomic(path, drawn)
