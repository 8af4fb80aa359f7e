"""Classes and order edges on problems small enough to check by hand."""

from __future__ import annotations

import numpy as np

from partita.problems.throughput.contiguity import (
    colocated,
    colocation_classes,
    distinct_pairs,
    order_edges,
    order_pairs,
)
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator


def build(operators: list[tuple[int, bool, int | None]], *tensors: tuple[int, ...]) -> ThroughputProblem:
    """A problem from (id, backward, colocation) and (producer, consumers…)."""
    return ThroughputProblem(
        name="hand",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(
            TimedOperator(id=identity, times=(1.0,), backward=backward, colocation=tie)
            for identity, backward, tie in operators
        ),
        tensors=tuple(MovedTensor(producer=t[0], consumers=t[1:], size=1.0) for t in tensors),
    )


def test_classes_are_numbered_by_first_appearance() -> None:
    """Two untied operators are not in one class, and the number given has no meaning but equality."""
    problem = build([(5, False, 9), (3, False, None), (8, False, 9), (1, False, None), (2, True, 0)])
    assert colocation_classes(problem).tolist() == [0, 1, 0, 2, 3]


def test_parts_take_the_place_of_ties() -> None:
    problem = build([(5, False, 9), (3, False, None), (8, False, 9)], (5, 3))
    assert colocated(problem, [1.0, 1.0, 0.0]) == build([(5, False, 1), (3, False, 1), (8, False, 0)], (5, 3))


def test_forward_edges_are_kept_once_and_loops_dropped() -> None:
    """Two tensors between the same classes are one edge, one inside a class is none."""
    problem = build([(0, False, 7), (1, False, 7), (2, False, None)], (0, 1), (0, 2), (1, 2))
    classes = colocation_classes(problem)
    assert order_edges(problem, classes).tolist() == [[0, 1]]
    assert order_pairs(problem, classes).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_edges_of_the_backward_part_and_into_it_do_not_count() -> None:
    """Forward 0 → 1, backward 3 → 2, 1 → 3: only the first one orders the stages."""
    problem = build([(0, False, 0), (1, False, 1), (2, True, 0), (3, True, 1)], (0, 1), (1, 3), (3, 2))
    assert order_edges(problem, colocation_classes(problem)).tolist() == [[0, 1]]


def test_backward_edges_at_an_orphan_are_mirrored() -> None:
    """Backward 3 → 9 → 2 with orphan 9: the stage order is class of 2, then 9, then class of 3."""
    problem = build([(0, False, 0), (1, False, 1), (2, True, 0), (3, True, 1), (9, True, None)], (3, 9), (9, 2))
    assert colocation_classes(problem).tolist() == [0, 1, 0, 1, 2]
    assert order_edges(problem, colocation_classes(problem)).tolist() == [[0, 2], [2, 1]]


def test_a_tensor_from_the_forward_part_to_an_orphan_does_not_count() -> None:
    """Only backward edges are mirrored."""
    problem = build([(0, False, None), (9, True, None)], (0, 9))
    assert order_edges(problem, colocation_classes(problem)).shape == (0, 2)


def test_no_tensors_no_edges() -> None:
    """The shape stays two-dimensional."""
    problem = build([(0, False, None)])
    assert order_pairs(problem, colocation_classes(problem)).shape == (0, 2)


def test_pairs_are_sorted_and_kept_once() -> None:
    pairs = np.array([[4, 0], [0, 4], [2, 3], [0, 4], [2, 3], [0, 1]])
    assert distinct_pairs(pairs).tolist() == [[0, 1], [0, 4], [2, 3], [4, 0]]
    assert distinct_pairs(pairs[:0]).shape == (0, 2)
