"""The dnn-partitioning format: every field of a workload, and splits there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.ground.errors import FormatError, InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems import find_kind
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.files.dnn_partitioning import read_throughput, split_document
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator


def node(identity: int, **changes: Any) -> dict[str, Any]:
    """A forward node of time 1 on the accelerator and 10 on the CPU."""
    fields = {"id": identity, "supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.0, "isBackwardNode": 0}
    return fields | changes


def edge(source: int, target: int, cost: float = 2.0, **changes: Any) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "cost": cost, **changes}


def workload(**changes: Any) -> dict[str, Any]:
    """Forward 1 → 2 and 1 → 4, backward 2 → 3."""
    fields = {
        "maxSizePerFPGA": 50.0,
        "maxFPGAs": 3,
        "maxCPUs": 2,
        "nodes": [
            node(1, name="in", size=7.0, colorClass=5),
            node(2, supportedOnFpga=False, fpgaLatency=4.0, layerId=3),
            node(4),
            node(3, isBackwardNode=True, colorClass=5),
        ],
        "edges": [edge(1, 4), edge(1, 2), edge(2, 3, 6.0)],
        "comment": "ignored",
    }
    return fields | changes


def write(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "work.json"
    path.write_text(json.dumps(document))
    return path


def read(tmp_path: Path, scale: float = 1.0, **changes: Any) -> ThroughputProblem:
    path = write(tmp_path, workload(**changes))
    found = pt.read_problem(path, format="dnn-partitioning", scale_communication=scale)
    assert isinstance(found, ThroughputProblem)
    return found


class TestWorkload:
    """What a workload says."""

    def test_every_field(self, tmp_path: Path) -> None:
        assert read(tmp_path) == ThroughputProblem(
            name="work",
            unit="ms",
            kinds=(
                DeviceKind(name="accelerator", count=3, memory_bytes=50.0),
                DeviceKind(name="cpu", count=2, accelerator=False, transfer_time_per_unit=0.0),
            ),
            operators=(
                TimedOperator(id=1, times=(1.0, 10.0), name="in", memory_bytes=7.0, colocation=5),
                TimedOperator(id=2, times=(None, 10.0)),
                TimedOperator(id=4, times=(1.0, 10.0)),
                TimedOperator(id=3, times=(1.0, 10.0), backward=True, colocation=5),
            ),
            tensors=(
                MovedTensor(producer=1, consumers=(2, 4), size=2.0),
                MovedTensor(producer=2, consumers=(3,), size=6.0),
            ),
        )

    def test_transfers_are_as_they_stand(self) -> None:
        found = read_throughput(json.dumps(workload()).encode(), "work.json")
        assert [tensor.size for tensor in found.tensors] == [2.0, 6.0]

    def test_transfers_are_scaled(self, tmp_path: Path) -> None:
        assert [tensor.size for tensor in read(tmp_path, 0.5).tensors] == [1.0, 3.0]
        assert [tensor.size for tensor in read(tmp_path, 0.0).tensors] == [0.0, 0.0]

    @pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
    def test_bad_scales(self, tmp_path: Path, scale: float) -> None:
        with pytest.raises(InputError, match=rf"^the communication scale is {scale}; it must be finite"):
            read(tmp_path, scale)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"nodes": [node(1), node(2), node(1)]}, "node id 1 appears twice; ids must be unique"),
            ({"nodes": [node(1, supportedOnFpga=2)]}, "node 1: supportedOnFpga is 2; it must be true, false, 0 or 1"),
            ({"nodes": [node(1, isBackwardNode=-1)]}, "node 1: isBackwardNode is -1; it must be"),
            ({"edges": [edge(1, 2), edge(8, 2)]}, r"edge 1 \(8 → 2\) names node 8, which does not exist"),
            ({"edges": [edge(2, 9)]}, r"edge 0 \(2 → 9\) names node 9, which does not exist"),
            ({"edges": [edge(2, 2)]}, r"edge 0 \(2 → 2\) is a cycle of one node"),
            ({"edges": [edge(1, 2, -0.5)]}, r"edge 0 \(1 → 2\): cost is -0.5; it must be finite"),
            ({"maxSizePerFPGA": -1.0}, "maxSizePerFPGA is -1.0; it must be finite"),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(FormatError, match=rf"work\.json: {message}"):
            read(tmp_path, **changes)

    def test_limits_of_numbers(self, tmp_path: Path) -> None:
        """Zero is a cost and a memory like others."""
        found = read(tmp_path, edges=[edge(1, 2, 0.0)], maxSizePerFPGA=0.0)
        assert found.tensors[0].size == 0.0
        assert found.kinds[0].memory_bytes == 0.0

    @pytest.mark.parametrize("unit", [1e-9, 0.1, 1e3, 1e9])
    def test_edges_out_of_a_node_carry_one_tensor(self, tmp_path: Path, unit: float) -> None:
        """Costs may differ by rounding, a millionth of the larger one, in any unit of time; the first is taken."""
        for other in (unit * (1 + 0.9e-6), unit * (1 - 0.9e-6)):
            found = read(tmp_path, edges=[edge(1, 2, unit), edge(1, 4, other)])
            assert [(tensor.consumers, tensor.size) for tensor in found.tensors] == [((2, 4), unit)]
        for other in (unit * (1 + 1.1e-6), unit * (1 - 1.1e-6), 0.0):
            with pytest.raises(FormatError, match=r"edge 1 \(1 → 4\): cost .* differs from .* of another edge out of"):
                read(tmp_path, edges=[edge(1, 2, unit), edge(1, 4, other)])

    def test_exactly_a_millionth_is_rounding(self, tmp_path: Path) -> None:
        assert read(tmp_path, edges=[edge(1, 2, 999999.0), edge(1, 4, 1e6)]).tensors[0].size == 999999.0

    def test_an_edge_twice_is_one_reader(self, tmp_path: Path) -> None:
        assert read(tmp_path, edges=[edge(1, 2), edge(1, 2)]).tensors[0].consumers == (2,)


class TestRate:
    """The file's own time per byte: the median of cost / size over forward edges that state both."""

    def test_the_median_of_forward_edges(self, tmp_path: Path) -> None:
        """2/4 = 0.5 and 3/2 = 1.5 count; the backward edge (8), a size of 0, a cost of 0 and text do not."""
        nodes = [node(i) for i in range(7)] + [node(7, isBackwardNode=1), node(8, isBackwardNode=1)]
        edges = [
            edge(0, 1, 2.0, size=4),
            edge(1, 2, 3.0, size=2.0),
            edge(2, 3, 5.0, size=0),
            edge(3, 4, 0.0, size=5),
            edge(4, 5, 1.0, size="large"),
            edge(5, 6, 1.0),
            edge(7, 8, 8.0, size=1),
        ]
        accelerator, cpu = read(tmp_path, 10.0, nodes=nodes, edges=edges).kinds
        assert (accelerator.sync_time_per_byte, accelerator.reload_time_per_byte) == (10.0, 10.0)
        assert (cpu.sync_time_per_byte, cpu.reload_time_per_byte) == (0.0, 0.0)

    def test_small_sizes_and_costs_count(self, tmp_path: Path) -> None:
        assert read(tmp_path, edges=[edge(1, 2, 0.5, size=0.25)]).kinds[0].sync_time_per_byte == 2.0

    def test_no_edge_states_both(self, tmp_path: Path) -> None:
        assert read(tmp_path).kinds[0].sync_time_per_byte == 0.0


