"""Time lines in pages: what is packed is what was simulated, and is small however long it is."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples
from instances.timelines import two_devices
from partita.conductor.simulate import simulate_plan
from partita.report.pages import page
from partita.report.pages.packed import planes
from partita.report.pages.timeline import timeline_document
from partita.simulator.document import simulation_document
from partita.simulator.timeline import SORTS
from report.large import pipeline

#: What a page may take.
LARGEST = 10_000_000


def unpacked(document: dict[str, Any]) -> list[npt.NDArray[np.int64]]:
    """As the page's program does it: start, end, sort, stage, microbatch, name, critical."""
    data = np.frombuffer(zlib.decompress(base64.b64decode(document["packed"])), dtype=np.uint8)
    count = document["count"]
    columns = [
        np.ascontiguousarray(part.reshape(4, count).T).view("<i4").reshape(-1).astype(np.int64)
        for part in data.reshape(7, 4 * count)
    ]
    start, end, sort, stage, microbatch, *_ = columns
    first = 0
    for lane in document["lanes"]:
        reached, last = 0, {place: [0, 0] for place in range(len(document["sorts"]))}
        for i in range(first, first + lane["count"]):
            start[i] += reached
            end[i] += start[i]
            reached = end[i]
            now = last[int(sort[i])]
            now[0] += stage[i]
            now[1] += microbatch[i]
            stage[i], microbatch[i] = now
        first += lane["count"]
    return columns


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
@examples(40)
def test_planes_are_the_numbers(values: list[int]) -> None:
    found = np.frombuffer(planes(np.array(values, dtype=np.int64)), dtype=np.uint8).reshape(4, -1)
    whole = np.ascontiguousarray(found.T).view("<i4").reshape(-1)
    assert whole.tolist() == values


def test_what_is_packed_is_the_time_line() -> None:
    """Of slices with and without stages and microbatches, on lanes that are shared and that are not."""
    line = two_devices()
    document = timeline_document(line, [0, 2])
    start, end, sort, stage, microbatch, name, critical = unpacked(document)
    order = np.lexsort((line.end, line.start, line.lane))
    scale = line.finish / document["ticks"]
    assert start * scale == pytest.approx(line.start[order], abs=scale)
    assert end * scale == pytest.approx(line.end[order], abs=scale)
    assert sort.tolist() == line.sort[order].tolist()
    assert stage.tolist() == line.stage[order].tolist()
    assert microbatch.tolist() == line.microbatch[order].tolist()
    assert set(np.flatnonzero(critical).tolist()) == {order.tolist().index(0), order.tolist().index(2)}
    assert [document["names"][k] for k in name] == ([line.names[k] for k in order] if line.names else [""] * line.count)
    assert [entry["name"] for entry in document["sorts"]] == [entry.name for entry in SORTS]
    assert [entry["count"] for entry in document["sorts"]] == np.bincount(line.sort, minlength=len(SORTS)).tolist()


def test_a_simulated_pipeline_is_packed_to_the_tick() -> None:
    run = simulate_plan(*pipeline(6, 9)).simulation
    document = timeline_document(run.timeline, run.critical())
    start, end, sort, stage, microbatch, _, critical = unpacked(document)
    order = np.lexsort((run.timeline.end, run.timeline.start, run.timeline.lane))
    scale = run.timeline.finish / document["ticks"]
    assert np.abs(start * scale - run.timeline.start[order]).max() <= scale
    assert np.abs(end * scale - run.timeline.end[order]).max() <= scale
    for found, value in ((sort, run.timeline.sort), (stage, run.timeline.stage), (microbatch, run.timeline.microbatch)):
        assert found.tolist() == value[order].tolist()
    assert critical.sum() == len(run.critical())


def test_512_devices_and_512_microbatches_take_less_than_ten_megabytes() -> None:
    pytest.importorskip("plotly", reason="plotly is not installed (extra report)")
    run = simulate_plan(*pipeline(512, 512), microbatches=512).simulation
    line = timeline_document(run.timeline, run.critical())
    text = page({**simulation_document(run), "time_line": line})
    assert len(text.encode()) < LARGEST
    assert line["count"] > 1_500_000
    assert line["packed"] in text
