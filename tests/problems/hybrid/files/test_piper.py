"""The piper format: every field of a workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.ground.errors import FormatError, InputError
from partita.problems.hybrid.files.piper import read_piper
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem


def workload(**changes: Any) -> dict[str, Any]:
    """Two layers; the second can be split over two devices."""
    full = {
        "id": "recompute",
        "timePerSample": 3.0,
        "parameterSize": 5.0,
        "memoryUsageA": 1.0,
        "memoryUsageB": 2.0,
        "syncTimeFw": {"4": 6.0},
        "syncTimeBw": {},
        "unknown": True,
    }
    fields = {
        "maxDevices": 3,
        "maxMemoryPerDevice": 90.0,
        "bandwidth": 10.0,
        "mbsInBatch": 6,
        "nodes": [
            {"id": 4, "TMPCs": {"1": [{"id": 0, "timePerSample": 2.0, "syncTimeBw": {"9": 7.0}}]}},
            {"id": 9, "name": "head", "TMPCs": {"1": [full], "2": [full, full | {"id": "plain"}]}},
        ],
        "edges": [{"sourceId": 4, "destId": 9, "communicationCost": 40.0}],
    }
    return fields | changes


def read(tmp_path: Path, scale: float = 1.0, drop: str = "", **changes: Any) -> HybridProblem:
    document = workload(**changes)
    document.pop(drop, None)
    path = tmp_path / "work.json"
    path.write_text(json.dumps(document))
    found = pt.read_problem(path, format="piper", scale_communication=scale)
    assert isinstance(found, HybridProblem)
    return found


def full(name: str) -> Configuration:
    return Configuration(
        id=name,
        time=3.0,
        weight_bytes=5.0,
        memory_per_microbatch_bytes=1.0,
        memory_bytes=2.0,
        sync_in_bytes={4: 6.0},
        sync_out_bytes={},
    )


def test_every_field(tmp_path: Path) -> None:
    assert read(tmp_path) == HybridProblem(
        name="work",
        devices=3,
        memory_bytes=90.0,
        bandwidth_bytes_per_unit=10.0,
        microbatches=6,
        layers=(
            Layer(id=4, configurations={1: (Configuration(id="0", time=2.0, sync_out_bytes={9: 7.0}),)}),
            Layer(id=9, name="head", configurations={1: (full("recompute"),), 2: (full("recompute"), full("plain"))}),
        ),
        edges=(Edge(source=4, target=9, bytes=40.0),),
    )


def test_transfers_are_as_they_stand() -> None:
    assert read_piper(json.dumps(workload()).encode(), "work.json").bandwidth_bytes_per_unit == 10.0


def test_transfers_are_scaled_by_the_bandwidth(tmp_path: Path) -> None:
    assert read(tmp_path, 4.0).bandwidth_bytes_per_unit == 2.5


def test_the_batch_size_has_two_names(tmp_path: Path) -> None:
    assert read(tmp_path, drop="mbsInBatch", maxBatchSize=8).microbatches == 8
    assert read(tmp_path, maxBatchSize=8).microbatches == 6
    with pytest.raises(FormatError, match=r"work\.json: missing key `mbsInBatch` \(or `maxBatchSize`\)"):
        read(tmp_path, drop="mbsInBatch")


def test_no_microbatches_is_a_number_not_a_gap(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="microbatches is 0"):
        read(tmp_path, mbsInBatch=0, maxBatchSize=8)


@pytest.mark.parametrize("key", ["maxDevices", "maxMemoryPerDevice", "bandwidth", "nodes", "edges"])
def test_keys_that_must_be_there(tmp_path: Path, key: str) -> None:
    with pytest.raises(FormatError, match=f"missing key `{key}`"):
        read(tmp_path, drop=key)


class TestUnits:
    """Milliseconds beside bytes per second are noticed: moving all tensors twice takes under 0.1 % of the work."""

    def test_the_note(self, tmp_path: Path) -> None:
        """2 · 40 bytes at 20000 take 0.004; the fastest ways take 2 + 3 = 5, so that is 0.0008."""
        (note,) = read(tmp_path, bandwidth=20000.0).notes
        assert note.startswith("moving every tensor takes 0.0008 of the compute time")
        assert "--scale-communication 1000" in note

    @pytest.mark.parametrize(("bandwidth", "noted"), [(16000.0, False), (16100.0, True), (15900.0, False)])
    def test_the_limit_is_a_thousandth(self, tmp_path: Path, bandwidth: float, noted: bool) -> None:
        """80 / 16000 is 0.005, exactly a thousandth of 5."""
        assert bool(read(tmp_path, bandwidth=bandwidth).notes) is noted

    def test_the_fastest_ways_count(self, tmp_path: Path) -> None:
        """With a slow way beside it the second layer still takes 3."""
        document = workload()
        document["nodes"][1]["TMPCs"]["2"][1]["timePerSample"] = 100.0
        assert not read(tmp_path, nodes=document["nodes"], bandwidth=15900.0).notes
        document["nodes"][1]["TMPCs"]["2"][1]["timePerSample"] = 1.0
        # 2 + 1 = 3: 80 bytes may take 0.003 at least, at 26667 or slower.
        assert not read(tmp_path, nodes=document["nodes"], bandwidth=26600.0).notes
        assert read(tmp_path, nodes=document["nodes"], bandwidth=26700.0).notes

    def test_after_scaling(self, tmp_path: Path) -> None:
        assert not read(tmp_path, 1000.0, bandwidth=20000.0).notes

    def test_nothing_to_move(self, tmp_path: Path) -> None:
        nodes = [{"id": 4, "TMPCs": {"1": [{"id": "c", "timePerSample": 2.0}]}}]
        assert read(tmp_path, nodes=nodes, edges=[]).notes == ()
