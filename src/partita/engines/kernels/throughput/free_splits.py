"""Free splits under moves: any item may be on any device, and what follows from a split is kept up to date.

Moving an item from device a to device b changes only the loads of a and b, because a net that a third device touches
stays cut for it. A move therefore costs O(nets of the item).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, zeros
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.graph_arrays import Sets, sets_of
from partita.engines.kernels.rows import sets_with
from partita.engines.kernels.throughput.arrays import Arrays
from partita.engines.kernels.throughput.blocks import BlockProblem


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


def stages_as_devices(a: Arrays, kind: Ints) -> FreeArrays:
    """Devices for stages of these kinds; memory of ``fixed`` and ``active`` bytes only."""
    n = a.work.shape[1]
    return FreeArrays(
        net=a.net,
        cover=sets_of((), n),
        work=np.ascontiguousarray(a.work.T),
        net_cost=np.ascontiguousarray(a.net_cost.T),
        kind_of=kind,
        memory=a.fixed + a.in_flight[1] * a.active,
        workspace=np.zeros(n),
        cover_bytes=np.zeros(0),
        limit=a.memory[kind],
    )


def blocks_as_devices(a: BlockProblem) -> FreeArrays:
    """Devices for the blocks of a problem."""
    return FreeArrays(
        net=a.net,
        cover=a.cover,
        work=a.work[:, None],
        net_cost=a.cost[:, None],
        kind_of=np.zeros(a.devices, np.int32),
        memory=a.held,
        workspace=a.workspace,
        cover_bytes=a.cover_bytes,
        limit=np.full(a.devices, a.limit[0]),
    )


class FreeState(NamedTuple):
    """A split and all that follows from it.

    ``label`` (n,) device of each item, ``load`` (D,), ``pins`` (m, D) pins of a net on a device, ``touched`` (m,)
    devices with a pin, ``held`` (D,) bytes without workspace, ``space`` (D,) workspace, ``cover_pins`` (c, D).
    ``best`` (n,) is the best feasible split, ``value`` its largest load.
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


def empty_state(a: FreeArrays) -> FreeState:
    """A state with room for the arrays; ``label`` is to be filled and ``reset`` called."""
    n, m, c, devices = a.work.shape[0], a.net_cost.shape[0], a.cover_bytes.shape[0], a.kind_of.shape[0]
    state = zeros(
        FreeState,
        ("label best", n),
        ("load held space", devices),
        ("pins", (m, devices)),
        ("touched", m),
        ("cover_pins", (c, devices)),
        ("value", 1),
    )
    state.value[0] = math.inf
    return state


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
        for e in sets_with(a.net, v):
            s.pins[e, d] += 1
            if s.pins[e, d] == 1:
                s.touched[e] += 1
        for c in sets_with(a.cover, v):
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
    for e in sets_with(a.net, v):
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
    for c in sets_with(a.cover, v):
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
def descend(a: FreeArrays, s: FreeState, epsilon: float, moves: int) -> bool:
    """Make up to ``moves`` best moves from ``label``; whether a local optimum was reached.

    Every device is of a kind of its own, and memory is not looked at. A move changes two loads only, because a net that
    other devices cut stays cut for them. Moves that lower the largest load by less than ``epsilon`` (relative) are not
    made.
    """
    n, devices = a.work.shape
    work, net_cost, label, loads, pins = a.work, a.net_cost, s.label, s.load, s.pins
    reset(a, s)
    gain = np.zeros(devices)
    for _ in range(moves):
        top = loads.max()
        best, best_item, best_device = top * (1 - epsilon), -1, -1
        for v in range(n):
            here = label[v]
            # The largest load without device ``here`` and any other one is at least this.
            leave = loads[here] - work[v, here]
            for d in range(devices):
                gain[d] = work[v, d]
            for e in sets_with(a.net, v):
                size = a.net.ptr[e + 1] - a.net.ptr[e]
                if pins[e, here] < size:
                    leave -= net_cost[e, here]
                if pins[e, here] > 1:
                    leave += net_cost[e, here]
                for d in range(devices):
                    if d != here:
                        if pins[e, d] > 0:
                            gain[d] -= net_cost[e, d]
                        if pins[e, d] + 1 < size:
                            gain[d] += net_cost[e, d]
            if leave >= best:
                continue
            for d in range(devices):
                if d == here or loads[d] + gain[d] >= best:
                    continue
                value = max(leave, loads[d] + gain[d])
                for other in range(devices):
                    if other != here and other != d and loads[other] > value:
                        value = loads[other]
                if value < best:
                    best, best_item, best_device = value, v, d
        if best_item < 0:
            return True
        relocate(a, s, best_item, best_device, False)
    return False
