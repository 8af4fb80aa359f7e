"""Annealing of splits: items go to other devices, in free splits anywhere, in acyclic ones where labels fall nowhere.

The energy of a device is (cost / ref)^exponent, which smooths the maximum; a device costs its load, and where
overflowing bytes are reloaded, that. In a free split an item, a ball of items around it, or two items in exchange go to
other devices. In an acyclic one devices are stages: an item may go anywhere between the largest label of its
predecessors and the smallest of its successors; two may change places. Energies there are beside the best split, and
follow it. Source of that energy and move: experiments for maximum-throughput pipeline partitioning (pipelined
inference, ICML 2024, §4, compares searches over orders).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by, copy_into, largest, power
from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import called, compiled, inlined
from partita.engines.kernels.graph_arrays import GraphArrays
from partita.engines.kernels.random import below, draw, lower, share, upper
from partita.engines.kernels.rows import pins_of, predecessors, sets_with, successors
from partita.engines.kernels.throughput.free_splits import FreeArrays, FreeState, relocate
from partita.ground.rounding import NOT_ZERO, SUMMED_FEW

#: Most items moved at once.
BALL = 64


class SplitMemory(NamedTuple):
    """What bytes mean: nothing unless ``limited``; each one beyond a limit costs its ``reload`` time, if that is not 0.

    Otherwise an infinite ``penalty`` rejects what overflows (the start must fit then), and a finite one is charged to
    the energy for each share of a limit by which it is exceeded.
    """

    limited: bool
    penalty: float
    reload: float


class Energies(NamedTuple):
    """A split with ``level`` (D,) energies of devices beside a cost ``ref`` (1,); and scratch space.

    ``over`` (D,) is by which share of ``whole`` (D,), its limit, a device is overfull. With ``simple`` one item can be
    weighed without being moved.
    """

    a: FreeArrays
    s: FreeState
    memory: SplitMemory
    level: Floats
    over: Floats
    whole: Floats
    moves: Ints
    goals: Ints
    seen: Longs
    ref: Floats
    exponent: int
    simple: bool


class SplitMove(NamedTuple):
    """Items go between two devices, whose energies and overflows change.

    Either ``moves[:many]`` of the state have been moved, or none, and ``item`` is still to be.
    """

    rise: float
    item: int
    at: int
    to: int
    many: int
    level_at: float
    level_to: float
    over_at: float
    over_to: float


@inlined
def _cost(c: Energies, d: int) -> float:
    cost = float(c.s.load[d])
    if c.memory.reload > 0.0:
        cost += c.memory.reload * max(0.0, c.s.held[d] + c.s.space[d] - c.a.limit[d])
    return cost


@inlined
def _over(c: Energies, d: int) -> float:
    """By what share of its limit a device is overfull; it may be where bytes are reloaded."""
    if not c.memory.limited or c.memory.reload > 0.0:
        return 0.0
    return float(max(0.0, c.s.held[d] + c.s.space[d] - c.a.limit[d]) / c.whole[d])


@inlined
def _level(c: Energies, d: int, over: float) -> float:
    level = power(_cost(c, d) / c.ref[0], c.exponent)
    if over > 0.0 and c.memory.penalty < np.inf:
        level += c.memory.penalty * over
    return level


@inlined
def refer(c: Energies, ref: float) -> None:
    """Compute all energies beside a cost."""
    c.ref[0] = ref
    for d in range(c.level.shape[0]):
        c.over[d] = _over(c, d)
        c.level[d] = _level(c, d, c.over[d])


@called
def energies(a: FreeArrays, s: FreeState, memory: SplitMemory, ref: float, exponent: int) -> Energies:
    """The state of an annealing that begins at ``s``."""
    devices = a.kind_of.shape[0]
    # What an overflow is a share of: the limit, or all there is where nothing is allowed.
    whole, everything = np.empty(devices), a.memory.sum() + a.cover_bytes.sum() + a.workspace.sum()
    for d in range(devices):
        whole[d] = a.limit[d] if a.limit[d] > 0.0 else max(everything, NOT_ZERO)
    moves, goals = np.zeros(BALL + 1, np.int32), np.zeros(BALL + 1, np.int32)
    seen, levels = np.full(a.work.shape[0], -1, np.int64), np.empty((2, devices))
    hard = memory.penalty == np.inf and memory.reload == 0.0 and a.cover_bytes.shape[0] == 0
    simple = not memory.limited or hard
    c = Energies(a, s, memory, levels[0], levels[1], whole, moves, goals, seen, np.empty(1), exponent, simple)
    refer(c, ref)
    return c


@inlined
def no_move() -> SplitMove:
    return SplitMove(np.inf, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)


@inlined
def move_one(c: Energies, v: int, at: int, to: int) -> SplitMove:
    """A move of one item; not made yet where it can be weighed so."""
    if c.simple:
        return _move_alone(c, v, at, to)
    c.moves[0], c.goals[0] = v, to
    return move_listed(c, at, to, 1)


@inlined
def _move_alone(c: Energies, v: int, at: int, to: int) -> SplitMove:
    a, s = c.a, c.s
    kind_at, kind_to = a.kind_of[at], a.kind_of[to]
    if c.memory.limited and s.held[to] + a.memory[v] + max(s.space[to], a.workspace[v]) > a.limit[to]:
        return no_move()
    load_at, load_to = s.load[at] - a.work[v, kind_at], s.load[to] + a.work[v, kind_to]
    for e in sets_with(a.net, v):
        if s.pins[e, at] == 1:
            load_at -= a.net_cost[e, kind_at]
            if s.pins[e, to] == 0:
                load_to += a.net_cost[e, kind_to]
            elif s.touched[e] == 2:
                load_to -= a.net_cost[e, kind_to]
        elif s.pins[e, to] == 0:
            if s.touched[e] == 1:
                load_at += a.net_cost[e, kind_at]
            load_to += a.net_cost[e, kind_to]
    level_at, level_to = power(load_at / c.ref[0], c.exponent), power(load_to / c.ref[0], c.exponent)
    return SplitMove(level_at + level_to - c.level[at] - c.level[to], v, at, to, 0, level_at, level_to, 0.0, 0.0)


@inlined
def move_listed(c: Energies, at: int, to: int, many: int) -> SplitMove:
    """Move the first items of ``moves`` to ``goals``, of two devices; the list becomes that of the way back."""
    for i in range(many):
        c.goals[i] = relocate(c.a, c.s, c.moves[i], c.goals[i], c.memory.limited)
    over_at, over_to = _over(c, at), _over(c, to)
    level_at, level_to = _level(c, at, over_at), _level(c, to, over_to)
    rise = level_at + level_to - c.level[at] - c.level[to]
    if over_at + over_to > 0.0 and c.memory.penalty == np.inf:
        rise = np.inf
    return SplitMove(rise, 0, at, to, many, level_at, level_to, over_at, over_to)


@inlined
def _keep(c: Energies, move: SplitMove) -> None:
    """Note the energies, and the split if it is feasible and the best."""
    s, at, to = c.s, move.at, move.to
    if move.many == 0:
        relocate(c.a, s, move.item, to, c.memory.limited)
    c.level[at], c.level[to] = move.level_at, move.level_to
    c.over[at], c.over[to] = move.over_at, move.over_to
    if _cost(c, at) < s.value[0] and _cost(c, to) < s.value[0] and largest(c.over) == 0.0:
        top = 0.0
        for d in range(c.level.shape[0]):
            top = max(top, _cost(c, d))
        if top < s.value[0] * (1.0 - SUMMED_FEW):
            s.value[0] = top
            copy_into(s.best, s.label)


@inlined
def _undo(c: Energies, move: SplitMove) -> None:
    """Take back what has been moved."""
    for i in range(move.many):
        relocate(c.a, c.s, c.moves[i], c.goals[i], c.memory.limited)


@inlined
def _gather_ball(c: Energies, random: Words, trial: int, at: int, to: int) -> int:
    """List items around the first one that are on its device and can run on the other; how many."""
    a, label = c.a, c.s.label
    kind = a.kind_of[to]
    want = 2 + lower(draw(random), BALL - 1)
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
def _propose_free(c: Energies, random: Words, trial: int, temperature: float) -> SplitMove:
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
        return no_move()
    if form > 2:
        return move_one(c, v, at, to)
    c.moves[0], c.goals[0] = v, to
    count = 1
    if form == 0:
        count = _gather_ball(c, random, trial, at, to)
    elif form <= 2:
        w = upper(draw(random), n)
        if label[w] != to and mate >= 0 and label[mate] == to:
            w = int(mate)
        if label[w] != to or a.work[w, a.kind_of[at]] == np.inf:
            return no_move()
        c.moves[1], c.goals[1] = w, at
        count = 2
    return move_listed(c, at, to, count)


_FREE = Steps(_propose_free, _keep, _undo)


@compiled
def anneal_free(
    a: FreeArrays,
    s: FreeState,
    memory: SplitMemory,
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
    return anneal_by(energies(a, s, memory, ref, exponent), _FREE, cooling, random, stop)


class _Acyclic(NamedTuple):
    """What follows what beside a split, and the share of trials that exchange two items."""

    graph: GraphArrays
    split: Energies
    swaps: float


@inlined
def _window(graph: GraphArrays, label: Ints, v: int, k: int) -> tuple[int, int]:
    """Blocks that v can be in while the others stay."""
    low, high = 0, k - 1
    for u in predecessors(graph, v):
        low = max(low, label[u])
    if low < k - 1:
        for w in successors(graph, v):
            high = min(high, label[w])
    return low, high


@inlined
def _adjacent(graph: GraphArrays, v: int, u: int) -> bool:
    """Whether one of two items precedes the other directly."""
    for w in successors(graph, v):
        if w == u:
            return True
    for w in predecessors(graph, v):  # noqa: SIM110 (compiled code knows no generators)
        if w == u:
            return True
    return False


@inlined
def _propose_acyclic(c: _Acyclic, random: Words, trial: int, temperature: float) -> SplitMove:
    a, graph, label = c.split.a, c.graph, c.split.s.label
    n, k = a.work.shape[0], a.kind_of.shape[0]
    v = below(random, n)
    old = int(np.int64(label[v]))
    low, high = _window(graph, label, v, k)
    if low >= high:
        return no_move()
    if c.swaps == 0.0 or share(random) >= c.swaps:
        new = low + below(random, high - low)
        if new >= old:
            new += 1
        return no_move() if a.work[v, a.kind_of[new]] == np.inf else move_one(c.split, v, old, new)
    # Exchange two items, where loads are a matter of few large ones.
    u = below(random, n)
    new = int(np.int64(label[u]))
    if new == old or new < low or new > high:
        return no_move()
    first, second = _window(graph, label, u, k)
    if old < first or old > second or _adjacent(graph, v, u):
        return no_move()
    c.split.moves[0], c.split.goals[0], c.split.moves[1], c.split.goals[1] = v, new, u, old
    return move_listed(c.split, old, new, 2)


@inlined
def _keep_acyclic(c: _Acyclic, move: SplitMove) -> None:
    _keep(c.split, move)
    if c.split.s.value[0] < c.split.ref[0]:
        refer(c.split, c.split.s.value[0])


@inlined
def _undo_acyclic(c: _Acyclic, move: SplitMove) -> None:
    _undo(c.split, move)


_ACYCLIC = Steps(_propose_acyclic, _keep_acyclic, _undo_acyclic)


@compiled
def anneal_acyclic(
    graph: GraphArrays,
    a: FreeArrays,
    s: FreeState,
    memory: SplitMemory,
    exponent: int,
    swaps: float,
    cooling: Cooling,
    random: Words,
    stop: Longs,
) -> int:
    """Anneal from ``label``, at temperatures in units of the device that costs most in the best split.

    ``value`` is finite; it and ``best`` are updated. Returns the number of accepted trials.
    """
    if s.value[0] <= 0.0 or a.kind_of.shape[0] < 2:
        return 0
    c = _Acyclic(graph, energies(a, s, memory, s.value[0], exponent), swaps)
    return anneal_by(c, _ACYCLIC, cooling, random, stop)
