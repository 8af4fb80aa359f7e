"""Merging and ordering items loses no optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples, throughput_problems
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.contraction.lossless import absorb, order_twins, twins
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from second_opinions.instance_reference import best_over_items


@st.composite
def dear_transfers(draw: st.DrawFn) -> ThroughputProblem:
    """Small DAGs whose transfers often cost more than work, and whose operators are often alike."""
    count = draw(st.integers(2, 7))
    times = st.sampled_from([0.0, 1.0, 1.0, 2.0, 5.0])
    kinds = draw(st.integers(1, 2))
    tensors = []
    for producer in range(count - 1):
        readers = draw(st.sets(st.integers(producer + 1, count - 1), max_size=3))
        if readers:
            size = draw(st.sampled_from([0.0, 1.0, 3.0, 3.0, 6.0]))
            tensors.append(MovedTensor(producer=producer, consumers=tuple(sorted(readers)), size=size))
    operators = []
    for number in range(count):
        first = draw(times)
        operators.append(TimedOperator(id=number, times=(first, 2.0 * first)[:kinds]))
    return ThroughputProblem(
        name="dear",
        kinds=tuple(DeviceKind(name=f"k{k}", count=draw(st.integers(1, 2))) for k in range(kinds)),
        operators=tuple(operators),
        tensors=tuple(tensors),
    )


@examples(100)
@given(st.one_of(dear_transfers(), throughput_problems(recompute=False, memory=False)))
def test_contraction_loses_nothing(problem: ThroughputProblem) -> None:
    instance = build_instance(problem)
    smaller = order_twins(absorb(instance))
    before, after = best_over_items(instance), best_over_items(smaller)
    if before is None:
        assert after is None
    else:
        assert after == pytest.approx(before, rel=1e-9, abs=1e-12)


def _projections(transfer: float) -> ThroughputProblem:
    """x → q, k, v → attention → out, on two devices; every tensor takes ``transfer``."""
    readers = {0: (1, 2, 3), 1: (4,), 2: (4,), 3: (4,), 4: (5,)}
    return ThroughputProblem(
        name="attention",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=i, times=(t,)) for i, t in enumerate((10.0, 1.0, 1.0, 1.0, 5.0, 10.0))),
        tensors=tuple(MovedTensor(producer=u, consumers=v, size=transfer) for u, v in readers.items()),
    )


def test_projections_join_their_attention() -> None:
    # Moving all three: 3 of work and one transfer in, against three transfers saved: 3 + 2 <= 3 · 2.
    assert absorb(build_instance(_projections(2.0))).items == 3
    # 3 + 1 > 3 · 1: worth a transfer each, but not the input's as well.
    assert absorb(build_instance(_projections(1.0))).items == 6


def test_twins_are_found_and_ordered() -> None:
    instance = build_instance(_projections(1.0))
    assert twins(instance) == [[1, 2, 3]]
    ordered = order_twins(instance)
    assert ordered.graph.succ[ordered.graph.succ_ptr[1] : ordered.graph.succ_ptr[2]].tolist() == [2, 4]
    assert ordered.graph.succ[ordered.graph.succ_ptr[2] : ordered.graph.succ_ptr[3]].tolist() == [3, 4]


def test_absorbed_groups_lead_back_to_the_operators() -> None:
    problem = _projections(2.0)
    instance, smaller = build_instance(problem), absorb(build_instance(problem))
    assert smaller.group.shape == instance.group.shape
    assert len({int(smaller.group[i]) for i in (1, 2, 3, 4)}) == 1
    np.testing.assert_allclose(smaller.work.sum(), instance.work.sum())


def test_nothing_is_merged_where_memory_may_bind() -> None:
    problem = _projections(2.0)
    operators = tuple(TimedOperator(id=op.id, times=op.times, memory_bytes=10.0) for op in problem.operators)
    tight = problem.replace(operators=operators, memory_bytes=40.0)
    assert absorb(build_instance(tight)).items == 6
    ample = problem.replace(operators=operators, memory_bytes=60.0)
    assert absorb(build_instance(ample)).items == 3
