"""Files are recognised by what is in them, and read as the problem they state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from cli.conftest import workload
from partita.ground.errors import FormatError, InputError, UnsupportedError
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.importers import ForeignFormat, detect_format, open_problem, stated_problem
from partita.problems.throughput.problem import DeviceKind, LinkedGroup, MovedTensor, ThroughputProblem, TimedOperator
from toy.registered import registered
from toy.samples import SIX
from toy.tasks import TASKS

NATIVE = ThroughputProblem(
    name="native",
    kinds=(
        DeviceKind(
            name="gpu",
            count=2,
            memory_bytes=64.0,
            transfer_time_per_unit=0.5,
            transfer_latency=2.0,
            sync_time_per_byte=3.0,
            reload_time_per_byte=4.0,
        ),
    ),
    operators=(TimedOperator(id=0, times=(1.0,)), TimedOperator(id=1, times=(2.0,))),
    tensors=(MovedTensor(producer=0, consumers=(1,), size=8.0),),
)
HYBRID = HybridProblem(
    name="hybrid",
    devices=2,
    bandwidth_bytes_per_unit=8.0,
    microbatches=3,
    layers=tuple(Layer(id=i, configurations={1: (Configuration(id="c", time=1.0),)}) for i in range(2)),
    edges=(Edge(source=0, target=1, bytes=2.0),),
)
PIPER: dict[str, Any] = {
    "maxDevices": 2,
    "maxMemoryPerDevice": 100.0,
    "bandwidth": 8.0,
    "mbsInBatch": 3,
    "nodes": [{"id": 0, "TMPCs": {"1": [{"id": "c", "timePerSample": 1.0}]}}],
    "edges": [],
}
COST_GRAPH = "node { name: 'a' compute_cost: 3 output_info { size: 5 } } node { id: 1 input_info { } compute_cost: 1 }"


def write(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "file.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.fixture(params=["dnn-partitioning", "piper", "cost-graph", "partita", "partita hybrid"])
def known(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, type]:
    """A file, its format, and what it states."""
    name: str = request.param
    if name == "dnn-partitioning":
        return write(tmp_path, workload()), name, ThroughputProblem
    if name == "piper":
        return write(tmp_path, PIPER), name, HybridProblem
    if name == "cost-graph":
        return write(tmp_path, COST_GRAPH), name, ThroughputProblem
    path = tmp_path / "file.json"
    problem = NATIVE if name == "partita" else HYBRID
    pt.write_problem(path, problem)
    return path, "partita", type(problem)


def test_formats_are_recognised(known: tuple[Path, str, type]) -> None:
    path, name, kind = known
    found = pt.read_problem(path)
    assert type(found) is kind
    assert detect_format(path.read_bytes(), path) == name
    opened, foreign = open_problem(path)
    assert (opened, "partita" if foreign is None else foreign.name) == (found, name)
    assert pt.read_problem(path, format=name) == found
    assert pt.read_problem(path, scale_communication=1.0) == found


def test_what_a_format_lacks(tmp_path: Path) -> None:
    """A workload gives transfer times, no bytes, so there are no peaks of memory."""
    _, foreign = open_problem(write(tmp_path, workload()))
    assert foreign is not None
    ((setting, reason),) = foreign.refusals.items()
    assert setting == ("working_memory", "peak")
    assert "transfer times instead of bytes" in reason
    _, other = open_problem(write(tmp_path, PIPER))
    assert other is not None
    assert not other.refusals


@pytest.mark.parametrize("key", ["maxFPGAs", "maxSizePerFPGA", "maxCPUs"])
def test_one_key_is_enough_for_a_workload(tmp_path: Path, key: str) -> None:
    """It is then asked for the others."""
    with pytest.raises(FormatError, match="missing key"):
        pt.read_problem(write(tmp_path, {key: 1}))


@pytest.mark.parametrize("key", ["devices", "flows"])
def test_one_key_is_enough_for_flows(tmp_path: Path, key: str) -> None:
    for problem in (None, "makespan"):
        with pytest.raises(FormatError, match="missing key"):
            pt.read_problem(write(tmp_path, {key: []}), problem=problem)


def test_a_workload_of_one_sample(tmp_path: Path) -> None:
    assert type(pt.read_problem(write(tmp_path, workload()), problem="latency")).kind == "latency"


@pytest.mark.parametrize("key", ["maxDevices", "maxMemoryPerDevice"])
def test_one_key_is_enough_for_a_hybrid_workload(tmp_path: Path, key: str) -> None:
    with pytest.raises(FormatError, match="missing key"):
        pt.read_problem(write(tmp_path, {key: 1}))


def test_another_format_than_the_file_has(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="missing key"):
        pt.read_problem(write(tmp_path, workload()), format="piper")
    with pytest.raises(FormatError, match="missing key"):
        pt.read_problem(write(tmp_path, PIPER), format="dnn-partitioning")
    with pytest.raises(FormatError, match="not protobuf text"):
        pt.read_problem(write(tmp_path, "@"), format="cost-graph")


def test_formats_that_are_not_known(tmp_path: Path) -> None:
    path = write(tmp_path, workload())
    with pytest.raises(InputError, match=r"there is no format 'onnx'; known are .*dnn-partitioning.*piper"):
        pt.read_problem(path, format="onnx")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"format": "partita.graph"}, r"file\.json: format 'partita\.graph' is not a problem .*partita plan"),
        ({"format": "partita.result"}, r"partita reads here; it is a result, and .* --problem-output"),
        ({"format": "partita.cluster"}, r"format 'partita\.cluster' is not a problem format partita reads here$"),
        (dict.fromkeys("gfedcba"), r"file\.json is not in a known format; its keys are a, b, c, d, e, f$"),
        ({}, "its keys are none"),
    ],
)
def test_files_of_no_known_format(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        pt.read_problem(write(tmp_path, document))


def test_problems_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="problem 'knapsack'"):
        pt.read_problem(write(tmp_path, workload()), problem="knapsack")


@pytest.mark.parametrize("document", [COST_GRAPH, workload()], ids=["cost-graph", "dnn-partitioning"])
def test_files_without_degrees_state_no_hybrid_problem(tmp_path: Path, document: Any) -> None:
    with pytest.raises(UnsupportedError, match="does not state a hybrid problem; it states the throughput "):
        pt.read_problem(write(tmp_path, document), problem="hybrid")


def test_piper_files_state_no_throughput_problem(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="does not state a throughput problem; it states the hybrid problem"):
        pt.read_problem(write(tmp_path, PIPER), problem="throughput")


def test_own_files_state_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    pt.write_problem(path, NATIVE)
    with pytest.raises(UnsupportedError, match="hybrid"):
        pt.read_problem(path, problem="hybrid")
    pt.write_problem(path, HYBRID)
    assert pt.read_problem(path, problem="hybrid") == HYBRID


def test_own_files_must_be_tagged(tmp_path: Path) -> None:
    """Without a known tag a file is held against the problem that is asked for, the first one if none is."""
    path = write(tmp_path, {"format": "partita.other", "version": 1})
    for problem, tag in ((None, "partita.problem"), ("throughput", "partita.problem"), ("hybrid", "partita.hybrid")):
        with pytest.raises(FormatError, match=f"format is 'partita.other', expected '{tag}'"):
            pt.read_problem(path, format="partita", problem=problem)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 2.0])
def test_factors_on_own_files(tmp_path: Path, factor: float) -> None:
    path = tmp_path / "file.json"
    pt.write_problem(path, NATIVE)
    found = pt.read_problem(path, scale_communication=factor)
    assert isinstance(found, ThroughputProblem)
    assert found.kinds[0].transfer_time_per_unit == 0.5 * factor
    assert stated_problem(path.read_bytes(), path) == NATIVE


def test_every_transfer_is_scaled(tmp_path: Path) -> None:
    """Times per unit, per byte and per transfer of a throughput problem times 3; the bandwidth of a hybrid one by 4."""
    path = tmp_path / "file.json"
    pt.write_problem(path, NATIVE)
    scaled = DeviceKind(
        name="gpu",
        count=2,
        memory_bytes=64.0,
        transfer_time_per_unit=1.5,
        transfer_latency=6.0,
        sync_time_per_byte=9.0,
        reload_time_per_byte=12.0,
    )
    assert pt.read_problem(path, scale_communication=3.0) == NATIVE.replace(kinds=(scaled,))
    pt.write_problem(path, HYBRID)
    found = pt.read_problem(path, scale_communication=4.0)
    assert isinstance(found, HybridProblem)
    assert found.bandwidth_bytes_per_unit == 2.0
    found = pt.read_problem(write(tmp_path, PIPER), scale_communication=4.0)
    assert isinstance(found, HybridProblem)
    assert found.bandwidth_bytes_per_unit == 2.0
    found = pt.read_problem(write(tmp_path, workload()), scale_communication=3.0)
    assert isinstance(found, ThroughputProblem)
    assert [tensor.size for tensor in found.tensors] == [3.0, 3.0]
    found = pt.read_problem(write(tmp_path, COST_GRAPH), scale_communication=0.25)
    assert isinstance(found, ThroughputProblem)
    assert found.kinds[0].transfer_time_per_unit == 0.25


def test_links_of_groups_are_scaled(tmp_path: Path) -> None:
    """A group's link is a transfer, too: 0.5 per unit and 2 per transfer, times 3."""
    groups = tuple(
        LinkedGroup(name=name, counts=(1,), transfer_time_per_unit=0.5, transfer_latency=2.0) for name in ("l", "r")
    )
    path = tmp_path / "file.json"
    pt.write_problem(path, NATIVE.replace(groups=groups))
    found = pt.read_problem(path, scale_communication=3.0)
    assert isinstance(found, ThroughputProblem)
    assert [(group.transfer_time_per_unit, group.transfer_latency) for group in found.groups] == [(1.5, 6.0)] * 2


def test_a_format_that_is_not_read_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (ForeignFormat("later", {}, keys=("tomorrow",)),)
    monkeypatch.setattr("partita.problems.importers.IMPORTERS", listed)
    with pytest.raises(UnsupportedError, match="a later file does not state such a problem; it is not read yet"):
        pt.read_problem(write(tmp_path, {"tomorrow": {}}))


def test_a_problem_without_communication_has_none_to_scale(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    with registered(TASKS):
        pt.write_problem(path, SIX)
        assert pt.read_problem(path, scale_communication=1.0) == SIX
        with pytest.raises(InputError, match="tasks problems have no communication to scale"):
            pt.read_problem(path, scale_communication=2.0)
