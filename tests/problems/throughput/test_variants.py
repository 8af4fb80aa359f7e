"""Choosing variants: names, refusals, groups of equal size, rates of files, and plans with replicas in files."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import partita as pt
from partita.conductor.documents import result_document
from partita.documents.document import write_json
from partita.ground.errors import InputError
from partita.problems.throughput.descriptor import THROUGHPUT
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    ThroughputProblem,
    TimedOperator,
)
from partita.problems.throughput.variants import refuse_variants, reload_at, split_evenly, variants_of

CHAIN = ThroughputProblem(
    name="chain",
    unit="ms",
    kinds=(DeviceKind(name="gpu", count=5, sync_time_per_byte=0.5), DeviceKind(name="cpu", count=1, accelerator=False)),
    operators=tuple(
        TimedOperator(id=i, times=(time, None), memory_bytes=2.0) for i, time in enumerate((1.0, 8.0, 1.0))
    ),
    tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(2)),
)


def test_names_of_variants() -> None:
    assert variants_of(CHAIN) == ()
    assert variants_of(CHAIN.replace(schedule=MicrobatchSchedule(name="gpipe"))) == (), "inference has one phase"
    many = split_evenly(CHAIN.replace(communication="duplex", max_replicas=2, streaming=True), 2, 0.5)
    assert variants_of(many) == ("duplex", "replicas", "groups", "streaming")
    assert refuse_variants(many, ("duplex", "replicas", "groups", "streaming")) is None
    assert "streaming" in str(refuse_variants(many, ("duplex",)))


def test_groups_are_as_equal_as_possible() -> None:
    groups = split_evenly(CHAIN, 2, 0.25).groups
    assert [group.counts for group in groups] == [(3, 1), (2, 0)]
    assert {group.transfer_time_per_unit for group in groups} == {4.0}
    assert split_evenly(CHAIN, 1, 0.25).groups == ()
    with pytest.raises(InputError, match="each group needs a device"):
        split_evenly(CHAIN, 7, 0.25)


def test_groups_hold_every_device_once() -> None:
    group = LinkedGroup(name="left", counts=(2, 1), transfer_time_per_unit=1.0)
    with pytest.raises(InputError, match="the groups hold 2 devices of kind 'gpu', the kind has 5"):
        CHAIN.replace(groups=(group,))
    with pytest.raises(InputError, match="max_replicas is 0"):
        CHAIN.replace(max_replicas=0)


def test_reload_bandwidth_in_the_units_of_the_problem() -> None:
    assert reload_at(CHAIN, 1e6).kinds[0].reload_time_per_byte == 1e-3  # 1 µs per byte, in ms
    with pytest.raises(InputError, match="bytes per second mean nothing"):
        reload_at(CHAIN.replace(unit="steps"), 1e6)


def test_more_than_two_groups_are_refused() -> None:
    with pytest.raises(InputError, match="two groups of devices at most"):
        pt.solve(split_evenly(CHAIN, 3, 0.5))


def test_plans_with_replicas_make_the_round_trip(tmp_path: Path) -> None:
    problem = CHAIN.replace(max_replicas=3)
    result = pt.solve(problem)
    assert result.objective == pytest.approx(3 + 2 / 3)  # (8 + 1) / 3, and 2/3 of 2 bytes at 0.5
    document = result_document(result)
    counts = [device["replicas"] for device in document["plan"]["devices"]]
    assert counts == [1, 3, 1]
    assert [len(device["replica_devices"]) for device in document["plan"]["devices"]] == counts
    path = tmp_path / "r.json"
    write_json(path, document)
    plan = THROUGHPUT.files.read_plan(path, problem)
    assert plan == result.plan
    assert evaluate(problem, plan) == result.evaluation
    assert not evaluate(CHAIN, plan).feasible, "the plain problem has no replicas"


def test_problems_make_the_round_trip() -> None:
    problem = split_evenly(CHAIN.replace(communication="overlap", max_replicas=2, weight_sync_per_batch=True), 2, 0.5)
    assert msgspec.json.decode(msgspec.json.encode(problem), type=ThroughputProblem) == problem


def test_files_state_their_own_rate(tmp_path: Path) -> None:
    nodes = [{"id": i, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 1, "isBackwardNode": 0} for i in range(4)]
    edges = [
        {"sourceId": 0, "destId": 1, "cost": 2.0, "size": 4},
        {"sourceId": 1, "destId": 2, "cost": 3.0, "size": 2},
        {"sourceId": 2, "destId": 3, "cost": 1.0, "size": None},
    ]
    path = tmp_path / "p.json"
    document = {"maxSizePerFPGA": 10, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    path.write_text(json.dumps(document))
    accelerator, cpu = pt.read_problem(path, scale_communication=10.0).kinds
    assert accelerator.sync_time_per_byte == accelerator.reload_time_per_byte == 10.0  # median of 0.5 and 1.5
    assert cpu.sync_time_per_byte == cpu.reload_time_per_byte == 0.0
