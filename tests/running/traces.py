"""Trace files read back, with errors that say what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from partita.documents.document import decode, read_bytes
from partita.ground.errors import FormatError
from partita.simulator.trace_file import TRACE_VERSION


class TracePoint(NamedTuple):
    """An end of a flow: process, thread, and when (µs)."""

    process: str
    thread: str
    time: float


class TraceSlice(NamedTuple):
    """A complete event of a file; times in µs, numbers −1 where it has none."""

    process: str
    thread: str
    name: str
    sort: str
    start: float
    duration: float
    stage: int
    microbatch: int


@dataclass(frozen=True)
class Trace:
    """What a file holds."""

    #: Of the time line that was written; times here are µs.
    name: str
    unit: str
    slices: list[TraceSlice]  #: In the file's order.
    flows: list[tuple[TracePoint, TracePoint]]  #: Where each starts and ends.
    #: By process, the instants at which what it holds changes (µs) with the parts held from then on (bytes).
    memory: dict[str, list[tuple[float, dict[str, float]]]]


class _Event(msgspec.Struct, gc=False):
    ph: str
    name: str
    pid: int
    tid: int
    ts: float = 0.0
    dur: float = -1.0
    cat: str = ""
    id: int = -1
    args: dict[str, str | int | float] = {}


class _Other(msgspec.Struct):
    name: str
    unit: str
    version: int


class _File(msgspec.Struct):
    traceEvents: list[_Event]
    otherData: _Other


def read_trace(path: str | Path) -> Trace:
    """Read a file that ``write_trace`` made, or another program in the same form.

    Raises ``InputError`` if the file cannot be read; ``FormatError`` if it is no JSON, not of this form or version, has
    a phase other than ``M``, ``X``, ``s``, ``f`` and ``C``, a slice without duration, a process or thread without name,
    or a flow without one of its ends.
    """
    file = decode(read_bytes(path), _File, path)
    if file.otherData.version != TRACE_VERSION:
        raise FormatError(f"{path}: version {file.otherData.version} is not known here; it reads {TRACE_VERSION}")
    named = {
        (event.name, event.pid, event.tid if event.name == "thread_name" else 0): str(event.args.get("name", ""))
        for event in file.traceEvents
        if event.ph == "M"
    }
    trace = Trace(file.otherData.name, file.otherData.unit, [], [], {})
    ends: dict[str, dict[int, TracePoint]] = {"s": {}, "f": {}}
    for number, event in enumerate(file.traceEvents):
        if event.ph == "M":
            continue
        process = named.get(("process_name", event.pid, 0), "")
        thread = named.get(("thread_name", event.pid, event.tid), "")
        if not process or not (thread or event.ph == "C"):
            raise FormatError(f"{path}: event {number} is on a process or thread without name")
        if event.ph == "X":
            if not event.dur >= 0:
                raise FormatError(f"{path}: event {number} is a slice without duration")
            stage, microbatch = (int(event.args.get(key, -1)) for key in ("stage", "microbatch"))
            trace.slices.append(
                TraceSlice(process, thread, event.name, event.cat, event.ts, event.dur, stage, microbatch)
            )
        elif event.ph in ends:
            ends[event.ph][event.id] = TracePoint(process, thread, event.ts)
        elif event.ph == "C":
            parts = {key: float(value) for key, value in event.args.items()}
            trace.memory.setdefault(process, []).append((event.ts, parts))
        else:
            raise FormatError(f"{path}: event {number} has phase {event.ph!r}, which is not known here")
    if ends["s"].keys() != ends["f"].keys():
        raise FormatError(f"{path}: flow {min(ends['s'].keys() ^ ends['f'].keys())} has one end only")
    trace.flows.extend((first, ends["f"][number]) for number, first in ends["s"].items())
    return trace
