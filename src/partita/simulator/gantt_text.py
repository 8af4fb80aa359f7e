"""A time line as lines of text: a row for each device, a letter for what it does most of the time meanwhile."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.ground.rounding import TOLERANCE
from partita.ground.units import format_time
from partita.simulator.timeline import SORTS, Timeline

#: Stands where a lane mostly does nothing.
IDLE = "·"

#: Columns of time there are at least, however long the labels are.
_FEWEST = 10


def main_sorts(timeline: Timeline, row_of_lane: Longs, rows: int, columns: int) -> Longs:
    """What takes most of each of several equal pieces of the time from 0 to the finish, which is not 0.

    ``row_of_lane`` is for each lane the row to which it counts; −1 for none. The answer is (rows, columns) places of
    sorts among ``SORTS``, the first of equal ones; −1 where slices take less than half of the piece. Slices that
    overlap on a row count each.
    """
    row = row_of_lane[timeline.lane]
    chosen = np.flatnonzero((row >= 0) & (timeline.end > timeline.start))
    # In columns, as floats.
    start = timeline.start[chosen] / timeline.finish * columns
    end = timeline.end[chosen] / timeline.finish * columns
    first = np.minimum(start.astype(np.int64), columns - 1)
    last = np.minimum(end.astype(np.int64), columns - 1)
    base = (row[chosen] * len(SORTS) + timeline.sort[chosen]) * (columns + 1)
    size = rows * len(SORTS) * (columns + 1)
    # The first and the last column of each slice by what it takes of them, those between by where they begin and end.
    share = np.bincount(base + first, np.minimum(end, first + 1) - start, size)
    long = last > first
    share += np.bincount((base + last)[long], (end - last)[long], size)
    change = np.bincount((base + first + 1)[long], minlength=size) - np.bincount((base + last)[long], minlength=size)
    # Every slice ends before the column behind the last one, so nothing carries over to the next row.
    share = (share + np.cumsum(change)).reshape(rows, len(SORTS), columns + 1)[:, :, :columns]
    # Shares that differ by an error of rounding are equal.
    best = np.round(share, 9).argmax(axis=1)
    return np.where(share.sum(axis=1) >= 0.5 - TOLERANCE, best, -1)


def _shown(count: int, most: int) -> tuple[list[int], list[int]]:
    """The first and the last ones of several to be shown; nothing is left out if the second list is empty."""
    if count <= most:
        return list(range(count)), []
    return list(range((most + 1) // 2)), list(range(count - most // 2, count))


def _rows(timeline: Timeline, most: int, streams: bool) -> list[tuple[str, list[int] | None]]:
    """Labels of rows with the lanes that count to each; None in place of a list where rows are left out."""
    used = set(np.unique(timeline.lane).tolist())
    of_device: dict[int, list[int]] = {}
    for place, lane in enumerate(timeline.lanes):
        of_device.setdefault(lane.device, []).append(place)
    rows: list[tuple[str, list[int] | None]] = []

    def device(number: int) -> None:
        lanes = of_device.get(number, [])
        rows.append((timeline.devices[number], [k for k in lanes if timeline.lanes[k].stream == "compute"]))
        if streams:
            others = [k for k in lanes if timeline.lanes[k].stream != "compute" and k in used]
            rows.extend((f"  {timeline.lanes[k].stream}", [k]) for k in others)

    first, last = _shown(len(timeline.devices), most)
    for number in first:
        device(number)
    if last:
        rows.append((f"… {len(timeline.devices) - most} more devices", None))
    for number in last:
        device(number)
    if streams:
        links = [k for k in of_device.get(-1, []) if k in used]
        link_rows = [(f"{timeline.lanes[k].owner} {timeline.lanes[k].stream}", [k]) for k in links]
        first, last = _shown(len(links), most)
        rows.extend(link_rows[n] for n in first)
        if last:
            rows.append((f"… {len(links) - most} more links", None))
        rows.extend(link_rows[n] for n in last)
    return rows


def _axis(timeline: Timeline, columns: int) -> str:
    """The times at the start, in the middle and at the end of the columns, as far as they fit."""
    finish = timeline.finish
    start, middle, end = (format_time(time, timeline.unit) for time in (0.0, finish / 2, finish))
    line = start.ljust(columns - len(end)) + end
    place = (columns - len(middle)) // 2
    if len(start) < place and place + len(middle) < columns - len(end):
        line = line[:place] + middle + line[place + len(middle) :]
    return line


def gantt_lines(timeline: Timeline, width: int = 100, *, rows: int = 64, streams: bool = False) -> list[str]:
    """A time line in text: a row for each device, then the time axis and what the letters mean.

    A column stands for an equal piece of time and holds the letter of the sort that takes most of it, or ``·`` if
    slices take less than half of it: what is short beside a column may not show.

    Parameters
    ----------
    timeline
        Times are shown in its unit; seconds choose their own prefix.
    width
        Of the lines, in characters; longer only where fewer than ten columns of time would be left.
    rows
        Devices shown at most; of more the first and the last ones are, with a line between that counts the others. The
        same number holds for links.
    streams
        Whether the other lanes of devices, and those of links, are shown where anything runs on them.

    Returns
    -------
    list of str
        Lines without line ends.
    """
    if not timeline.finish > 0:
        return ["nothing takes any time"]
    table = _rows(timeline, max(rows, 1), streams)
    longest = max((len(label) for label, lanes in table if lanes is not None), default=0)
    margin = min(longest, max(width // 3, 4))
    columns = max(width - margin - 3, _FEWEST)
    row_of_lane = np.full(len(timeline.lanes), -1, dtype=np.int64)
    for number, (_, lanes) in enumerate(table):
        row_of_lane[lanes or []] = number
    codes = main_sorts(timeline, row_of_lane, len(table), columns)
    # Idle is −1, so it comes last.
    letters = np.array([sort.letter for sort in SORTS] + [IDLE])
    lines = []
    for (label, lanes), cells in zip(table, letters[codes], strict=True):
        short = label if len(label) <= margin else label[: margin - 1] + "…"
        lines.append(label if lanes is None else f"{short:<{margin}} |{''.join(cells)}|")
    shown = codes[[lanes is not None for _, lanes in table]]
    legend = [f"{sort.letter} {sort.name}" for place, sort in enumerate(SORTS) if (shown == place).any()]
    if (shown < 0).any():
        legend.append(f"{IDLE} idle")
    return [*lines, " " * (margin + 2) + _axis(timeline, columns), " " * (margin + 2) + "  ".join(legend)]
