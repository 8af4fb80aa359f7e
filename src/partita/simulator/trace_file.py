"""Time lines as files in the Trace Event Format of the Chromium project, which Perfetto and chrome://tracing show.

A device is a process, a lane a thread, and what belongs to no device sits in one process behind them. Times in a file
are microseconds rounded to whole nanoseconds: viewers round start and duration separately, and slices that only meet
would overlap there otherwise. Processes and threads count from 1, because viewers take thread 0 for an idle processor.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from partita.documents.document import write_atomic
from partita.engines.kernels.arrays import Longs
from partita.ground.errors import InputError
from partita.simulator.timeline import SORTS, Timeline

#: Of what partita keeps in ``otherData``.
TRACE_VERSION = 1

#: Nanoseconds in the units that are known; numbers in any other stand as seconds.
NANOSECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0}

#: Name of the process that holds what belongs to no device.
BETWEEN = "between devices"

#: Larger numbers of nanoseconds are not exact in a file.
_LONGEST = 2.0**53


def _lanes_spread(lane: Longs, start: Longs, end: Longs, lanes: int) -> tuple[Longs, list[int]]:
    """For each slice its row within its lane, so that none overlap on a row, and how many rows each lane needs."""
    row = np.zeros(len(lane), dtype=np.int64)
    rows = [1] * lanes
    order = np.lexsort((end, start, lane))
    by_lane = lane[order]
    # If no slice overlaps the next one then none overlaps any.
    crowded = (by_lane[1:] == by_lane[:-1]) & (start[order[1:]] < end[order[:-1]])
    for number in np.unique(by_lane[1:][crowded]).tolist():
        places = order[np.searchsorted(by_lane, number) : np.searchsorted(by_lane, number, side="right")]
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        taken = []
        for begins, ends in zip(start[places].tolist(), end[places].tolist(), strict=True):
            while busy and busy[0][0] <= begins:
                heapq.heappush(free, heapq.heappop(busy)[1])
            lowest = heapq.heappop(free) if free else len(busy)
            heapq.heappush(busy, (ends, lowest))
            taken.append(lowest)
        row[places] = taken
        rows[number] = max(taken) + 1
    return row, rows


def _metadata(timeline: Timeline, rows: list[int]) -> tuple[list[dict[str, Any]], list[int], list[int]]:
    """Events that name processes and threads, the process of each lane, and its first thread."""
    behind = len(timeline.devices) + 1
    process = [lane.device + 1 if lane.device >= 0 else behind for lane in timeline.lanes]
    thread = []
    following = behind + 1
    for count in rows:
        thread.append(following)
        following += count
    events: list[dict[str, Any]] = []

    def say(what: str, pid: int, tid: int, args: dict[str, Any]) -> None:
        events.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})

    names = [*timeline.devices, *([BETWEEN] if behind in process else [])]
    for pid, name in enumerate(names, start=1):
        # What is said of a process needs some thread; one of its own makes no further one appear.
        tid = thread[process.index(pid)] if pid in process else pid
        say("process_name", pid, tid, {"name": name})
        say("process_sort_index", pid, tid, {"sort_index": pid})
    for lane, pid, first, count in zip(timeline.lanes, process, thread, rows, strict=True):
        name = lane.stream if lane.device >= 0 else f"{lane.owner} {lane.stream}"
        for number in range(count):
            say("thread_name", pid, first + number, {"name": name if number == 0 else f"{name} ({number + 1})"})
            say("thread_sort_index", pid, first + number, {"sort_index": first + number})
    return events, process, thread


def _arrows(timeline: Timeline) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """By slice the numbers of the flows that leave it, and of those that reach it."""
    leave: dict[int, list[int]] = defaultdict(list)
    reach: dict[int, list[int]] = defaultdict(list)
    for number, (first, second) in enumerate(timeline.flows.reshape(-1, 2).tolist(), start=1):
        leave[first].append(number)
        reach[second].append(number)
    return leave, reach


def _counters(timeline: Timeline, scale: float, threads: dict[int, int]) -> list[dict[str, Any]]:
    """What each device holds, at each instant at which that changes; bytes. Nothing for one of no parts."""
    events: list[dict[str, Any]] = []
    for pid, curve in enumerate(timeline.memory, start=1):
        place = {"pid": pid, "tid": threads.get(pid, pid)}
        times = (np.rint(curve.times * scale) / 1e3).tolist()
        rows = zip(*(values.tolist() for values in curve.parts.values()), strict=True)
        for ts, row in zip(times, rows, strict=False):
            events.append(
                {"ph": "C", "name": "memory", **place, "ts": ts, "args": dict(zip(curve.parts, row, strict=True))}
            )
    return events


def trace_document(timeline: Timeline) -> dict[str, Any]:
    """A time line in the Trace Event Format (its JSON object form), by the Chromium project; Perfetto reads it.

    Slices are complete events (``X``) with the sort as category, and stage and microbatch as arguments where they have
    one; flows are pairs of ``s`` and ``f``; memory is one counter (``C``) a device, its parts in bytes. Slices that
    overlap on a lane are spread over further threads, each on the lowest that is free, named ``link (2)`` and so on.

    Parameters
    ----------
    timeline
        Its unit is ``s``, ``ms``, ``us``, ``µs`` or ``ns``; times in any other stand in the file as seconds, and
        ``otherData`` has a note that says so.

    Returns
    -------
    dict
        The document, the same for the same time line; ``ts`` and ``dur`` are microseconds, multiples of 0.001.

    Raises
    ------
    InputError
        If a time is not finite, or later than the format can say to the nanosecond (about 104 days).
    """
    scale = NANOSECONDS.get(timeline.unit, 1e9)
    if timeline.count and not (np.abs([timeline.start, timeline.end]) * scale < _LONGEST).all():
        raise InputError(f"{timeline.name}: a time is not finite, or too long for a trace of nanoseconds")
    start = np.rint(timeline.start * scale).astype(np.int64)
    end = np.rint(timeline.end * scale).astype(np.int64)
    row, rows = _lanes_spread(timeline.lane, start, end, len(timeline.lanes))
    events, process, thread = _metadata(timeline, rows)
    leave, reach = _arrows(timeline)

    # A flow belongs to the slice that is on top of its thread when it is read, so it stands right behind it, and what
    # makes something in no time before what reads it.
    order = np.lexsort((end, start))
    labels: dict[tuple[int, int, int], str] = {}
    lane = timeline.lane[order]
    columns = (
        order,
        np.array(process, dtype=np.int64)[lane],
        np.array(thread, dtype=np.int64)[lane] + row[order],
        start[order] / 1e3,
        (end - start)[order] / 1e3,
        timeline.sort[order],
        timeline.stage[order],
        timeline.microbatch[order],
    )
    for place, pid, tid, ts, dur, sort, stage, microbatch in zip(*(c.tolist() for c in columns), strict=True):
        key = (sort, stage, microbatch)
        name = timeline.names[place] if timeline.names else ""
        name = name or labels.get(key) or labels.setdefault(key, timeline.label(place))
        args = {what: number for what, number in (("stage", stage), ("microbatch", microbatch)) if number >= 0}
        cat = SORTS[sort].name
        events.append({"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})
        for phase, numbers in (("f", reach.get(place, ())), ("s", leave.get(place, ()))):
            for number in numbers:
                event = {"ph": phase, "name": "data", "cat": "flow", "id": number, "pid": pid, "tid": tid, "ts": ts}
                # Without it a flow would end at the next slice.
                events.append({**event, "bp": "e"} if phase == "f" else event)

    events += _counters(timeline, scale, dict(zip(reversed(process), reversed(thread), strict=True)))
    other: dict[str, Any] = {"name": timeline.name, "unit": timeline.unit, "version": TRACE_VERSION}
    if timeline.unit not in NANOSECONDS:
        other["note"] = f"times are in {timeline.unit}, which is no unit of time known here; they stand as seconds"
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}


def write_trace(path: str | Path, timeline: Timeline) -> None:
    """Write a time line as a file in the Trace Event Format, atomically; equal time lines give equal bytes.

    Raises ``InputError`` if the file cannot be written, or as ``trace_document``.
    """
    write_atomic(path, msgspec.json.encode(trace_document(timeline)) + b"\n")
