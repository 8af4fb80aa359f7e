"""Trace files: what the Trace Event Format asks of them, checked from the JSON alone, and what they say of slices."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances.timelines import Slice, crowded, timeline, two_devices
from partita.ground.errors import FormatError, InputError
from partita.simulator.timeline import COPY_IN, FORWARD, TRANSFER, Lane, Timeline
from partita.simulator.trace_file import trace_document, write_trace
from running.traces import read_trace

#: Keys an event must have, by its phase, and those it may have besides.
REQUIRED = {
    "M": {"ph", "name", "pid", "tid", "args"},
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "s": {"ph", "name", "cat", "pid", "tid", "ts", "id"},
    "f": {"ph", "name", "cat", "pid", "tid", "ts", "id", "bp"},
    "C": {"ph", "name", "pid", "ts", "args"},
}
OPTIONAL = {"X": {"cname"}, "C": {"tid"}}
METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}

Event = dict[str, Any]


def written(path: Path, value: Timeline) -> dict[str, Any]:
    """The document that is in the file."""
    write_trace(path, value)
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def of_phase(document: dict[str, Any], phase: str) -> list[Event]:
    """The events of a phase, in the file's order."""
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def nanoseconds(value: float) -> int:
    """As Perfetto reads a time."""
    return round(value * 1000)


def check(document: dict[str, Any]) -> None:
    """What the format asks, and what viewers need beyond it."""
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    for event in document["traceEvents"]:
        keys = set(event)
        assert REQUIRED[event["ph"]] <= keys <= REQUIRED[event["ph"]] | OPTIONAL.get(event["ph"], set())
        assert type(event["pid"]) is int
        assert event["pid"] > 0
        assert type(event["name"]) is str
        assert event["name"]
        if event["ph"] == "M":
            key, kind = METADATA[event["name"]]
            assert set(event["args"]) == {key}
            assert type(event["args"][key]) is kind
            continue
        assert type(event["ts"]) in (int, float)
        assert event["ts"] >= 0
    check_names(document)
    check_nesting(document)
    check_flows(document)
    for event in of_phase(document, "C"):
        assert event["args"]
        assert all(type(value) in (int, float) for value in event["args"].values())


def check_names(document: dict[str, Any]) -> None:
    """Every process and thread that is used is named once and has a place; no thread is in two processes."""
    said = [(event["name"], event["pid"], event["tid"]) for event in of_phase(document, "M")]
    processes = [(what, pid) for what, pid, _ in said if what.startswith("process")]
    threads = [(what, tid) for what, _, tid in said if what.startswith("thread")]
    assert len(set(processes)) == len(processes)
    assert len(set(threads)) == len(threads)
    # Viewers take a thread with the number of a process for the main one.
    assert not {tid for _, tid in threads} & {pid for _, pid in processes}
    for event in document["traceEvents"]:
        assert {("process_name", event["pid"]), ("process_sort_index", event["pid"])} <= set(processes)
        if event["ph"] in "XsfC":
            for what in ("thread_name", "thread_sort_index"):
                assert (what, event["pid"], event["tid"]) in said


def check_nesting(document: dict[str, Any]) -> None:
    """Two slices on a thread do not overlap, or one lies within the other."""
    threads: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in of_phase(document, "X"):
        assert event["dur"] >= 0
        start = nanoseconds(event["ts"])
        threads[event["pid"], event["tid"]].append((start, start + nanoseconds(event["dur"])))
    for spans in threads.values():
        open_ends: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def check_flows(document: dict[str, Any]) -> None:
    """Every flow has one start and one end, and each comes in the file right after a slice that is then running."""
    ends: dict[str, list[Any]] = {"s": [], "f": []}
    top: dict[tuple[int, int], Event] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            top[event["pid"], event["tid"]] = event
        if event["ph"] in ends:
            slice = top[event["pid"], event["tid"]]
            assert slice["ts"] <= event["ts"] <= slice["ts"] + slice["dur"]
            ends[event["ph"]].append((event["cat"], event["name"], event["id"]))
            if event["ph"] == "f":
                assert event["bp"] == "e"
                assert ends["f"][-1] in ends["s"], "a flow ends before it starts"
    assert sorted(ends["s"]) == sorted(ends["f"])
    assert len(set(ends["s"])) == len(ends["s"])


def labelled(document: dict[str, Any]) -> dict[tuple[int, int], tuple[str, str]]:
    """The names of process and thread, by their numbers."""
    names = {}
    processes = {}
    for event in of_phase(document, "M"):
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    return {(pid, tid): (processes[pid], name) for (pid, tid), name in names.items()}


