"""Depth and latency of throughput plans, by hand and against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples, plans
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.nodes import edges_of, nodes_of, virtual_stages
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from partita.problems.throughput.simulated import sample_latency


def chain(times: list[float], size: float, devices: int = 2) -> ThroughputProblem:
    """Operators in a row; every tensor takes ``size`` to move."""
    return ThroughputProblem(
        name="chain",
        kinds=(DeviceKind(name="gpu", count=devices),),
        operators=tuple(TimedOperator(id=i, times=(time,)) for i, time in enumerate(times)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=size) for i in range(len(times) - 1)),
    )


def split(*sets: tuple[int, ...], contiguity: str = "acyclic") -> Plan:
    """Set i on gpu:i."""
    stages = tuple(Stage(devices=(f"gpu:{i}",), kind="gpu", operators=ids) for i, ids in enumerate(sets))
    return Plan(stages=stages, contiguity=contiguity)  # type: ignore[arg-type]


def test_two_stages_in_a_row() -> None:
    """Times 2, 3, 4, transfers 1: loads 2 + 3 + 1 = 6 and 1 + 4 = 5; two rounds of 6, or 6 + 5 alone."""
    problem, plan = chain([2.0, 3.0, 4.0], 1.0), split((0, 1), (2,))
    found = sample_latency(problem, plan, evaluate(problem, plan))
    assert (found.stages, found.virtual_stages, found.depth) == (2, 2, 2)
    assert (found.period, found.latency, found.latency_alone) == (6.0, 12.0, 11.0)


def test_a_free_split_is_a_pipeline_of_virtual_stages() -> None:
    """0 and 2 on one device, 1 on the other: pieces {0}, {1}, {2}.

    Loads: device 0 pays tensor 0 out and tensor 1 in, 2 + 4 + 1 + 1 = 8; device 1 has 3 + 1 + 1 = 5. Three rounds of 8;
    alone 3 + 5 + 5 = 13.
    """
    problem, plan = chain([2.0, 3.0, 4.0], 1.0), split((0, 2), (1,), contiguity="free")
    found = sample_latency(problem, plan, evaluate(problem, plan))
    assert (found.stages, found.virtual_stages, found.depth) == (2, 3, 3)
    assert (found.period, found.latency, found.latency_alone) == (8.0, 24.0, 13.0)


def test_parallel_branches_do_not_add_to_the_depth() -> None:
    """0 feeds 1 and 2, each on a device of its own: three stages, two deep."""
    problem = chain([1.0, 1.0, 1.0], 0.0, devices=3).replace(
        tensors=(MovedTensor(producer=0, consumers=(1, 2), size=0.0),),
    )
    plan = split((0,), (1,), (2,))
    found = sample_latency(problem, plan, evaluate(problem, plan))
    assert (found.virtual_stages, found.depth, found.latency) == (3, 2, 2.0)


def test_pieces_that_wait_for_each_other_are_cut_again() -> None:
    """Edges 0 → 1 and 2 → 3 with {0, 3} and {1, 2} on the devices.

    By the formula each set is one piece, but {0, 3} would wait for {1, 2} and the other way round. Cut by device
    changes: 0 and 2 have none before them, 1 and 3 have one.
    """
    device = np.array([0, 1, 1, 0])
    stage = virtual_stages(device, 2, [(0, 1), (2, 3)])
    assert len(set(stage.tolist())) == 4
    assert stage[0] < stage[1]
    assert stage[2] < stage[3]


@pytest.mark.parametrize("real", [True, False], ids=["operator files", "layer files"])
def test_training_goes_there_and_back(real: bool) -> None:
    """Two layers on two devices, forward 1 and backward 2 each, no transfers: F0, F1 + B1, B0 are 2·2 − 1 pieces.

    Layer files have no edge from forward to backward, and their backward edge points the forward way.
    Loads are 3 and 3: three rounds of 3; alone 1 + (1 + 2) + 2 = 6.
    """
    tensors = [MovedTensor(producer=0, consumers=(1,), size=0.0)]
    tensors += (
        [MovedTensor(producer=1, consumers=(3,), size=0.0), MovedTensor(producer=3, consumers=(2,), size=0.0)]
        if real
        else [MovedTensor(producer=2, consumers=(3,), size=0.0)]
    )
    problem = ThroughputProblem(
        name="training",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=(
            TimedOperator(id=0, times=(1.0,), colocation=0),
            TimedOperator(id=1, times=(1.0,), colocation=1),
            TimedOperator(id=2, times=(2.0,), colocation=0, backward=True),
            TimedOperator(id=3, times=(2.0,), colocation=1, backward=True),
        ),
        tensors=tuple(tensors),
    )
    plan = split((0, 2), (1, 3))
    found = sample_latency(problem, plan, evaluate(problem, plan))
    assert (found.virtual_stages, found.depth, found.latency, found.latency_alone) == (3, 3, 9.0, 6.0)


def test_a_stage_of_replicas_keeps_a_sample_for_as_many_rounds() -> None:
    """Times 4 and 2 on two devices and one, nothing to move: period 2, and the sample stays 2 + 1 rounds."""
    problem = chain([4.0, 2.0], 0.0, devices=3).replace(max_replicas=2)
    plan = Plan(
        stages=(
            Stage(
                devices=(
                    "gpu:0",
                    "gpu:1",
                ),
                kind="gpu",
                operators=(0,),
                data_parallel=2,
            ),
            Stage(devices=("gpu:2",), kind="gpu", operators=(1,)),
        )
    )
    found = sample_latency(problem, plan, evaluate(problem, plan))
    assert (found.depth, found.period, found.latency, found.latency_alone) == (2, 2.0, 6.0, 6.0)


@examples(120)
@given(data=st.data())
def test_virtual_stages_are_ordered_and_their_loads_add_up(data: st.DataObject) -> None:
    """Every edge goes forward, pieces stay on one device, and a device's pieces carry exactly its load."""
    from instances.strategies import throughput_problems

    problem = data.draw(throughput_problems(unsupported=False))
    plan = data.draw(plans(problem))
    evaluation = evaluate(problem, plan)
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    device = np.array([stage_of[op.id] for op in problem.operators])
    edges = edges_of(problem)
    piece = virtual_stages(device, len(plan.stages), edges)
    assert all(piece[u] <= piece[v] for u, v in edges)
    nodes = nodes_of(problem, plan, device, piece, edges)
    loads = np.array(nodes.time) + np.array(nodes.incoming) + np.array(nodes.outgoing)
    for number, stage in enumerate(evaluation.stages):
        mine = sorted(set(piece[device == number].tolist()))
        assert all(set(device[piece == p].tolist()) == {number} for p in mine)
        assert loads[mine].sum() == pytest.approx(stage.compute + stage.communication)
    found = sample_latency(problem, plan, evaluation)
    assert found.depth <= found.virtual_stages
    assert found.latency_alone <= sum(loads) * (1 + 1e-9) + 1e-9
