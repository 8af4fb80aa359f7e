"""Parmesan's partitioner: what clustering merges, and what moves of single operators may do."""

from __future__ import annotations

import random

import numpy as np
import pytest
import rustworkx

import partita as pt
from partita.problems.throughput.baselines.parmesan import StageMoves, reconverging_distance
from partita.problems.throughput.contraction.clustering import held_bytes, hyper_operators
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import MovedTensor, ThroughputProblem, TimedOperator


def problem_of(
    times: list[float], edges: list[tuple[int, int, float]], *, memory: float | None = None, devices: int = 2
) -> ThroughputProblem:
    """Inference over operators that each take one byte; edges with the times of their tensors."""
    return ThroughputProblem(
        name="graph",
        kinds=(DeviceKind(name="gpu", count=devices, memory_bytes=memory),),
        operators=tuple(TimedOperator(id=i, times=(t,), memory_bytes=1.0) for i, t in enumerate(times)),
        tensors=tuple(MovedTensor(producer=a, consumers=(b,), size=size) for a, b, size in edges),
    )


@pytest.mark.parametrize("seed", range(20))
def test_clusters_leave_no_cycle_and_fit(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(4, 14)
    edges = [(a, b, float(draw.randint(1, 9))) for b in range(1, count) for a in range(b) if draw.random() < 0.3]
    problem = problem_of([float(draw.randint(0, 9)) for _ in range(count)], edges, memory=4.0)
    instance = build_instance(problem, directed=True)
    label = hyper_operators(instance, 3, draw.choice([0.01, 1.0, 100.0]))
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(int(label.max()) + 1))
    pairs = {(int(label[a]), int(label[b])) for a, b in instance.graph.edges if label[a] != label[b]}
    graph.add_edges_from_no_data(sorted(pairs))
    assert rustworkx.is_directed_acyclic_graph(graph)
    for number in range(int(label.max()) + 1):
        assert held_bytes(instance, np.flatnonzero(label == number).tolist()) <= 4.0


def test_the_weight_decides_what_is_merged_first() -> None:
    # Light operators 0 and 1 with a small tensor between them, heavier ones 2 and 3 with a large one.
    problem = problem_of([1.0, 1.0, 5.0, 5.0], [(0, 1, 0.5), (1, 2, 0.5), (2, 3, 4.0)])
    instance = build_instance(problem, directed=True)
    assert hyper_operators(instance, 3, 0.01).tolist() == [0, 0, 1, 2]
    assert hyper_operators(instance, 3, 100.0).tolist() == [0, 1, 2, 2]


def test_a_pair_beside_a_longer_way_is_not_merged() -> None:
    # Merging 0 and 2 would make a cycle with 1.
    problem = problem_of([1.0, 9.0, 1.0], [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 50.0)])
    label = hyper_operators(build_instance(problem, directed=True), 2, 100.0)
    assert label[0] != label[2]


def test_distances_to_where_branches_meet() -> None:
    # 0 → {1, 2} → 3 → 4: operator 3 is where the branches meet, and the only cut vertex.
    problem = problem_of([1.0] * 5, [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0), (3, 4, 1.0)])
    assert reconverging_distance(build_instance(problem, directed=True)).tolist() == [2.0, 1.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("seed", range(10))
def test_moves_keep_stages_in_a_row(seed: int) -> None:
    draw = random.Random(seed)
    edges = [(a, b, float(draw.randint(1, 9))) for b in range(1, 12) for a in range(b) if draw.random() < 0.3]
    problem = problem_of([float(draw.randint(1, 9)) for _ in range(12)], edges, memory=7.0)
    instance = build_instance(problem, directed=True)
    search = StageMoves(instance, (np.arange(instance.items) >= instance.items // 2).astype(np.int32))
    moves = 0
    while moves < 30 and search.move():
        moves += 1
        assert all(search.label[a] <= search.label[b] for a, b in instance.graph.edges)
        assert max(np.bincount(search.label)) <= 7
        assert search.work == pytest.approx(np.bincount(search.label, search.time, 2))


def test_a_cheaper_boundary_is_moved_to() -> None:
    # No branches, so that transfers decide: the cut goes from the large tensor to a small one beside it.
    problem = problem_of([1.0] * 4, [(0, 1, 1.0), (1, 2, 9.0), (2, 3, 1.0)])
    search = StageMoves(build_instance(problem, directed=True), np.array([0, 0, 1, 1], dtype=np.int32))
    assert search.move()
    assert search.label.tolist() in ([0, 0, 0, 1], [0, 1, 1, 1])


def test_it_is_never_better_than_exact() -> None:
    draw = random.Random(1)
    edges = [
        (a, b, float(draw.randint(1, 9))) for b in range(1, 40) for a in range(max(0, b - 4), b) if draw.random() < 0.4
    ]
    problem = problem_of([float(draw.randint(1, 9)) for _ in range(40)], edges, devices=3)
    mine = pt.solve(problem, solver="parmesan", time_limit_s=20.0)
    best = pt.solve(problem, time_limit_s=20.0)
    assert mine.objective is not None
    assert best.objective is not None
    assert mine.objective >= best.objective - 1e-9
    assert mine.evaluation.acyclic
