"""Simulated annealing on free splits: any item may go to any device.

Moving an item from device a to device b changes only the loads of a and b, because a net that a third device touches
stays cut for it. A trial therefore costs O(nets of the item). The energy Σ ref·(load/ref)^p smooths the maximum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.kernels.arrays import Floats, Ints, Words
from partita.kernels.compiled import compiled, inlined
from partita.kernels.graph_arrays import Sets

#: Largest ball of items moved at once.
BALL = 64
#: Trials at one temperature.
COOLING_BLOCK = 256
#: In place of an energy: the move was undone.
REFUSED = -1.0


class FreeArrays(NamedTuple):
    """n items, m nets, c covers, D devices of K kinds.

    ``work`` (n, K) is infinite where an item cannot run; ``net_cost`` (m, K); ``kind_of`` (D,); ``memory`` (n,) bytes
    of an item, ``workspace`` (n,) bytes of which a device needs the largest, ``cover_bytes`` (c,) bytes of a device
    with any pin of the cover, ``limit`` (D,) bytes, infinite for none.
    """

    net: Sets
    cover: Sets
    work: Floats
    net_cost: Floats
    kind_of: Ints
    memory: Floats
    workspace: Floats
    cover_bytes: Floats
    limit: Floats


class FreeState(NamedTuple):
    """A split and all that follows from it.

    ``label`` (n,) device of each item, ``load`` (D,), ``pins`` (m, D) pins of a net on a device, ``touched`` (m,)
    devices with a pin, ``held`` (D,) bytes without workspace, ``space`` (D,) workspace, ``cover_pins`` (c, D).
    ``best`` (n,) is the best feasible split, ``value`` its largest load; ``random`` is the generator's state.
    """

    label: Ints
    load: Floats
    pins: Ints
    touched: Ints
    held: Floats
    space: Floats
    cover_pins: Ints
    best: Ints
    value: Floats
    random: Words


def empty_state(a: FreeArrays, seed: int) -> FreeState:
    """A state with room for the arrays; ``label`` is to be filled and ``reset`` called."""
    n, m, c, devices = a.work.shape[0], a.net_cost.shape[0], a.cover_bytes.shape[0], a.kind_of.shape[0]
    mixed = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64
    return FreeState(
        label=np.zeros(n, np.int32),
        load=np.zeros(devices),
        pins=np.zeros((m, devices), np.int32),
        touched=np.zeros(m, np.int32),
        held=np.zeros(devices),
        space=np.zeros(devices),
        cover_pins=np.zeros((c, devices), np.int32),
        best=np.zeros(n, np.int32),
        value=np.array([math.inf]),
        random=np.array([mixed or 1], np.uint64),
    )


@compiled
def reset(a: FreeArrays, s: FreeState) -> None:
    """Recompute everything from ``label``, and so drop what rounding has gathered."""
    s.load[:] = 0.0
    s.pins[:] = 0
    s.touched[:] = 0
    s.held[:] = 0.0
    s.space[:] = 0.0
    s.cover_pins[:] = 0
    for v in range(s.label.shape[0]):
        d = s.label[v]
        s.load[d] += a.work[v, a.kind_of[d]]
        s.held[d] += a.memory[v]
        s.space[d] = max(s.space[d], a.workspace[v])
        for q in range(a.net.item_ptr[v], a.net.item_ptr[v + 1]):
            e = a.net.of_item[q]
            s.pins[e, d] += 1
            if s.pins[e, d] == 1:
                s.touched[e] += 1
        for q in range(a.cover.item_ptr[v], a.cover.item_ptr[v + 1]):
            c = a.cover.of_item[q]
            s.cover_pins[c, d] += 1
            if s.cover_pins[c, d] == 1:
                s.held[d] += a.cover_bytes[c]
    for e in range(s.touched.shape[0]):
        if s.touched[e] > 1:
            for d in range(s.load.shape[0]):
                if s.pins[e, d] > 0:
                    s.load[d] += a.net_cost[e, a.kind_of[d]]


@inlined
def relocate(a: FreeArrays, s: FreeState, v: int, to: int, limited: bool) -> int:
    """Move an item to a device, bytes only where they are ``limited``; where it was."""
    at = s.label[v]
    ka, kt = a.kind_of[at], a.kind_of[to]
    s.label[v] = to
    s.load[at] -= a.work[v, ka]
    s.load[to] += a.work[v, kt]
    for q in range(a.net.item_ptr[v], a.net.item_ptr[v + 1]):
        e = a.net.of_item[q]
        here, there = s.pins[e, at], s.pins[e, to]
        if here == 1:
            s.load[at] -= a.net_cost[e, ka]
            if there == 0:
                s.load[to] += a.net_cost[e, kt]
            else:
                if s.touched[e] == 2:
                    s.load[to] -= a.net_cost[e, kt]
                s.touched[e] -= 1
        elif there == 0:
            if s.touched[e] == 1:
                s.load[at] += a.net_cost[e, ka]
            s.load[to] += a.net_cost[e, kt]
            s.touched[e] += 1
        s.pins[e, at] = here - 1
        s.pins[e, to] = there + 1
    if not limited:
        return int(at)
    s.held[at] -= a.memory[v]
    s.held[to] += a.memory[v]
    for q in range(a.cover.item_ptr[v], a.cover.item_ptr[v + 1]):
        c = a.cover.of_item[q]
        s.cover_pins[c, at] -= 1
        if s.cover_pins[c, at] == 0:
            s.held[at] -= a.cover_bytes[c]
        s.cover_pins[c, to] += 1
        if s.cover_pins[c, to] == 1:
            s.held[to] += a.cover_bytes[c]
    if a.workspace[v] > 0.0:
        s.space[to] = max(s.space[to], a.workspace[v])
        if a.workspace[v] >= s.space[at]:
            s.space[at] = 0.0
            for u in range(s.label.shape[0]):
                if s.label[u] == at and a.workspace[u] > s.space[at]:
                    s.space[at] = a.workspace[u]
    return int(at)


@compiled
def _energy(load: float, ref: float, p: int) -> float:
    x = load / ref
    y = x * x
    if p >= 4:
        y = y * y
    if p >= 8:
        y = y * y
    if p >= 16:
        y = y * y
    if p >= 64:
        y = y * y
        y = y * y
    return ref * y


@compiled
def anneal(
    a: FreeArrays, s: FreeState, ref: float, p: int, hot: float, cold: float, trials: int, penalty: float, limited: bool
) -> int:
    """Anneal from ``label`` for a number of trials, cooling geometrically from ``hot`` to ``cold`` (shares of ref).

    ``p`` is 2, 4, 8, 16 or 64. An infinite penalty rejects what overflows memory (the start must fit then); a finite
    one charges ``penalty * ref`` for each share of a limit by which it is exceeded. ``best`` and ``value`` are updated
    with feasible splits only. Returns the number of accepted trials.

    Everything is in one function on purpose: passing the arrays on costs more than a trial.
    """
    work, net_cost, kind_of = a.work, a.net_cost, a.kind_of
    net_ptr, net_pins, item_net_ptr, item_nets = a.net.ptr, a.net.pins, a.net.item_ptr, a.net.of_item
    label, load, pins, touched = s.label, s.load, s.pins, s.touched
    n, devices = work.shape[0], kind_of.shape[0]
    if n == 0 or devices < 2:
        return 0
    hard = penalty == np.inf
    easy = not limited or (hard and a.cover_bytes.shape[0] == 0)
    moves = np.zeros(BALL + 1, np.int32)
    goals = np.zeros(BALL + 1, np.int32)
    seen = np.full(n, -1, np.int64)
    level, over = np.zeros(devices), np.zeros(devices)
    # What an overflow is a share of: the limit, or all there is where nothing is allowed.
    whole = np.empty(devices)
    everything = a.memory.sum() + a.cover_bytes.sum() + a.workspace.sum()
    for i in range(devices):
        whole[i] = a.limit[i] if a.limit[i] > 0.0 else max(everything, 1e-300)
    for i in range(devices):
        if limited and a.limit[i] != np.inf:
            over[i] = max(0.0, s.held[i] + s.space[i] - a.limit[i]) / whole[i]
        level[i] = _energy(load[i], ref, p) + (0.0 if hard else penalty * ref * over[i])
    over_d, over_b = 0.0, 0.0
    state = s.random[0]
    temperature = hot * ref
    cooling = (cold / hot) ** (COOLING_BLOCK / max(1, trials))
    accepted = 0
    low_bits = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for trial in range(trials):
        if trial % COOLING_BLOCK == 0:
            temperature *= cooling
        # xorshift64*, twice: v and the form of the move, then the device and the chance of acceptance.
        state ^= state >> np.uint64(12)
        state ^= state << np.uint64(25)
        state ^= state >> np.uint64(27)
        r = state * np.uint64(2685821657736338717)
        v = np.int64(((r >> half) * np.uint64(n)) >> half)
        form = np.int64((r >> np.uint64(4)) & np.uint64(15))
        near = (r >> np.uint64(8)) & np.uint64(3)
        other = np.int64((((r >> np.uint64(10)) & np.uint64(0x3FFFFF)) * np.uint64(devices)) >> np.uint64(22))
        state ^= state >> np.uint64(12)
        state ^= state << np.uint64(25)
        state ^= state >> np.uint64(27)
        r = state * np.uint64(2685821657736338717)
        d = np.int64(label[v])
        first, last = item_net_ptr[v], item_net_ptr[v + 1]
        b = other
        mate = -1
        if near != np.uint64(0) and last > first:
            e = item_nets[first + np.int64(((r >> half) * np.uint64(last - first)) >> half)]
            size = net_ptr[e + 1] - net_ptr[e]
            mate = net_pins[net_ptr[e] + np.int64(((r & low_bits) * np.uint64(size)) >> half)]
            b = np.int64(label[mate])
            if form == 0 and b == d:
                # Around the seed of a ball all may be inside: let it go anywhere.
                b = other
        if b == d:
            continue
        kd, kb = kind_of[d], kind_of[b]
        if work[v, kb] == np.inf:
            continue
        chance = np.float64((r * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        moves[0], goals[0] = v, b
        count = 1
        tried = form > 2 and easy
        if tried:
            # One item, tried without being moved.
            to_d, to_b = -work[v, kd], work[v, kb]
            for q in range(first, last):
                e = item_nets[q]
                if pins[e, d] == 1:
                    to_d -= net_cost[e, kd]
                    if pins[e, b] == 0:
                        to_b += net_cost[e, kb]
                    elif touched[e] == 2:
                        to_b -= net_cost[e, kb]
                elif pins[e, b] == 0:
                    if touched[e] == 1:
                        to_d += net_cost[e, kd]
                    to_b += net_cost[e, kb]
            new_d, new_b = _energy(load[d] + to_d, ref, p), _energy(load[b] + to_b, ref, p)
            rise = new_d + new_b - level[d] - level[b]
            if rise > 0.0 and (rise > 30.0 * temperature or chance >= math.exp(-rise / temperature)):
                continue
            if limited and s.held[b] + a.memory[v] + max(s.space[b], a.workspace[v]) > a.limit[b]:
                continue
        elif form == 0:
            want = 2 + np.int64(((r & low_bits) * np.uint64(BALL - 1)) >> half)
            seen[v] = trial
            head = 0
            while head < count and count < want:
                u = moves[head]
                head += 1
                for q in range(item_net_ptr[u], item_net_ptr[u + 1]):
                    e = item_nets[q]
                    if pins[e, d] == 1:
                        continue
                    for i in range(net_ptr[e], net_ptr[e + 1]):
                        w = net_pins[i]
                        if seen[w] != trial and label[w] == d and count < want:
                            seen[w] = trial
                            if work[w, kb] != np.inf:
                                moves[count], goals[count] = w, b
                                count += 1
        elif form <= 2:
            w = np.int64(((r & low_bits) * np.uint64(n)) >> half)
            if label[w] != b and mate >= 0 and label[mate] == b:
                w = np.int64(mate)
            if label[w] != b or work[w, kd] == np.inf:
                continue
            moves[1], goals[1] = w, d
            count = 2
        while True:
            # Move what is listed; a refused list comes back reversed.
            for i in range(count):
                goals[i] = relocate(a, s, moves[i], goals[i], limited)
            if tried:
                break
            # Judge once; the second time round the list has been undone.
            tried = True
            new_d, new_b = _energy(load[d], ref, p), _energy(load[b], ref, p)
            if limited:
                over_d = max(0.0, s.held[d] + s.space[d] - a.limit[d]) / whole[d]
                over_b = max(0.0, s.held[b] + s.space[b] - a.limit[b]) / whole[b]
                if not hard:
                    new_d += penalty * ref * over_d
                    new_b += penalty * ref * over_b
            rise = new_d + new_b - level[d] - level[b]
            refused = limited and hard and over_d + over_b > 0.0
            if refused or (rise > 0.0 and (rise > 30.0 * temperature or chance >= math.exp(-rise / temperature))):
                new_d = REFUSED
            else:
                over[d], over[b] = over_d, over_b
                break
        if new_d == REFUSED:
            continue
        accepted += 1
        level[d], level[b] = new_d, new_b
        if load[d] < s.value[0] and load[b] < s.value[0]:
            top, spilled = 0.0, 0.0
            for i in range(devices):
                top = max(top, load[i])
                spilled += over[i]
            if top < s.value[0] * (1.0 - 1e-12) and spilled == 0.0:
                s.value[0] = top
                s.best[:] = label
    s.random[0] = state
    return accepted
