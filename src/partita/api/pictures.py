"""Time lines as files, by the ending of their path."""

from __future__ import annotations

from pathlib import Path

from partita.ground.errors import InputError
from partita.simulator.gantt_plot import ENDINGS, write_gantt
from partita.simulator.timeline import Timeline
from partita.simulator.trace_file import write_trace


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
