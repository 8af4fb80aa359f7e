"""Annealing of free splits: an item, a ball of items around it, or two items in exchange go to other devices."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by
from partita.engines.kernels.arrays import Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.random import draw, lower, upper
from partita.engines.kernels.rows import pins_of, sets_with
from partita.engines.kernels.throughput import split_energies as moves
from partita.engines.kernels.throughput.free_splits import FreeArrays, FreeState


@inlined
def _gather_ball(c: moves.Energies, random: Words, trial: int, at: int, to: int) -> int:
    """List items around the first one that are on its device and can run on the other; how many."""
    a, label = c.a, c.s.label
    kind = a.kind_of[to]
    want = 2 + lower(draw(random), moves.BALL - 1)
    c.seen[c.moves[0]] = trial
    head, count = 0, 1
    while head < count and count < want:
        u = c.moves[head]
        head += 1
        for e in sets_with(a.net, u):
            if c.s.pins[e, at] == 1:
                continue
            for w in pins_of(a.net, e):
                if c.seen[w] != trial and label[w] == at and count < want:
                    c.seen[w] = trial
                    if a.work[w, kind] != np.inf:
                        c.moves[count], c.goals[count] = w, to
                        count += 1
    return count


@inlined
def _propose(c: moves.Energies, random: Words, trial: int, temperature: float) -> moves.SplitMove:
    """Mostly one item, to a device that holds an item of one of its nets."""
    a, label = c.a, c.s.label
    n, devices = a.work.shape[0], a.kind_of.shape[0]
    # One word for the item and the form of the move, with bits for another device; a second one for the device.
    word = draw(random)
    v = upper(word, n)
    form, near = (word >> np.uint64(4)) & np.uint64(15), (word >> np.uint64(8)) & np.uint64(3)
    other = lower((word >> np.uint64(10)) & np.uint64(0x3FFFFF), devices << 10)
    first, last = a.net.item_ptr[v], a.net.item_ptr[v + 1]
    at, to, mate = int(np.int64(label[v])), other, -1
    if near != 0 and last > first:
        word = draw(random)
        e = a.net.of_item[first + upper(word, last - first)]
        mate = a.net.pins[a.net.ptr[e] + lower(word, a.net.ptr[e + 1] - a.net.ptr[e])]
        # Around the first item of a ball all may be inside: let it go anywhere.
        if form != 0 or label[mate] != at:
            to = int(np.int64(label[mate]))
    if to == at or a.work[v, a.kind_of[to]] == np.inf:
        return moves.no_move()
    if form > 2:
        return moves.move_one(c, v, at, to)
    c.moves[0], c.goals[0] = v, to
    count = 1
    if form == 0:
        count = _gather_ball(c, random, trial, at, to)
    elif form <= 2:
        w = upper(draw(random), n)
        if label[w] != to and mate >= 0 and label[mate] == to:
            w = int(mate)
        if label[w] != to or a.work[w, a.kind_of[at]] == np.inf:
            return moves.no_move()
        c.moves[1], c.goals[1] = w, at
        count = 2
    return moves.move_listed(c, at, to, count)


_STEPS = Steps(_propose, moves.keep, moves.undo)


@compiled
def anneal(
    a: FreeArrays,
    s: FreeState,
    memory: moves.SplitMemory,
    ref: float,
    exponent: int,
    cooling: Cooling,
    random: Words,
    stop: Longs,
) -> int:
    """Anneal from ``label``, at temperatures in units of a device that costs ``ref``.

    ``best`` and ``value`` are updated with feasible splits only. Returns the number of accepted trials.
    """
    if a.work.shape[0] == 0 or a.kind_of.shape[0] < 2:
        return 0
    return anneal_by(moves.energies(a, s, memory, ref, exponent), _STEPS, cooling, random, stop)
