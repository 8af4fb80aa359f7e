"""The way back: operators of the problem from places given to the items of an instance."""

from __future__ import annotations

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.problem import ThroughputProblem


def operators_at(problem: ThroughputProblem, group: Ints, place: Ints, places: int) -> list[tuple[int, ...]]:
    """Ids of the operators at each of so many places, in the problem's order.

    Parameters
    ----------
    problem
        The problem.
    group
        Item of every operator, as ``Instance.group``.
    place
        Place of every item.
    places
        How many there are.
    """
    rows: list[list[int]] = [[] for _ in range(places)]
    for op, at in zip(problem.operators, place[group].tolist(), strict=True):
        rows[at].append(op.id)
    return [tuple(row) for row in rows]