class TestUnits:
    """Seconds beside milliseconds are noticed."""

    def test_transfers_far_below_the_work(self, tmp_path: Path) -> None:
        """1 of 2000 on accelerators (node 2 has no time there) is 0.05 %."""
        nodes = [node(1, fpgaLatency=1500.0), node(2, supportedOnFpga=0), node(4, fpgaLatency=500.0)]
        (note,) = read(tmp_path, nodes=nodes, edges=[edge(1, 2, 0.75), edge(2, 4, 0.25)]).notes
        assert note.startswith("all transfers together take 0.05% of the compute time")
        assert "--scale-communication 1000" in note

    @pytest.mark.parametrize(("cost", "noted"), [(2.0, False), (1.9, True), (0.0, False)])
    def test_the_limit_is_a_thousandth(self, tmp_path: Path, cost: float, noted: bool) -> None:
        nodes = [node(1, fpgaLatency=1500.0), node(2, fpgaLatency=500.0)]
        assert bool(read(tmp_path, nodes=nodes, edges=[edge(1, 2, cost)]).notes) is noted
        nodes.append(node(3, supportedOnFpga=0, fpgaLatency=5000.0))
        assert bool(read(tmp_path, nodes=nodes, edges=[edge(1, 2, cost)]).notes) is noted, "it takes no time there"


