"""Plans on counted machines: as on the same machines with all links listed, and on as many as there are."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._large import MOST_BYTES, MOST_S, measured

import partita as pt
from conductor.test_place import machines_of, mesh_plan
from partita.conductor.place import place_staged, placement_document, placing_facet, staged_plan, uneven
from partita.nouns.pipeline import Plan
from partita.nouns.topology import topology
from partita.nouns.topology.counted import CountedLinks
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.step.layout import MeshLayout, equal_parts, uniform_plan
from partita.problems.hybrid.training import LayerState, Training
from partita.problems.mapping import instance


@pytest.mark.parametrize(("context", "expert"), [(1, 1), (2, 1), (1, 4), (8, 1)])
def test_a_plan_is_the_same_problem_on_listed_and_on_counted_machines(context: int, expert: int) -> None:
    for seed in range(3):
        problem, plan = mesh_plan(seed, context, expert)
        listed, counted = (placing_facet().placing(staged_plan(problem, plan), here) for here in machines_of(problem))
        assert counted.problem.machines
        assert not listed.problem.machines
        assert counted.problem.stages == listed.problem.stages
        assert counted.problem.transfers == listed.problem.transfers
        assert counted.problem.devices == listed.problem.devices
        matrix = np.array(listed.problem.bandwidth_bytes_per_s)
        np.fill_diagonal(matrix, np.inf)
        assert np.array_equal(CountedLinks(counted.problem.machines).matrix(), matrix)
        layout = listed.in_order()
        assert layout is not None
        assert layout == counted.in_order()
        assert listed.plan(layout) == counted.plan(layout)
        mapped = listed.plan(layout)
        assert pt.evaluate(counted.problem, mapped) == pt.evaluate(listed.problem, mapped)


def test_counted_and_listed_searches_agree_about_what_they_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        problem, plan = mesh_plan(seed)
        staged = staged_plan(problem, plan)
        listed, counted = machines_of(problem)
        one = place_staged(staged, listed, time_limit_s=2.0)
        with monkeypatch.context() as change:
            change.setattr(instance, "MAX_TOPOLOGY", 1)
            other = place_staged(staged, counted, time_limit_s=20.0)
        assert other.in_order is not None
        assert one.in_order is not None
        assert other.in_order.objective == one.in_order.objective
        assert other.in_order.step is not None
        assert other.chosen.step is not None
        assert other.chosen.step.time <= other.in_order.step.time
        for bound, found in ((one, other), (other, one)):
            assert bound.result.bound is not None
            assert bound.result.bound.value <= found.result.objective * (1 + 1e-9)


def large(devices: int, stages: int, tensor: int) -> tuple[HybridProblem, Plan]:
    """Like layers, a stage each, on machines of eight devices."""
    data = devices // (stages * tensor)
    state = LayerState(parameter_bytes=1e9, gradient_bytes=2e9, optimizer_bytes=1e9, update_time=0.01)
    way = Configuration(id="none", time=0.03, forward_time=0.01, memory_per_microbatch_bytes=1.0)
    layers = tuple(Layer(id=v, configurations={tensor: (way,)}, states={tensor: state}) for v in range(stages))
    problem = HybridProblem(
        name="large",
        unit="s",
        devices=devices,
        bandwidth_bytes_per_unit=400e9,
        microbatches=4 * stages * data,
        layers=layers,
        edges=tuple(Edge(source=v, target=v + 1, bytes=1e8) for v in range(stages - 1)),
        hierarchy=Hierarchy(devices_per_machine=8, machine_bandwidth_bytes_per_unit=360e9),
        training=Training(),
    )
    layout = MeshLayout(tensor=tensor, pipeline=stages, data=data, zero=1)
    parts = equal_parts(stages, list(range(stages)))
    return problem, uniform_plan(problem, list(layers), parts, dict.fromkeys(range(stages), "none"), layout)


@pytest.mark.parametrize("tensor", [1, 4, 8])
def test_thousands_of_devices_are_placed_with_a_bound_and_no_worse_than_in_order(tensor: int) -> None:
    problem, plan = large(4096, 8, tensor)
    where = topology("512x(8xH100-80GB):infiniband-ndr")
    assert isinstance(where.bandwidth_bytes_per_s, CountedLinks)
    assert uneven(where)
    found = place_staged(staged_plan(problem, plan), where)
    result = found.result
    assert result.evaluation == pt.evaluate(result.problem, result.plan)
    assert result.evaluation.feasible
    assert 0 < result.bound.value <= result.objective
    assert found.in_order is not None
    assert found.in_order.step is not None
    assert found.chosen.step is not None
    assert found.chosen.step.time <= found.in_order.step.time
    devices = [device for stage in found.chosen.layout for group in stage for device in group]
    assert sorted(devices) == list(range(4096))
    document = placement_document(found)
    assert sum(len(stage["replicas"]) for stage in document["stages"]) == 4096 // tensor
    assert "stages" not in document["in_order"]


@pytest.mark.slow
@pytest.mark.parametrize("row", ["dense-16384", "dense-131072"])
def test_a_hundred_thousand_devices_are_planned_in_two_minutes_and_four_gigabytes(row: str) -> None:
    found = measured(row)
    assert found["devices"] == int(row.rpartition("-")[2])
    assert found["gap"] <= 1e-6
    assert 0 <= found["busiest gap"] <= 1
    assert found["placed"] <= found["in order"]
    # What others do on the machine does not count.
    assert found["cpu"] <= MOST_S
    assert found["peak"] <= MOST_BYTES
