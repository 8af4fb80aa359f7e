"""Simulated annealing on a chain of blocks: which piece of its table every block takes, and where separators are.

A state is the device of every separator, a piece for every block that begins and ends on those of its ends, and the
device of every item beside the chain. Moves take a row of separators to another device, two rows if they are to change
what devices hold and not how much, one block to another piece, or an item to another device. Blocks whose ends move
take the piece that is best at prices on memory that are drawn anew for every move. The energy is the length of all,
and so much for each unit by which devices are overfull.

Items may be *guests*, which wait for one separator, the *source*, and are waited for inside a block after it, by a
*reader*. What the source sends to them, and they to readers, leaves devices one by one and comes to them one by one,
here in the order of the blocks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by, copy_into
from partita.engines.kernels.arrays import Bools, Floats, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.random import below, share

#: Chances of a move: a row of separators, another piece, else an item; of a second row, of a neighbour's device,
#: of any piece.
_ROW, _PIECE, _TWO, _NEAR, _ANY = 0.45, 0.8, 0.5, 0.5, 0.5


class GuestArrays(NamedTuple):
    """Guests 0, …, g − 1 in the order of their blocks, between devices 0, …, D − 1; D is no end of a block."""

    source: int  #: The node they wait for.
    item: Longs  #: (g,) Which items they are.
    block: Longs  #: (g,) Where each is waited for.
    reader: Longs  #: (g,) By which of the readers that pieces have devices of.
    time: Floats  #: (g, D) What each takes.
    sends: Floats  #: (g, D, D) What the source sends to one for so long, from the first device to the second.
    gives: Floats  #: (g, D, D) The same of one to its reader.
    after: Floats  #: (g, D, D + 1) From then to the end of the block, by the devices of the reader and of the end.
    serial: Bools  #: (2,) Whether a device sends one thing at a time, and receives one.


class PieceArrays(NamedTuple):
    """Nodes 0, …, K of a chain are its ends and the separators between blocks 0, …, K − 1, on devices 0, …, D − 1."""

    kind: Longs  #: (K,) Of blocks: equal ones have the same pieces.
    #: (kinds, D + 1, D + 1) The pieces between two devices are those from the first to before the last; D is no end.
    first: Longs
    last: Longs
    length: Floats  #: (p,) Of pieces, without their ends.
    held: Floats  #: (p, D) What they hold, without their ends.
    reads: Longs  #: (p, r) Where their readers of guests are.
    able: Bools  #: (K + 1, D) Where nodes may be; nowhere for the ends.
    time: Floats  #: (K + 1, D) Time of nodes.
    memory: Floats  #: (K + 1,) What nodes hold.
    size: Floats  #: (i,) What items hold.
    cost: Floats  #: (i, D) What they cost; infinite where they cannot be.
    limit: Floats  #: (D,) What devices hold at most.
    price: Floats  #: (D,) What a unit costs.
    guests: GuestArrays


class _PieceState(NamedTuple):
    """``used`` (D,) is what devices hold.

    ``value`` (4,) is the length, what is too much, the best length that fits, and what of the length waits for guests.

    A move has ``changed`` (3,) so many nodes, blocks and items, which are in the rows of ``log``, and what they were in
    ``old``.
    """

    p: PieceArrays
    rate: float
    node: Longs
    chosen: Longs
    home: Longs
    used: Floats
    value: Floats
    changed: Longs
    log: Longs
    old: Longs
    draw: Floats
    free: Floats  #: (2, D) From when devices can send something, and receive something, to guests and from them.
    best_node: Longs
    best_chosen: Longs
    best_home: Longs


class _PieceMove(NamedTuple):
    """The energy rises by so much; length, excess and what waits for guests then."""

    rise: float
    length: float
    excess: float
    waits: float


@inlined
def _over(p: PieceArrays, used: Floats) -> float:
    """By how much devices are overfull."""
    total = 0.0
    for d in range(used.shape[0]):
        # Sums that are added to and taken from carry rounding; the evaluator has the last word.
        if used[d] > p.limit[d] * (1.0 + 1e-10):
            total += used[d] - p.limit[d]
    return total


@inlined
def _passes(c: _PieceState, sender: int, receiver: int, ready: float, takes: float) -> float:
    """When something has come from one device to another, each of which does so one by one."""
    free, serial = c.free, c.p.guests.serial
    start = ready
    if serial[0]:
        start = max(start, free[0, sender])
    if serial[1]:
        start = max(start, free[1, receiver])
    free[0, sender] = free[1, receiver] = start + takes
    return start + takes


@inlined
def _waits(c: _PieceState) -> float:
    """For how long blocks wait for guests."""
    p, guests = c.p, c.p.guests
    many, total, now, sourced, g = guests.item.shape[0], 0.0, 0.0, 0.0, 0
    if many == 0:
        return 0.0
    c.free[:] = 0.0
    source = c.node[guests.source]
    for k in range(c.chosen.shape[0]):
        if k > 0:
            now += p.time[k, c.node[k]]
        if k == guests.source:
            sourced = now
        now += p.length[c.chosen[k]]
        while g < many and guests.block[g] == k:
            d, r = c.home[guests.item[g]], p.reads[c.chosen[k], guests.reader[g]]
            has = sourced
            if d != source:
                has = _passes(c, source, d, has, guests.sends[g, source, d])
            has += guests.time[g, d]
            if d != r:
                has = _passes(c, d, r, has, guests.gives[g, d, r])
            has += guests.after[g, r, c.node[k + 1]]
            if has > now:
                total += has - now
                now = has
            g += 1
    return total


@inlined
def _hold(p: PieceArrays, used: Floats, piece: int, sign: float) -> None:
    for d in range(used.shape[0]):
        used[d] += sign * p.held[piece, d]


@inlined
def _noted(c: _PieceState, kind: int, place: int, was: int) -> None:
    """Remember what a node (0), block (1) or item (2) was before the move."""
    at = c.changed[kind]
    c.log[kind, at] = place
    c.old[kind, at] = was
    c.changed[kind] = at + 1


@inlined
def _exchange(c: _PieceState, k: int, piece: int) -> float:
    """Another piece for a block; by how much it is longer."""
    was = c.chosen[k]
    if piece == was:
        return 0.0
    _noted(c, 1, k, was)
    _hold(c.p, c.used, was, -1.0)
    _hold(c.p, c.used, piece, 1.0)
    c.chosen[k] = piece
    return float(c.p.length[piece] - c.p.length[was])


@inlined
def _take_piece(c: _PieceState, k: int) -> float:
    """The best piece of a block at prices drawn for the move; by how much it is longer, infinite if there is none."""
    p, devices = c.p, c.used.shape[0]
    a, s, t = p.kind[k], c.node[k], c.node[k + 1]
    found, least = -1, math.inf
    for piece in range(p.first[a, s, t], p.last[a, s, t]):
        total = p.length[piece]
        for d in range(devices):
            total += c.draw[d] * p.held[piece, d]
        if total < least:
            found, least = piece, total
    return math.inf if found < 0 else _exchange(c, k, found)


@inlined
def _take_row(c: _PieceState, first: int, last: int, new: int) -> float:
    """Nodes from the first to the last go to a device where they can, and blocks beside them change pieces."""
    p, longer = c.p, 0.0
    for k in range(first, last + 1):
        was = c.node[k]
        if was != new and p.able[k, new]:
            _noted(c, 0, k, was)
            c.node[k] = new
            c.used[was] -= p.memory[k]
            c.used[new] += p.memory[k]
            longer += p.time[k, new] - p.time[k, was]
    for k in range(first - 1, last + 1):
        longer += _take_piece(c, k)
        if longer == math.inf:
            break
    return longer


@inlined
def _draw_prices(c: _PieceState, random: Words) -> None:
    for d in range(c.used.shape[0]):
        c.draw[d] = 2.0 * share(random) * c.p.price[d]
        if c.used[d] > c.p.limit[d]:
            c.draw[d] += share(random) * c.rate


@inlined
def _propose(c: _PieceState, random: Words, trial: int, temperature: float) -> _PieceMove:
    p, blocks, devices = c.p, c.chosen.shape[0], c.used.shape[0]
    c.changed[:] = 0
    longer, kind = 0.0, share(random)
    if kind < _ROW and blocks > 1:
        _draw_prices(c, random)
        other = -1
        for turn in range(2):
            if turn == 1 and (other < 0 or share(random) >= _TWO):
                break
            first = 1 + below(random, blocks - 1)
            last = min(blocks - 1, first + int(math.exp(share(random) * math.log(blocks))) - 1)
            new = below(random, devices)
            if share(random) < _NEAR:
                beside = first - 1 if share(random) < 0.5 else last + 1
                if 0 < beside < blocks:
                    new = c.node[beside]
            if turn == 1:
                # What the first row left gets something else.
                new = other
            other = c.node[first]
            longer += _take_row(c, first, last, new)
            if longer == math.inf:
                break
    elif kind < _PIECE or p.size.shape[0] == 0:
        k = below(random, blocks)
        a, s, t = p.kind[k], c.node[k], c.node[k + 1]
        piece = p.first[a, s, t] + below(random, p.last[a, s, t] - p.first[a, s, t])
        # One that is best at no prices may be what fits.
        if share(random) < _ANY:
            longer = _exchange(c, k, piece)
        else:
            _draw_prices(c, random)
            longer = _take_piece(c, k)
    else:
        item = below(random, p.size.shape[0])
        was, new = c.home[item], below(random, devices)
        longer = p.cost[item, new] - p.cost[item, was]
        if new != was and longer < math.inf:
            _noted(c, 2, item, was)
            c.home[item] = new
            c.used[was] -= p.size[item]
            c.used[new] += p.size[item]
    if longer == math.inf or c.changed.sum() == 0:
        return _PieceMove(math.inf, 0.0, 0.0, 0.0)
    excess, waits = _over(p, c.used), _waits(c)
    longer += waits - c.value[3]
    return _PieceMove(longer + c.rate * (excess - c.value[1]), c.value[0] + longer, excess, waits)


@inlined
def _keep(c: _PieceState, move: _PieceMove) -> None:
    c.value[0], c.value[1], c.value[3] = move.length, move.excess, move.waits
    if move.excess == 0.0 and move.length < c.value[2] * (1.0 - 1e-12):
        c.value[2] = move.length
        copy_into(c.best_node, c.node)
        copy_into(c.best_chosen, c.chosen)
        copy_into(c.best_home, c.home)


@inlined
def _undo(c: _PieceState, move: _PieceMove) -> None:
    p = c.p
    for at in range(c.changed[1] - 1, -1, -1):
        k = c.log[1, at]
        _hold(p, c.used, c.chosen[k], -1.0)
        c.chosen[k] = c.old[1, at]
        _hold(p, c.used, c.chosen[k], 1.0)
    for at in range(c.changed[0] - 1, -1, -1):
        k, was = c.log[0, at], c.old[0, at]
        c.used[c.node[k]] -= p.memory[k]
        c.used[was] += p.memory[k]
        c.node[k] = was
    for at in range(c.changed[2]):
        item, was = c.log[2, at], c.old[2, at]
        c.used[c.home[item]] -= p.size[item]
        c.used[was] += p.size[item]
        c.home[item] = was


_STEPS = Steps(_propose, _keep, _undo)


@compiled
def anneal_pieces(
    p: PieceArrays,
    rate: float,
    node: Longs,
    chosen: Longs,
    home: Longs,
    cooling: Cooling,
    random: Words,
    stop: Longs,
) -> float:
    """Anneal devices of nodes (K + 1,), pieces of blocks (K,) and devices of items (i,) in place; the least length.

    They must fit together, and are the best met at the end. Devices that are overfull cost ``rate`` by unit of that;
    the length is infinite if no state met fits.
    """
    blocks, devices, items = chosen.shape[0], p.limit.shape[0], home.shape[0]
    used, value = np.zeros(devices), np.zeros(4)
    for k in range(blocks):
        value[0] += p.length[chosen[k]]
        _hold(p, used, chosen[k], 1.0)
        if k > 0:
            value[0] += p.time[k, node[k]]
            used[node[k]] += p.memory[k]
    for item in range(items):
        value[0] += p.cost[item, home[item]]
        used[home[item]] += p.size[item]
    value[1] = _over(p, used)
    wide = 2 * blocks + items + 4
    c = _PieceState(
        p,
        rate,
        node,
        chosen,
        home,
        used,
        value,
        np.zeros(3, dtype=np.int64),
        np.zeros((3, wide), dtype=np.int64),
        np.zeros((3, wide), dtype=np.int64),
        np.zeros(devices),
        np.zeros((2, devices)),
        node.copy(),
        chosen.copy(),
        home.copy(),
    )
    value[3] = _waits(c)
    value[0] += value[3]
    value[2] = value[0] if value[1] == 0.0 else math.inf
    anneal_by(c, _STEPS, cooling, random, stop)
    if value[2] < math.inf:
        node[:] = c.best_node
        chosen[:] = c.best_chosen
        home[:] = c.best_home
    return float(value[2])
