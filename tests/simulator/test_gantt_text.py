"""Time lines as text: exact lines of small ones, and the share of each piece of time added up another way."""

from __future__ import annotations

import numpy as np
import pytest

from instances.timelines import Slice, crowded, timeline, two_devices
from partita.simulator.gantt_text import gantt_lines, main_sorts
from partita.simulator.timeline import BACKWARD, COPY_IN, FORWARD, SORTS, UPDATE, Lane, Timeline


def many(devices: int) -> Timeline:
    """Devices that each compute for one unit, one after the other."""
    lanes = [Lane(k, f"gpu{k}", "compute") for k in range(devices)]
    return timeline([Slice(k, FORWARD, k, k + 1) for k in range(devices)], lanes)


def test_a_pipeline() -> None:
    """A column stands for half a unit, or a quarter; a time that does not fit is not shown."""
    assert gantt_lines(two_devices("ms"), width=28) == [
        "gpu0 |FFFF······BBBB··BBBBU|",
        "gpu1 |···FFBBBBFFBBBBU·····|",
        "      0 ms          10.5 ms",
        "      F forward  B backward  U update  · idle",
    ]
    assert gantt_lines(two_devices("ms"), width=49) == [
        "gpu0 |FFFFFFFF············BBBBBBBB····BBBBBBBBUU|",
        "gpu1 |······FFFFBBBBBBBBFFFFBBBBBBBBUU··········|",
        "      0 ms             5.25 ms           10.5 ms",
        "      F forward  B backward  U update  · idle",
    ]


def test_streams() -> None:
    """A lane on which nothing runs is not shown, and what sort it would be neither."""
    assert gantt_lines(two_devices(), width=36, streams=True) == [
        "gpu0         |FFFF······BBBB··BBBBU|",
        "gpu1         |···FFBBBBFFBBBBU·····|",
        "machine 0 l… |··=·=····=·····=·····|",
        "              0 s    5.25 s  10.5 s",
        "              F forward  B backward  U update  = transfer  · idle",
    ]
    lanes = [Lane(0, "gpu0", "compute"), Lane(0, "gpu0", "in"), Lane(0, "gpu0", "out")]
    slices = [Slice(1, COPY_IN, 0.0, 1.0), Slice(0, FORWARD, 1.0, 3.0)]
    assert gantt_lines(timeline(slices, lanes), width=19, streams=True)[:2] == [
        "gpu0 |····FFFFFFFF|",
        "  in |<<<<········|",
    ]


def test_what_takes_most_of_a_column_shows() -> None:
    """Columns of 1: forward 0.6 and backward 0.4; together half of it; less than half; equal, so the first sort."""
    slices = [
        Slice(0, FORWARD, 0.0, 0.6),
        Slice(0, BACKWARD, 0.6, 1.0),
        Slice(0, FORWARD, 1.0, 1.2),
        Slice(0, BACKWARD, 1.5, 1.8),
        Slice(0, FORWARD, 2.0, 2.4),
        Slice(0, UPDATE, 3.0, 3.5),
        Slice(0, FORWARD, 3.5, 4.0),
        Slice(0, BACKWARD, 4.0, 10.0),
    ]
    lines = gantt_lines(timeline(slices, [Lane(0, "d", "compute")], unit="tick"), width=14)
    assert lines[0] == "d |FB·FBBBBBB|"
    assert lines[-1].strip() == "F forward  B backward  · idle"


def test_more_devices_than_rows() -> None:
    lines = gantt_lines(many(100), rows=4, width=100)
    assert [line.split(" |")[0] for line in lines[:5]] == ["gpu0 ", "gpu1 ", "… 96 more devices", "gpu98", "gpu99"]
    assert len(lines) == 7
    assert len(gantt_lines(many(64))) == 64 + 2
    lines = gantt_lines(many(65))
    assert len(lines) == 64 + 1 + 2
    assert lines[32] == "… 1 more devices"
    # What is left out does not put its letters into the legend.
    assert "· idle" in lines[-1]


def test_what_is_left_out_is_not_in_the_legend() -> None:
    lanes = [Lane(k, f"gpu{k}", "compute") for k in range(3)]
    slices = [Slice(0, FORWARD, 0, 1), Slice(1, BACKWARD, 0, 1), Slice(2, FORWARD, 0, 1)]
    assert gantt_lines(timeline(slices, lanes), rows=2)[-1].strip() == "F forward"


@pytest.mark.parametrize("width", [5, 20, 40, 100, 173])
def test_lines_are_as_wide_as_asked(width: int) -> None:
    """Or have ten columns of time."""
    for streams in (False, True):
        rows = [line for line in gantt_lines(two_devices(), width, streams=streams) if line.endswith("|")]
        assert len({len(row) for row in rows}) == 1
        columns = len(rows[0]) - rows[0].index("|") - 2
        assert len(rows[0]) == width or columns == 10


def test_nothing_takes_any_time() -> None:
    lanes = [Lane(0, "gpu0", "compute")]
    assert gantt_lines(timeline([], lanes)) == ["nothing takes any time"]
    assert gantt_lines(timeline([Slice(0, FORWARD, 0.0, 0.0)], lanes)) == ["nothing takes any time"]


@pytest.mark.parametrize("seed", range(10))
def test_shares_are_those_of_each_slice_in_each_piece(seed: int) -> None:
    """Added up one by one: two lanes, of which one counts to row 1 and the other to none, and a third to row 0."""
    random = np.random.default_rng(seed)
    lanes = [Lane(k, f"gpu{k}", "compute") for k in range(3)]
    slices = []
    for lane in range(3):
        edges = np.sort(random.random(60))
        slices += [
            Slice(lane, int(random.integers(4)), float(start), float(end))
            for start, end in zip(edges[::2], edges[1::2], strict=True)
        ]
    value = timeline(slices, lanes)
    columns = int(random.integers(1, 40))
    expected = np.full((2, columns), -1)
    for row, lane in ((0, 2), (1, 0)):
        for column in range(columns):
            low, high = (value.finish * edge / columns for edge in (column, column + 1))
            shares = [0.0] * len(SORTS)
            for slice in slices:
                if slice.lane == lane:
                    shares[slice.sort] += max(min(slice.end, high) - max(slice.start, low), 0.0)
            if sum(shares) >= (high - low) / 2:
                expected[row, column] = shares.index(max(shares))
    assert main_sorts(value, np.array([1, -1, 0]), 2, columns).tolist() == expected.tolist()


def test_a_crowded_link() -> None:
    assert gantt_lines(crowded(), width=31, streams=True)[1] == "machine 0… |==================|"
