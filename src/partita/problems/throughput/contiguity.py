"""Which dependencies a contiguous split must respect.

Contiguity is about the forward part: backward operators follow their colocation class. A class with backward operators
only (an orphan) is given an artificial forward operator, and every backward edge that touches one is mirrored into a
forward edge (Tarnawski et al., NeurIPS 2020, Appendix E and the published program).
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Longs
from partita.problems.throughput.problem import ThroughputProblem


def colocation_classes(problem: ThroughputProblem) -> Longs:
    """Class number of every operator, 0, 1, … in order of first appearance; operators without a tie are their own."""
    numbers: dict[tuple[str, int], int] = {}
    ties = [("own", v) if op.colocation is None else ("tie", op.colocation) for v, op in enumerate(problem.operators)]
    return np.array([numbers.setdefault(tie, len(numbers)) for tie in ties], dtype=np.int64)


def colocated(problem: ThroughputProblem, part: npt.ArrayLike) -> ThroughputProblem:
    """The problem with the operators of every part together, whatever they were with: ``part`` (operators,) numbers."""
    numbers = np.asarray(part, dtype=np.int64).tolist()
    return problem.replace(
        operators=tuple(
            msgspec.structs.replace(op, colocation=number)
            for op, number in zip(problem.operators, numbers, strict=True)
        )
    )


def order_pairs(problem: ThroughputProblem, classes: Longs) -> Longs:
    """(pairs, 2) pairs (earlier, later) of operators' places, distinct, that the stage order must respect.

    ``classes`` are those of ``colocation_classes``.
    """
    index = {op.id: place for place, op in enumerate(problem.operators)}
    backward = np.array([op.backward for op in problem.operators], dtype=bool)
    has_forward = np.zeros(int(classes.max()) + 1, dtype=bool)
    has_forward[classes[~backward]] = True
    orphan = ~has_forward[classes]
    readers = [len(tensor.consumers) for tensor in problem.tensors]
    source = np.repeat(np.array([index[tensor.producer] for tensor in problem.tensors], dtype=np.int64), readers)
    target = np.fromiter(
        (index[consumer] for tensor in problem.tensors for consumer in tensor.consumers), np.int64, len(source)
    )
    along = ~backward[source] & ~backward[target]
    against = backward[source] & backward[target] & (orphan[source] | orphan[target])
    pairs = np.stack([np.where(along, source, target), np.where(along, target, source)], axis=1)
    return distinct_pairs(pairs[along | against])


def distinct_pairs(pairs: Longs) -> Longs:
    """The distinct rows of an array of shape (m, 2) with non-negative entries, in lexicographical order."""
    if not len(pairs):
        return pairs.astype(np.int64).reshape(-1, 2)
    width = int(pairs.max()) + 1
    # Sorting is much faster here than ``unique``, which hashes.
    codes = np.sort(pairs[:, 0] * width + pairs[:, 1])
    codes = codes[np.append(True, codes[1:] != codes[:-1])]
    return np.stack([codes // width, codes % width], axis=1)


def order_edges(problem: ThroughputProblem, classes: Longs) -> Longs:
    """(edges, 2) edges (source class, target class), distinct and without loops, that the stage order must respect."""
    edges = classes[order_pairs(problem, classes)].astype(np.int64)
    return distinct_pairs(edges[edges[:, 0] != edges[:, 1]])
