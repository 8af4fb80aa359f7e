"""Annealing on rows of machines: who follows whom, and who stands side by side, so that a flow reaches all layers.

A state is an order of machines, cut into groups; what comes behind its used part holds nothing. The machines of a group
hold the same layers: as many as let them pass the flow together, each at most what its links from the group before and
to the group behind carry. The energy is the layers that all groups together miss, and for a group that does not pass
the flow with any number of layers the share that is missing, times a price in layers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by
from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.random import below, share

#: Relative rounding of sums of rates.
ROUNDING = 1e-12
#: Machines of one group at most.
WIDEST = 6
#: What a group costs that passes nothing, in layers, and what one costs that passes nearly all.
PRICE, AT_LEAST = 12.0, 0.5


class LayerRows(NamedTuple):
    """What stays the same: ``link`` and ``rate`` as in an instance; ``flow`` is looked for, through ``layers``.

    ``alone`` (M,) is the most layers with which a machine passes the flow by itself.
    """

    link: Floats
    rate: Floats
    alone: Ints
    layers: int
    flow: float


class _Groups(NamedTuple):
    """The state: ``order`` (M,) of machines, ``joined`` (M,) whether one is beside the one before it, ``used`` (1,).

    ``before`` holds the three as they were before a move, ``best`` the best ones; ``energy`` (2,) is that of the state
    and of the best, ``limit`` (M,) is room for what links let machines pass.
    """

    rows: LayerRows
    order: Ints
    joined: Ints
    used: Longs
    before: Ints
    best: Ints
    energy: Floats
    limit: Floats


class _Shift(NamedTuple):
    """A move that has been made, and the rise of the energy."""

    rise: float
    energy: float


@inlined
def _save(c: _Groups, target: Ints) -> None:
    count = c.order.shape[0]
    for i in range(count):
        target[i] = c.order[i]
        target[count + i] = c.joined[i]
    target[2 * count] = c.used[0]


@inlined
def _load(c: _Groups, source: Ints) -> None:
    count = c.order.shape[0]
    for i in range(count):
        c.order[i] = source[i]
        c.joined[i] = source[count + i]
    c.used[0] = source[2 * count]


@inlined
def group_end(joined: Ints, used: int, first: int) -> int:
    """Where the group ends that begins at a place."""
    end = first + 1
    while end < used and joined[end] != 0:
        end += 1
    return end


@inlined
def limits(
    r: LayerRows, order: Ints, joined: Ints, used: int, before: int, first: int, end: int, limit: Floats
) -> None:
    """What the links to the groups around let each machine of a group pass, no more than the flow."""
    count = order.shape[0]
    behind = group_end(joined, used, end) if end < used else end
    for a in range(first, end):
        i = order[a]
        come, go = 0.0, 0.0
        if first == 0:
            come = r.link[count, i]
        for b in range(before, first):
            come += r.link[order[b], i]
        if end >= used:
            go = r.link[i, count + 1]
        for b in range(end, behind):
            go += r.link[i, order[b]]
        limit[a] = min(r.flow, come, go)


@inlined
def passed(r: LayerRows, order: Ints, first: int, end: int, limit: Floats, layers: int) -> float:
    """What the machines of a group pass with so many layers each, by their limits."""
    found = 0.0
    for a in range(first, end):
        found += min(limit[a], r.rate[order[a], layers])
    return found


@inlined
def _energy(c: _Groups) -> float:
    r, used = c.rows, c.used[0]
    enough = r.flow * (1.0 - ROUNDING)
    held, missing = 0, 0.0
    before, first = 0, 0
    while first < used:
        end = group_end(c.joined, used, first)
        limits(r, c.order, c.joined, used, before, first, end, c.limit)
        if end == first + 1 and c.limit[first] >= enough and r.alone[c.order[first]] > 0:
            held += r.alone[c.order[first]]
        else:
            k = r.rate.shape[1] - 1
            most = 0.0
            while k > 0:
                now = passed(r, c.order, first, end, c.limit, k)
                if now >= enough:
                    break
                most = max(most, now)
                k -= 1
            held += k
            if k == 0:
                missing += AT_LEAST + PRICE * (1.0 - most / r.flow)
            elif end - first > WIDEST:
                missing += 1.0
        before, first = first, end
    return missing + max(0, r.layers - held)


@inlined
def _propose(c: _Groups, random: Words, trial: int, temperature: float) -> _Shift:
    """Two machines change places, one goes elsewhere, a part turns round, or a group is cut, joined, used or not."""
    _save(c, c.before)
    count = c.order.shape[0]
    kind = share(random)
    if kind < 0.35:
        a, b = below(random, count), below(random, count)
        c.order[a], c.order[b] = c.order[b], c.order[a]
    elif kind < 0.6:
        a, b = below(random, count), below(random, count)
        moved, flag = c.order[a], c.joined[a]
        step = 1 if b > a else -1
        with_flag = share(random) < 0.5
        while a != b:
            c.order[a] = c.order[a + step]
            if with_flag:
                c.joined[a] = c.joined[a + step]
            a += step
        c.order[b] = moved
        if with_flag:
            c.joined[b] = flag
    elif kind < 0.7:
        a, b = below(random, count), below(random, count)
        if a > b:
            a, b = b, a
        while a < b:
            c.order[a], c.order[b] = c.order[b], c.order[a]
            a += 1
            b -= 1
    elif kind < 0.95:
        a = below(random, count)
        c.joined[a] = 1 - c.joined[a]
    else:
        c.used[0] = min(count, max(1, c.used[0] + (1 if share(random) < 0.5 else -1)))
    c.joined[0] = 0
    energy = _energy(c)
    return _Shift(energy - c.energy[0], energy)


@inlined
def _keep(c: _Groups, move: _Shift) -> None:
    c.energy[0] = move.energy
    if move.energy < c.energy[1]:
        c.energy[1] = move.energy
        _save(c, c.best)


@inlined
def _undo(c: _Groups, move: _Shift) -> None:
    _load(c, c.before)


_STEPS = Steps(_propose, _keep, _undo)

#: Trials between two looks at whether the flow reaches all layers.
_LOOK = 2048


@compiled
def anneal_rows(rows: LayerRows, state: Ints, best: Ints, cooling: Cooling, random: Words, stop: Longs) -> float:
    """Anneal from ``state`` (2M + 1,): order, joined and used; the best is put into ``best``, its energy returned.

    ``state`` becomes the last one. It ends early where the energy is 0.
    """
    count = rows.rate.shape[0]
    c = _Groups(
        rows,
        state[:count].copy(),
        state[count : 2 * count].copy(),
        np.array([state[2 * count]], np.int64),
        np.empty(2 * count + 1, np.int32),
        best,
        np.empty(2),
        np.empty(count),
    )
    c.energy[0] = _energy(c)
    c.energy[1] = c.energy[0]
    _save(c, best)
    temperature, done = cooling.start, 0
    while done < cooling.trials and c.energy[1] > 0.0 and stop[0] == 0:
        trials = min(_LOOK, cooling.trials - done)
        done += trials
        after = cooling.start * (cooling.end / cooling.start) ** (done / cooling.trials)
        anneal_by(c, _STEPS, Cooling(temperature, after, trials), random, stop)
        temperature = after
    _save(c, state)
    return float(c.energy[1])


@compiled
def group_layers(rows: LayerRows, state: Ints, able: Longs) -> int:
    """By place of the groups of a state the numbers of layers with which they pass the flow; how many groups they are.

    ``able`` (M, K + 1) is 1 where the group that is numbered so does, and 0 otherwise.
    """
    count = rows.rate.shape[0]
    order, joined, used = state[:count], state[count : 2 * count], int(state[2 * count])
    limit = np.empty(count)
    before, first, number = 0, 0, 0
    while first < used:
        end = group_end(joined, used, first)
        limits(rows, order, joined, used, before, first, end, limit)
        for k in range(1, rows.rate.shape[1]):
            able[number, k] = int(passed(rows, order, first, end, limit, k) >= rows.flow * (1.0 - ROUNDING))
        before, first, number = first, end, number + 1
    return number