def test_a_pipeline_as_a_trace(tmp_path: Path) -> None:
    """Every slice is there once, on the thread of its lane, with its times in µs."""
    value = two_devices("ms")
    document = written(tmp_path / "trace.json", value)
    check(document)
    assert document["otherData"] == {"name": "two stages", "unit": "ms", "version": 1}
    where = labelled(document)
    assert sorted(where.values()) == [
        ("between devices", "machine 0 link"),
        ("gpu0", "compute"),
        ("gpu0", "copy"),
        ("gpu1", "compute"),
    ]
    lanes = [("gpu0", "compute"), ("gpu0", "copy"), ("gpu1", "compute"), ("between devices", "machine 0 link")]
    expected = [
        (*lanes[value.lane[k]], value.label(k), value.start[k] * 1e3, (value.end[k] - value.start[k]) * 1e3)
        for k in range(value.count)
    ]
    slices = of_phase(document, "X")
    found = [(*where[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in slices]
    assert sorted(found) == sorted(expected)
    assert slices[0]["cat"] == "forward"
    assert slices[0]["args"] == {"stage": 0, "microbatch": 0}
    (update,) = [event for event in slices if event["name"] == "update, stage 0"]
    assert update["args"] == {"stage": 0}


def test_processes_and_threads_are_in_the_order_of_the_lanes(tmp_path: Path) -> None:
    document = written(tmp_path / "trace.json", two_devices())
    order = {e["args"]["sort_index"]: e["pid"] for e in of_phase(document, "M") if e["name"] == "process_sort_index"}
    names = {e["pid"]: e["args"]["name"] for e in of_phase(document, "M") if e["name"] == "process_name"}
    assert [names[order[index]] for index in sorted(order)] == ["gpu0", "gpu1", "between devices"]
    order = {e["args"]["sort_index"]: e["tid"] for e in of_phase(document, "M") if e["name"] == "thread_sort_index"}
    names = {e["tid"]: e["args"]["name"] for e in of_phase(document, "M") if e["name"] == "thread_name"}
    assert [names[order[index]] for index in sorted(order)] == ["compute", "copy", "compute", "machine 0 link"]


def test_flows_join_the_slices_they_name(tmp_path: Path) -> None:
    value = two_devices()
    document = written(tmp_path / "trace.json", value)
    points: dict[int, dict[str, tuple[str, str, float]]] = defaultdict(dict)
    where = labelled(document)
    for phase in "sf":
        for event in of_phase(document, phase):
            points[event["id"]][phase] = (*where[event["pid"], event["tid"]], event["ts"])
    found = {(ends["s"], ends["f"]) for ends in points.values()}
    lanes = [("gpu0", "compute"), ("gpu0", "copy"), ("gpu1", "compute"), ("between devices", "machine 0 link")]

    def point(place: int) -> tuple[str, str, float]:
        return (*lanes[value.lane[place]], value.start[place] * 1e6)

    assert found == {(point(first), point(second)) for first, second in value.flows.tolist()}


def test_a_flow_out_of_what_takes_no_time_starts_before_it_ends(tmp_path: Path) -> None:
    """Both ends are at one instant, and what reads was built first."""
    lanes = [Lane(0, "gpu0", "compute"), Lane(0, "gpu0", "copy")]
    slices = [Slice(0, FORWARD, 1.0, 2.0), Slice(1, COPY_IN, 1.0, 1.0)]
    check(written(tmp_path / "trace.json", timeline(slices, lanes, flows=[(1, 0)])))


def test_counters_add_up_to_the_curves(tmp_path: Path) -> None:
    value = two_devices()
    document = written(tmp_path / "trace.json", value)
    names = {e["pid"]: e["args"]["name"] for e in of_phase(document, "M") if e["name"] == "process_name"}
    for device, curve in zip(value.devices, value.memory, strict=True):
        counters = [event for event in of_phase(document, "C") if names[event["pid"]] == device]
        assert [event["ts"] for event in counters] == (curve.times * 1e6).tolist()
        assert [sum(event["args"].values()) for event in counters] == curve.total.tolist()
        for name, values in curve.parts.items():
            assert [event["args"][name] for event in counters] == values.tolist()


def test_what_overlaps_is_spread_over_threads(tmp_path: Path) -> None:
    """Each slice on the lowest thread that is free; what takes no time is kept."""
    document = written(tmp_path / "trace.json", crowded())
    check(document)
    where = labelled(document)
    found = {}
    for event in of_phase(document, "X"):
        if event["cat"] == "transfer":
            found[event["args"]["microbatch"]] = (where[event["pid"], event["tid"]][1], event["dur"])
    link, second, third = "machine 0 link", "machine 0 link (2)", "machine 0 link (3)"
    assert found == {
        0: (link, 3e6),
        1: (second, 3e6),
        2: (third, 0.5e6),
        3: (third, 3.5e6),
        4: (link, 2e6),
        5: (link, 0),
        6: (link, 1e6),
        7: (link, 0),
        8: ("machine 1 link", 7e6),
    }


@pytest.mark.parametrize("seed", range(20))
def test_slices_that_meet_do_not_overlap_in_a_file(seed: int, tmp_path: Path) -> None:
    """However their times are rounded; one lane of slices back to back, one on which they overlap at random."""
    random = np.random.default_rng(seed)
    edges = np.concatenate(([0.0], np.cumsum(random.exponential(3e-9, 200))))
    slices = [Slice(0, FORWARD, *pair) for pair in pairwise(edges.tolist())]
    slices += [
        Slice(1, TRANSFER, start, start + length)
        for start, length in zip(random.random(100) * 1e-7, random.exponential(1e-8, 100), strict=True)
    ]
    lanes = [Lane(0, "gpu0", "compute"), Lane(-1, "machine 0", "link", shared=True)]
    document = written(tmp_path / "trace.json", timeline(slices, lanes))
    check(document)
    assert len(of_phase(document, "X")) == 300
    assert [name for _, name in labelled(document).values()].count("compute") == 1
    assert "compute (2)" not in [name for _, name in labelled(document).values()]


def test_equal_time_lines_give_equal_bytes(tmp_path: Path) -> None:
    for make in (two_devices, crowded):
        write_trace(tmp_path / "first.json", make())
        write_trace(tmp_path / "second.json", make())
        assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "second.json"]


@pytest.mark.parametrize(
    ("unit", "scale"), [("s", 1e6), ("ms", 1e3), ("us", 1), ("µs", 1), ("ns", 1e-3), ("tick", 1e6)]
)
def test_units(unit: str, scale: float) -> None:
    """Times of an unknown unit stand as seconds, and a note says so."""
    document = trace_document(two_devices(unit))
    (first,) = [event for event in of_phase(document, "X") if event["name"] == "forward 1, stage 1"]
    assert first["ts"] == pytest.approx(4.5 * scale, abs=1e-3)
    assert ("note" in document["otherData"]) == (unit == "tick")


def test_given_names_stand_before_made_ones() -> None:
    lanes = [Lane(0, "gpu0", "compute")]
    names = ["", "conv1", "conv2", ""]
    slices = [Slice(0, FORWARD, k, k + 1, 0, 0, name=name) for k, name in enumerate(names)]
    document = trace_document(timeline(slices, lanes))
    made = "forward 0, stage 0"
    assert [event["name"] for event in of_phase(document, "X")] == [made, "conv1", "conv2", made]


def test_nothing_runs(tmp_path: Path) -> None:
    document = written(tmp_path / "trace.json", timeline([], [Lane(0, "gpu0", "compute")]))
    check(document)
    assert of_phase(document, "X") == []


@pytest.mark.parametrize("end", [float("inf"), float("nan"), 1e8])
def test_times_that_have_no_nanoseconds_are_refused(end: float) -> None:
    with pytest.raises(InputError, match="by hand: a time is not finite, or too long"):
        trace_document(timeline([Slice(0, FORWARD, 0.0, end)], [Lane(0, "gpu0", "compute")]))


def test_a_file_is_read_back(tmp_path: Path) -> None:
    value = two_devices()
    write_trace(tmp_path / "trace.json", value)
    trace = read_trace(tmp_path / "trace.json")
    assert (trace.name, trace.unit) == (value.name, value.unit)
    assert len(trace.slices) == value.count
    (update,) = [slice for slice in trace.slices if slice.process == "gpu1" and slice.sort == "update"]
    assert update == ("gpu1", "compute", "update, stage 1", "update", 7.5e6, 0.5e6, 1, -1)
    starts = sorted((first.time, second.time) for first, second in trace.flows)
    assert starts == sorted((value.start[first] * 1e6, value.start[second] * 1e6) for first, second in value.flows)
    for device, curve in zip(value.devices, value.memory, strict=True):
        assert [sum(parts.values()) for _, parts in trace.memory[device]] == curve.total.tolist()


def _without(key: str) -> Any:
    return lambda document: document.pop(key)


def _event(phase: str, **changed: Any) -> Any:
    return lambda document: of_phase(document, phase)[0].update(changed)


def _forget(phase: str) -> Any:
    return lambda document: document["traceEvents"].remove(of_phase(document, phase)[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_without("traceEvents"), "traceEvents"),
        (_without("otherData"), "otherData"),
        (lambda document: document["otherData"].update(version=2), "version 2 is not known here"),
        (_event("X", ts="soon"), "ts"),
        (lambda document: of_phase(document, "X")[0].pop("dur"), "without duration"),
        (_event("X", ph="B"), "phase 'B'"),
        (_event("X", tid=99), "without name"),
        (_event("C", pid=99), "without name"),
        (_forget("s"), "has one end only"),
        (_forget("f"), "has one end only"),
    ],
)
def test_what_is_no_such_file_is_refused(spoil: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    document = written(path, two_devices())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=message):
        read_trace(path)


def test_files_that_are_no_json_or_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{")
    with pytest.raises(FormatError):
        read_trace(tmp_path / "trace.json")
    with pytest.raises(InputError, match="no such file"):
        read_trace(tmp_path / "other.json")
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(tmp_path / "none" / "trace.json", two_devices())
