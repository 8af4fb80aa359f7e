"""Answers as pictures, drawn with matplotlib (extra ``plot``) without a display, and time lines as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from partita.documents.tables.text import new_figure
from partita.ground.errors import InputError
from partita.problems.facets.records import StageSummary
from partita.simulator.gantt_plot import ENDINGS, write_gantt
from partita.simulator.timeline import Timeline
from partita.simulator.trace_file import write_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows that have a label each.
_LABELLED = 64


def save_timeline(path: str | Path, timeline: Timeline) -> None:
    """Write a time line: ``.json`` is a trace for Perfetto, ``.png``, ``.svg`` and ``.html`` are pictures.

    Raises
    ------
    InputError
        If the ending is another one, or the file cannot be written.
    MissingExtraError
        For pictures without matplotlib.
    """
    ending = Path(path).suffix.lower()
    if ending == ".json":
        write_trace(path, timeline)
    elif ending in ENDINGS:
        write_gantt(path, timeline)
    else:
        raise InputError(
            f"{path}: a time line is written as .json (a trace) or as a picture ({', '.join(ENDINGS)}), not as "
            f"{ending or 'a file without an ending'}"
        )


def draw_stages(stages: Sequence[StageSummary], unit: str, ax: Axes | None = None) -> Axes:
    """A bar for each stage, the first at the top: work, and transfers with synchronisation behind it.

    Where a stage does both at once, the bar is longer than it is busy, and a line marks that.
    """
    if ax is None:
        ax = new_figure(9.0, min(max(0.32 * len(stages) + 1.4, 2.4), 40.0)).add_subplot()
    places = range(len(stages))
    compute = [stage.compute or 0.0 for stage in stages]
    moved = [stage.communication or 0.0 for stage in stages]
    ax.barh(places, compute, color="C0", label="compute")
    ax.barh(places, moved, left=compute, color="C1", label="communication")
    times = [stage.time or 0.0 for stage in stages]
    ax.plot(times, places, "k|", markersize=12, label="busy")
    step = -(-len(stages) // _LABELLED) if stages else 1
    labels = [f"{stage.number}: {stage.device}"[:40] for stage in stages]
    ax.set_yticks(list(places)[::step], labels[::step], fontsize="small")
    ax.set_ylim(len(stages) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set_xlabel(f"time ({unit})")
    ax.set_ylabel("stage")
    ax.legend(fontsize="small")
    return ax