def split(tmp_path: Path, problem: ThroughputProblem, **fields: Any) -> Plan:
    path = tmp_path / "split.json"
    path.write_text(json.dumps(fields))
    found = find_kind("throughput").files.read_plan(path, problem)
    assert isinstance(found, Plan)
    return found


class TestReadingSplits:
    """Splits of the published format become plans."""

    def test_devices_in_their_order(self, tmp_path: Path) -> None:
        found = split(
            tmp_path,
            read(tmp_path),
            fpgas=[{"nodes": []}, {"nodes": [4], "load": 3.0}, {"nodes": [1, 3]}],
            cpus=[{"nodes": [2]}],
            maxLoad=9.0,
        )
        assert found == Plan(
            stages=(
                Stage(devices=("accelerator:0",), kind="accelerator", operators=(4,)),
                Stage(devices=("accelerator:1",), kind="accelerator", operators=(1, 3)),
                Stage(devices=("cpu:0",), kind="cpu", operators=(2,)),
            ),
            contiguity="free",
        )

    def test_backward_nodes_that_are_missing_go_with_their_class(self, tmp_path: Path) -> None:
        """3 is backward and of 1's class. 4 and 6 are not backward, 5 has no class, 7's class is nowhere."""
        nodes = [node(1, colorClass=5), node(2), node(3, isBackwardNode=1, colorClass=5), node(4, colorClass=5)]
        nodes += [node(5, isBackwardNode=1), node(6), node(7, isBackwardNode=1, colorClass=8)]
        found = split(tmp_path, read(tmp_path, nodes=nodes, edges=[]), fpgas=[{"nodes": [2]}, {"nodes": [1]}])
        assert [stage.operators for stage in found.stages] == [(2,), (1, 3)]

    def test_as_many_devices_as_there_are(self, tmp_path: Path) -> None:
        problem = read(tmp_path).replace(accelerators=1)
        assert len(split(tmp_path, problem, fpgas=[{"nodes": [1]}, {"nodes": []}], cpus=[{"nodes": [2]}]).stages) == 2
        with pytest.raises(InputError, match=r"split\.json: it uses 2 accelerators, problem 'work' has 1"):
            split(tmp_path, problem, fpgas=[{"nodes": [1]}, {"nodes": [4]}])
        with pytest.raises(InputError, match=r"split\.json: it uses 3 CPUs, problem 'work' has 2"):
            split(tmp_path, problem, fpgas=[], cpus=[{"nodes": [1]}, {"nodes": [4]}, {"nodes": [2]}])

    @pytest.mark.parametrize(
        ("fpgas", "message"),
        [
            ([{"nodes": [1, 8]}], "node 8 does not exist in problem 'work'"),
            ([{"nodes": [1]}, {"nodes": [4, 1]}], "node 1 is placed twice"),
            ([{"nodes": [1, 1]}], "node 1 is placed twice"),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, fpgas: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            split(tmp_path, read(tmp_path), fpgas=fpgas)

    def test_the_format_knows_one_kind(self, tmp_path: Path) -> None:
        kinds = read(tmp_path).kinds
        two = ThroughputProblem(
            name="two",
            kinds=(kinds[0], DeviceKind(name="other", count=1)),
            operators=(TimedOperator(id=1, times=(1.0, 1.0)),),
        )
        with pytest.raises(InputError, match="needs exactly one kind of accelerators, the problem has 2"):
            split(tmp_path, two, fpgas=[{"nodes": [1]}])
        with pytest.raises(InputError, match="needs exactly one kind of CPUs, the problem has 0"):
            split(tmp_path, two, fpgas=[], cpus=[{"nodes": [1]}])


class TestWritingSplits:
    """Plans become splits, one entry for each device."""

    def test_there_and_back(self, tmp_path: Path) -> None:
        problem = read(tmp_path)
        plan = Plan(
            stages=(
                Stage(devices=("cpu:0",), kind="cpu", operators=(2,)),
                Stage(devices=("accelerator:0",), kind="accelerator", operators=(1, 3)),
                Stage(devices=("accelerator:1",), kind="accelerator", operators=(4,)),
            ),
            contiguity="free",
        )
        document = split_document(problem, plan, evaluate(problem, plan))
        # {1, 3}: 1 + 1, tensor 1 out (2) and tensor 2 in (6); {4}: 1, tensor 1 in (2); the CPU pays no transfers.
        assert document == {
            "maxLoad": 10.0,
            "fpgas": [
                {"load": 10.0, "nodes": [1, 3]},
                {"load": 3.0, "nodes": [4]},
                {"load": 0.0, "nodes": []},
            ],
            "cpus": [{"load": 10.0, "nodes": [2]}, {"load": 0.0, "nodes": []}],
        }
        back = split(tmp_path, problem, **document)
        assert {stage.devices[0]: stage.operators for stage in back.stages} == {
            "cpu:0": (2,),
            "accelerator:0": (1, 3),
            "accelerator:1": (4,),
        }

    def test_a_problem_without_cpus(self) -> None:
        problem = ThroughputProblem(
            name="p", kinds=(DeviceKind(name="gpu", count=1),), operators=(TimedOperator(id=1, times=(4.0,)),)
        )
        plan = Plan(stages=(Stage(devices=("gpu:0",), kind="gpu", operators=(1,)),))
        document = split_document(problem, plan, evaluate(problem, plan))
        assert document == {"maxLoad": 4.0, "fpgas": [{"load": 4.0, "nodes": [1]}], "cpus": []}

    def test_what_the_format_cannot_say(self) -> None:
        kinds = (DeviceKind(name="a", count=2), DeviceKind(name="b", count=1))
        operators = (TimedOperator(id=1, times=(4.0, 4.0)),)
        problem = ThroughputProblem(name="p", kinds=kinds, operators=operators)
        plan = Plan(stages=(Stage(devices=("a:0",), kind="a", operators=(1,)),))
        with pytest.raises(InputError, match="knows one kind of fpgas; problem 'p' has 2"):
            split_document(problem, plan, evaluate(problem, plan))
        # A kind of no devices takes part in nothing.
        fewer = problem.replace(kinds=(kinds[0], DeviceKind(name="b", count=0)))
        assert split_document(fewer, plan, evaluate(fewer, plan))["maxLoad"] == 4.0

    def test_replicas(self) -> None:
        """One stage that has them is enough."""
        operators = (TimedOperator(id=1, times=(4.0,)), TimedOperator(id=2, times=(4.0,)))
        problem = ThroughputProblem(
            name="p", kinds=(DeviceKind(name="a", count=3),), operators=operators, max_replicas=2
        )
        shared = Plan(
            stages=(
                Stage(
                    devices=(
                        "a:0",
                        "a:1",
                    ),
                    kind="a",
                    operators=(1,),
                    data_parallel=2,
                ),
                Stage(devices=("a:2",), kind="a", operators=(2,)),
            )
        )
        with pytest.raises(InputError, match="knows no replicas"):
            split_document(problem, shared, evaluate(problem, shared))
