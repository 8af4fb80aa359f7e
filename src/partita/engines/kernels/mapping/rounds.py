"""Rounds: columns one after another, each beside the next, that return to the first; the cheapest ones by prices.

``partita.problems.mapping.bounds.rounds`` says what for. Which columns can be beside each other is a graph, in rows of
the columns beside each one.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.random import below, share


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


@inlined
def _least_beside(ptr: Longs, beside: Ints, c: int, row: Floats, found: Floats) -> None:
    """The least that ``row`` (N, states) has of the columns beside one, for every state.

    The four states of two islands are taken together, as one piece of memory.
    """
    if row.shape[1] == 4:
        none, one, other, both = np.inf, np.inf, np.inf, np.inf
        for k in range(ptr[c], ptr[c + 1]):
            d = beside[k]
            value = row[d, 0]
            none = value if value < none else none
            value = row[d, 1]
            one = value if value < one else one
            value = row[d, 2]
            other = value if value < other else other
            value = row[d, 3]
            both = value if value < both else both
        found[0], found[1], found[2], found[3] = none, one, other, both
    else:
        for state in range(row.shape[1]):
            best = np.inf
            for k in range(ptr[c], ptr[c + 1]):
                value = row[beside[k], state]
                best = value if value < best else best
            found[state] = best


@compiled
def least_walk(
    ptr: Longs,
    beside: Ints,
    costs: Floats,
    goal: float,
    visits: Ints,
    places: Bools,
    there: Floats,
    back: Floats,
    walk: Ints,
) -> float:
    """What the columns of a walk take at least, all but the last one; infinite if there is no walk.

    A walk visits some islands, of which there are k: its *state* is the set of those that it has visited so far, and
    in the end it has visited all of them.

    Parameters
    ----------
    ptr, beside, costs
        The graph, and what each column takes; of any sign.
    goal
        Columns through which walks take more are taken out of their places.
    visits
        (N,) Which of these islands a column has.
    places
        (K + 1, N, 2^k) Which columns may be how many steps from the first one, in which state then. The first one is
        in a state that it need not have by itself.
    there, back
        (K + 1, N, 2^k) Room.
    walk
        (K + 1,) It gets the columns of a walk that takes the least.
    """
    steps, count, states = places.shape[0] - 1, places.shape[1], places.shape[2]
    full = states - 1
    found = np.empty(states)
    for c in range(count):
        for state in range(states):
            there[0, c, state] = costs[c] if places[0, c, state] else np.inf
            back[steps, c, state] = 0.0 if state == full and places[steps, c, state] else np.inf
    for step in range(1, steps + 1):
        for c in range(count):
            there[step, c] = np.inf
            if not places[step, c].any():
                continue
            _least_beside(ptr, beside, c, there[step - 1], found)
            for old in range(states):
                state = old | visits[c]
                if places[step, c, state]:
                    there[step, c, state] = min(there[step, c, state], found[old])
            if step < steps:
                there[step, c] += costs[c]
    least, at = np.inf, -1
    for c in range(count):
        if there[steps, c, full] < least:
            least, at = there[steps, c, full], c
    if at < 0:
        return np.inf
    # Who is before: the same least again.
    walk[steps], state = at, full
    for step in range(steps, 0, -1):
        best, who, which = np.inf, -1, 0
        for old in range(states):
            if old | visits[at] == state:
                for k in range(ptr[at], ptr[at + 1]):
                    if there[step - 1, beside[k], old] < best:
                        best, who, which = there[step - 1, beside[k], old], beside[k], old
        walk[step - 1], at, state = who, who, which
    if least > goal:
        return float(least)
    ahead = np.empty((count, states))
    for step in range(steps - 1, -1, -1):
        for d in range(count):
            for state in range(states):
                ahead[d, state] = back[step + 1, d, state | visits[d]]
        for c in range(count):
            back[step, c] = np.inf
            if not places[step, c].any():
                continue
            _least_beside(ptr, beside, c, ahead, found)
            for state in range(states):
                if not places[step, c, state]:
                    continue
                if there[step, c, state] + found[state] > goal:
                    places[step, c, state] = False
                else:
                    back[step, c, state] = found[state] + costs[c]
    return float(least)


@inlined
def _is_beside(ptr: Longs, beside: Ints, c: int, d: int) -> bool:
    """Whether two columns can be beside each other: rows ascend."""
    low, high = ptr[c], ptr[c + 1]
    while low < high:
        middle = (low + high) // 2
        if beside[middle] < d:
            low = middle + 1
        else:
            high = middle
    return bool(low < ptr[c + 1] and beside[low] == d)


@compiled
def fill_islands(
    ptr: Longs,
    beside: Ints,
    uses: Ints,
    room: Ints,
    exact: bool,
    walk: Ints,
    trials: int,
    hot: float,
    cold: float,
    random: Words,
) -> bool:
    """Anneal a round until it fills islands, or takes no more than they have where not ``exact``; whether it does.

    A column becomes another one that is beside both of its neighbours; or it leaves the round, its neighbours being
    beside each other, and another one goes somewhere between two. The energy is the sum of squares of what is taken too
    much, or too little, in shares of an island's devices.

    Parameters
    ----------
    ptr, beside
        The graph; columns in rows ascend.
    uses, room
        (N, I), (I,) Devices of every island that a column takes, and that there are.
    walk
        (R,) The round, in place; R is 3 or more.
    trials, hot, cold, random
        How long, from which temperature to which, and with which random numbers.
    """
    replicas, islands = walk.shape[0], room.shape[0]
    over, after = np.empty(islands), np.empty(islands)
    for i in range(islands):
        over[i] = -float(room[i])
        for r in range(replicas):
            over[i] += uses[walk[r], i]
    cooling = (cold / hot) ** (1.0 / max(1, trials))
    temperature, energy = hot, np.inf
    for _ in range(trials):
        temperature *= cooling
        p, q = below(random, replicas), below(random, replicas)
        old, preceding, following = walk[p], walk[p - 1], walk[(p + 1) % replicas]
        if share(random) < 0.5:
            q = p
            new = beside[ptr[preceding] + below(random, ptr[preceding + 1] - ptr[preceding])]
            if not _is_beside(ptr, beside, new, following):
                continue
        else:
            # The new one goes behind q.
            here, ahead = walk[q], (q + 1) % replicas
            if q == p or ahead == p or not _is_beside(ptr, beside, preceding, following):
                continue
            new = beside[ptr[here] + below(random, ptr[here + 1] - ptr[here])]
            if not _is_beside(ptr, beside, new, walk[ahead]):
                continue
        changed = 0.0
        for i in range(islands):
            after[i] = over[i] + uses[new, i] - uses[old, i]
            off = after[i] if exact else max(after[i], 0.0)
            changed += off * off / room[i]
        if changed > energy and share(random) >= np.exp((energy - changed) / temperature):
            continue
        energy = changed
        over[:] = after
        for _ in range((q - p) % replicas):
            walk[p] = walk[(p + 1) % replicas]
            p = (p + 1) % replicas
        walk[p] = new
        if energy == 0.0:
            return True
    return False
