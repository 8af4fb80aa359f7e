"""Random problems are what their documentation says, and the same for the same seed; conversions keep what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partita.ground.errors import InputError
from partita.ground.random_dags import FAMILIES, REGAL_FAMILIES, random_dag
from partita.problems.throughput.generators.plain import plain_problem
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import (
    DeviceKind,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from partita.problems.throughput.working_memory import best_order


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 50, 200])
def test_graphs_are_acyclic_and_seeded(family: str, nodes: int) -> None:
    first = random_dag(np.random.default_rng(7), family, nodes)
    assert first == random_dag(np.random.default_rng(7), family, nodes)
    assert first == sorted(set(first))
    assert all(0 <= u < v < nodes for u, v in first)


def test_graphs_of_families_have_the_edges_of_their_definition() -> None:
    rng = np.random.default_rng(0)
    count = {family: np.mean([len(random_dag(rng, family, 100)) for _ in range(40)]) for family in REGAL_FAMILIES}
    assert count["erdos-renyi"] == pytest.approx(0.05 * 4950, rel=0.1)
    assert count["barabasi-albert"] == pytest.approx(2 * 98, abs=2)
    assert count["watts-strogatz"] == 200
    assert count["stochastic-block"] == pytest.approx(4 * 300 * 0.3 + (4950 - 1200) * 0.005, rel=0.1)


def test_preferential_graphs_read_what_is_read() -> None:
    for seed in range(3):
        edges = random_dag(np.random.default_rng(seed), "preferential", 400)
        inputs, readers = (np.bincount([edge[end] for edge in edges], minlength=400) for end in (1, 0))
        assert inputs[0] == 0
        assert inputs[1:].min() == 1
        assert inputs.max() == 3
        # With readers drawn evenly, none of 400 would have a tenth of this.
        assert readers.max() > 30
        assert np.median(readers) <= 1


def test_chains_jump() -> None:
    for seed in range(3):
        edges = set(random_dag(np.random.default_rng(seed), "chain", 400))
        assert {(v - 1, v) for v in range(1, 400)} <= edges
        jumps = [v - u for u, v in edges if v - u > 1]
        assert 0.22 * 400 < len(jumps) < 0.38 * 400
        assert 0.1 * len(jumps) < sum(length > 8 for length in jumps) < 0.4 * len(jumps)


def test_series_parallel_graphs_reduce_to_an_edge() -> None:
    for seed in range(5):
        edges = set(random_dag(np.random.default_rng(seed), "series-parallel", 30))
        while True:
            nodes = {v for edge in edges for v in edge}
            inner = [v for v in nodes if sum(b == v for _, b in edges) == 1 and sum(a == v for a, _ in edges) == 1]
            if not inner:
                break
            v = inner[0]
            (u,) = (a for a, b in edges if b == v)
            (w,) = (b for a, b in edges if a == v)
            edges = (edges - {(u, v), (v, w)}) | {(u, w)}
        assert len(edges) == 1


@pytest.mark.parametrize("noise", ["graph", "operator"])
def test_work_follows_the_tensors(noise: str) -> None:
    problem = regal_problem(3, family="barabasi-albert", nodes=150, noise=noise)  # type: ignore[arg-type]
    size = {tensor.producer: tensor.size for tensor in problem.tensors}
    own = dict(size)
    for tensor in problem.tensors:
        for consumer in tensor.consumers:
            own[consumer] += tensor.size
    work = {op.id: op.times[0] or 0.0 for op in problem.operators}
    assert np.mean(list(size.values())) == pytest.approx(50, abs=3)
    assert np.std(list(size.values())) == pytest.approx(10, abs=2)
    total = sum(size.values())
    rest = np.array([(work[v] - own[v]) / (total if noise == "graph" else own[v]) for v in own])
    if noise == "graph":
        assert rest.min() >= 0
        assert rest.mean() == pytest.approx(0.1 * np.sqrt(2 / np.pi), abs=0.02)
    else:
        assert rest.std() == pytest.approx(0.1, abs=0.02)


def test_problems_of_a_seed() -> None:
    problem = regal_problem(5)
    assert problem == regal_problem(5)
    assert problem != regal_problem(6)
    assert 50 <= len(problem.operators) <= 200
    family = next(name for name in REGAL_FAMILIES if name in problem.name)
    same = regal_problem(5, family=family, nodes=len(problem.operators))
    assert same == problem, "naming what the seed draws changes nothing"
    assert problem.device_count == 8
    assert {len(regal_problem(s).operators) for s in range(60)} <= set(range(50, 201))
    assert len({regal_problem(s).name.split()[1] for s in range(60)}) == 4


def test_hard_graphs() -> None:
    problem = regal_problem(3, family="watts-strogatz", nodes=60, hard=0.1)
    assert problem == regal_problem(3, family="watts-strogatz", nodes=60, hard=0.1)
    ids = range(60)
    assert best_order(problem, ids).peak <= 0.9 * best_order(problem, ids, nodes=1).peak


def test_parameters_and_streaming() -> None:
    problem = regal_problem(1, nodes=60, parameter_bytes=100, memory_bytes=500)
    assert problem.streaming
    assert problem.kinds[0].memory_bytes == 500
    assert np.mean([p.weight_bytes for p in problem.parameters]) == pytest.approx(100, rel=0.1)
    assert not regal_problem(1, nodes=60).parameters


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "small-world"}, "no graph family 'small-world'; known are erdos-renyi"),
        ({"noise": "white"}, "noise is 'white'"),
        ({"nodes": 0}, "nodes is 0"),
        ({"devices": 0}, "devices is 0"),
        ({"parameter_bytes": float("nan")}, "parameter_bytes is nan"),
        ({"memory_bytes": -1.0}, "memory_bytes is -1"),
        ({"hard": 1.0}, "hard is 1.0"),
        ({"hard": 0.5, "family": "series-parallel", "nodes": 4}, "none of 100 graphs of seed 0 is hard enough"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        regal_problem(0, **options)


def make_mixed() -> ThroughputProblem:
    """Four operators with two tensors of one producer, a CPU kind, a backward operator and a parameter."""
    return ThroughputProblem(
        name="mixed",
        kinds=(
            DeviceKind(name="gpu", count=2, memory_bytes=10, reload_time_per_byte=0.5),
            DeviceKind(name="cpu", count=1, accelerator=False, transfer_time_per_unit=0.0),
        ),
        operators=(
            TimedOperator(id=0, times=(1.0, 9.0), memory_bytes=3),
            TimedOperator(id=1, times=(2.0, 9.0)),
            TimedOperator(id=2, times=(3.0, 9.0)),
            TimedOperator(id=3, times=(4.0, 9.0), backward=True, colocation=1),
        ),
        tensors=(
            MovedTensor(producer=0, consumers=(1,), size=5.0, name="a"),
            MovedTensor(producer=0, consumers=(2, 3), size=7.0, name="b"),
            MovedTensor(producer=1, consumers=(3,), size=1.0),
        ),
        parameters=(StoredParameter(name="w", users=(1, 3), weight_bytes=8, gradient_bytes=8),),
        streaming=True,
    )


def test_plain_problems() -> None:
    plain = plain_problem(make_mixed(), devices=3)
    assert [(kind.name, kind.count, kind.memory_bytes) for kind in plain.kinds] == [("gpu", 3, None)]
    assert [op.times for op in plain.operators] == [(1.0,), (2.0,), (3.0,)]
    assert [(t.producer, t.consumers, t.size) for t in plain.tensors] == [(0, (1, 2), 12.0)]
    assert [(p.users, p.weight_bytes, p.gradient_bytes) for p in plain.parameters] == [((1,), 8, 0)]
    assert not plain.streaming
    apart = plain_problem(make_mixed(), keep_tensors=True)
    assert [(t.consumers, t.size) for t in apart.tensors] == [((1,), 5.0), ((2,), 7.0)]
    streamed = plain_problem(make_mixed(), memory_bytes=4)
    assert streamed.streaming
    assert streamed.kinds[0].memory_bytes == 4


def test_plain_problems_refuse_what_they_cannot_be() -> None:
    mixed = make_mixed()
    with pytest.raises(InputError, match="no device kind 'tpu'; it has gpu, cpu"):
        plain_problem(mixed, kind="tpu")
    with pytest.raises(InputError, match="reloads for free"):
        plain_problem(mixed, kind="cpu", memory_bytes=5)
    unsupported = mixed.replace(operators=(TimedOperator(id=0, times=(None, 1.0)),), tensors=(), parameters=())
    with pytest.raises(InputError, match="operator 0 cannot run on 'gpu'"):
        plain_problem(unsupported)
    assert plain_problem(unsupported, kind="cpu").operators[0].times == (1.0,)
