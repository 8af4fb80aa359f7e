"""Rounds: columns one after another, each beside the next, that return to the first; the cheapest ones by prices.

``partita.problems.mapping.bounds.rounds`` says what for. Which columns can be beside each other is a graph, in rows of
the columns beside each one.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import compiled


@compiled
def columns_beside(own: Words, leads: Words, uses: Ints, room: Ints, stop: Longs, ptr: Longs, beside: Ints) -> int:
    """All pairs of columns that can be beside each other; how many, or -1 if these are more than have room, or on stop.

    Parameters
    ----------
    own, leads
        (N, W) Sets of stages in islands: where each column has its stages, and where those beside it may have them.
    uses, room
        (N, I), (I,) Devices of every island that a column takes, and that there are.
    stop
        Polled.
    ptr, beside
        (N + 1,), (most,) They get the rows.
    """
    count, width = own.shape
    found = 0
    for c in range(count):
        if stop[0] != 0:
            return -1
        for d in range(count):
            fits = True
            for j in range(width):
                if own[d, j] & ~leads[c, j] != np.uint64(0) or own[c, j] & ~leads[d, j] != np.uint64(0):
                    fits = False
                    break
            if fits:
                for i in range(room.shape[0]):
                    if uses[c, i] + uses[d, i] > room[i]:
                        fits = False
                        break
            if fits:
                if found == beside.shape[0]:
                    return -1
                beside[found] = d
                found += 1
        ptr[c + 1] = found
    return found


@compiled
def drop_columns(ptr: Longs, beside: Ints, kept: Bools) -> int:
    """Take columns out of all rows; how many pairs are left."""
    found, first = 0, 0
    for c in range(kept.shape[0]):
        last = ptr[c + 1]
        if kept[c]:
            for k in range(first, last):
                if kept[beside[k]]:
                    beside[found] = beside[k]
                    found += 1
        ptr[c + 1] = found
        first = last
    return found


@compiled
def walks_on(ptr: Longs, beside: Ints, costs: Floats, kept: Bools, least: Floats, following: Ints) -> None:
    """What walks of one, two, … more columns take at least, from every column on, without it.

    ``least`` (k + 1, N) has zeros in its first row and gets the others, ``following`` (k + 1, N) who comes next.
    """
    for step in range(1, least.shape[0]):
        for c in range(costs.shape[0]):
            best, who = np.inf, -1
            if kept[c]:
                for k in range(ptr[c], ptr[c + 1]):
                    d = beside[k]
                    value = costs[d] + least[step - 1, d]
                    if value < best:
                        best, who = value, d
            least[step, c], following[step, c] = best, who


@compiled
def least_round(
    ptr: Longs,
    beside: Ints,
    costs: Floats,
    goal: float,
    first: int,
    last: int,
    places: Bools,
    there: Floats,
    back: Floats,
    before: Ints,
) -> float:
    """What the columns between two take at least, where ``last`` is as many steps from ``first`` as there are places.

    Parameters
    ----------
    ptr, beside, costs
        The graph, and what each column takes; of any sign.
    goal
        Columns through which the rest takes more are taken out of their places.
    first, last
        The columns at both ends.
    places
        (K + 1, N) Which columns may be how many steps from the first one; those at both ends count as they are given.
    there, back, before
        (K + 1, N) Room; ``before`` gets the column before each on the way that takes the least.
    """
    steps, count = places.shape[0] - 1, places.shape[1]
    there[0], back[steps] = np.inf, np.inf
    there[0, first] = 0.0
    for step in range(1, steps + 1):
        for c in range(count):
            best, who = np.inf, -1
            if (c == last) if step == steps else places[step, c]:
                for k in range(ptr[c], ptr[c + 1]):
                    if there[step - 1, beside[k]] < best:
                        best, who = there[step - 1, beside[k]], beside[k]
                if step < steps:
                    best += costs[c]
            there[step, c], before[step, c] = best, who
    least = there[steps, last]
    if least > goal:
        return float(least)
    back[steps, last] = 0.0
    for step in range(steps - 1, 0, -1):
        for c in range(count):
            best = np.inf
            if places[step, c]:
                for k in range(ptr[c], ptr[c + 1]):
                    best = min(best, back[step + 1, beside[k]])
                if there[step, c] + best > goal:
                    places[step, c], best = False, np.inf
                best += costs[c]
            back[step, c] = best
    return float(least)
