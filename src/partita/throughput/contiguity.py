"""Which dependencies a contiguous split must respect.

Contiguity is about the forward part: backward operators follow their colocation class. A class with backward operators
only (an orphan) is given an artificial forward operator, and every backward edge that touches one is mirrored into a
forward edge (Tarnawski et al., NeurIPS 2020, Appendix E and the published program).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partita.throughput.problem import ThroughputProblem

__all__ = ["colocation_classes", "order_edges", "order_pairs"]

Ints = npt.NDArray[np.int64]


def colocation_classes(problem: ThroughputProblem) -> Ints:
    """Class number of every operator, 0, 1, … in order of first appearance; operators without a tie are their own."""
    numbers: dict[int, int] = {}
    result = np.empty(len(problem.operators), dtype=np.int64)
    count = 0
    for place, op in enumerate(problem.operators):
        known = numbers.get(op.colocation) if op.colocation is not None else None
        if known is None:
            known = count
            count += 1
            if op.colocation is not None:
                numbers[op.colocation] = known
        result[place] = known
    return result


def order_pairs(problem: ThroughputProblem, classes: Ints) -> Ints:
    """Pairs (earlier operator, later operator) of places in the problem, distinct, that the stage order must respect.

    Parameters
    ----------
    problem
        The problem.
    classes
        Class of every operator, as ``colocation_classes`` gives it.

    Returns
    -------
    array of shape (pairs, 2)
    """
    index = {op.id: place for place, op in enumerate(problem.operators)}
    backward = np.array([op.backward for op in problem.operators], dtype=bool)
    has_forward = np.zeros(int(classes.max()) + 1, dtype=bool)
    has_forward[classes[~backward]] = True
    orphan = ~has_forward[classes]
    pairs: set[tuple[int, int]] = set()
    for tensor in problem.tensors:
        source = index[tensor.producer]
        for consumer in tensor.consumers:
            target = index[consumer]
            if not backward[source] and not backward[target]:
                pairs.add((source, target))
            elif backward[source] and backward[target] and (orphan[source] or orphan[target]):
                pairs.add((target, source))
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def order_edges(problem: ThroughputProblem, classes: Ints) -> Ints:
    """Edges (source class, target class), distinct and without loops, that the stage order must respect.

    Parameters
    ----------
    problem
        The problem.
    classes
        Class of every operator, as ``colocation_classes`` gives it.

    Returns
    -------
    array of shape (edges, 2)
    """
    edges = {(int(a), int(b)) for a, b in classes[order_pairs(problem, classes)] if a != b}
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
