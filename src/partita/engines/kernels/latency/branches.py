"""Every placement of a few operators, one operator after the other, left where what is placed takes too long already.

A plan without some operators has pieces that do, hold and move no more, that wait for no more, and no circle that was
not there before. So what the first operators of a topological order take, together with the least that follows any of
them, is a bound on all placements that go on from there.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.latency.arrays import LatencyArrays
from partita.engines.kernels.rows import members_of, predecessors, successors

#: What a call ends with: all is tried, a placement is found, its steps are used up.
OVER, FOUND, SPENT = 0, 1, 2

#: Beside a bit for each slot that reads a tensor, one for whether anything outside its producer's place does.
OUT = np.int64(1) << np.int64(62)


@compiled
def rests(a: LatencyArrays, barred: Ints) -> tuple[Floats, Floats]:
    """(n,) The least time after an operator is done, where it is on the CPU, and where it is in a piece.

    ``barred`` (n,) says what can be in no piece. Where a path goes from the CPU into a piece, or out of one, the piece
    pays for the tensor; staying on accelerators is taken to be free.
    """
    n = a.cpu.shape[0]
    on_cpu, in_piece = np.zeros(n), np.zeros(n)
    for v in range(n - 1, -1, -1):
        for w in successors(a.graph, v):
            there = a.cpu[w] + on_cpu[w]
            here = np.inf if barred[w] else a.acc[w] + in_piece[w]
            on_cpu[v] = max(on_cpu[v], min(there, a.comm[v] + here))
            in_piece[v] = max(in_piece[v], min(a.comm[v] + there, here))
    return on_cpu, in_piece


@compiled
def branch(
    a: LatencyArrays,
    barred: Ints,
    rest: tuple[Floats, Floats],
    chained: bool,
    slot: Ints,
    choice: Ints,
    at: Longs,
    least: float,
    steps: int,
) -> int:
    """Go on to the next placement that takes less than ``least``, over at most so many steps; see ``OVER``.

    There are at most 62 slots; ``barred`` and ``rest`` are those of ``rests``. Pieces of an accelerator wait for each
    other in the order of the slots if they are ``chained``. Otherwise they wait for no other and are alike, and what is
    found is a bound for all of their orders. ``slot`` (n,) is the placement found, ``choice`` (n,) the one that each
    operator is at, ``at`` (1,) how many operators are placed: zeros at first.
    """
    n = a.cpu.shape[0]
    slots = a.shape[0] * a.shape[1] * a.shape[2]
    held, end, start = np.zeros(a.shape[0]), np.zeros(slots + n), np.zeros(slots)
    time, seen = np.zeros(slots), np.zeros(n, np.int64)
    depth = at[0]
    while steps > 0:
        if depth == n or choice[depth] > a.shape[0] * a.shape[2]:
            # A placement found before, or nothing left to try: go back to the operator before.
            if depth < n:
                choice[depth] = 0
            depth -= 1
            if depth < 0:
                at[0] = 0
                return OVER
            continue
        steps -= 1
        option = choice[depth]
        choice[depth] += 1
        if not _put(a, barred, chained, slot, depth, option, held):
            continue
        if _least(a, rest, chained, slot, depth + 1, end, start, time, seen) >= least:
            continue
        depth += 1
        if depth == n:
            at[0] = n
            return FOUND
    at[0] = depth
    return SPENT


@inlined
def _put(a: LatencyArrays, barred: Ints, chained: bool, slot: Ints, v: int, option: int, held: Floats) -> bool:
    """Give an operator its choice: the CPU, or a piece; false if it may not be there, or an equal one was tried."""
    devices, passes, pieces = a.shape[0], a.shape[1], a.shape[2]
    each = passes * pieces
    slots = devices * each
    device = -1 if option == 0 else (option - 1) // pieces
    piece = 0 if option == 0 else (option - 1) % pieces
    used, first = 0, True
    for u in members_of(a.group, a.group.of[v]):
        if u < v:
            first = False
            if device != (slot[u] // each if slot[u] < slots else -1):
                return False
    if device < 0:
        slot[v] = slots
        return True
    if barred[v]:
        return False
    to = device * each + a.part[v] * pieces + piece
    held[device], filled = a.mem[v], -1
    for u in range(v):
        if slot[u] < slots:
            used = max(used, slot[u] // each + 1)
            if slot[u] // each == device:
                held[device] += a.mem[u]
                if a.part[u] == a.part[v]:
                    filled = max(filled, slot[u] % pieces)
    # Accelerators are alike, and pieces whose order is not said.
    if held[device] > a.limit[0] or (first and device > used) or (not chained and piece > filled + 1):
        return False
    slot[v] = to
    return True


@inlined
def _least(
    a: LatencyArrays,
    rest: tuple[Floats, Floats],
    chained: bool,
    slot: Ints,
    count: int,
    end: Floats,
    start: Floats,
    time: Floats,
    seen: Longs,
) -> float:
    """The least latency with the first operators placed so; infinite if their pieces wait in a circle."""
    slots = start.shape[0]
    each = a.shape[1] * a.shape[2]
    time[:] = 0.0
    for u in range(count):
        home = slot[u]
        seen[u] = 0
        for w in successors(a.graph, u):
            if w < count and slot[w] != home:
                seen[u] |= OUT
                if slot[w] < slots and not (seen[u] >> slot[w]) & 1:
                    seen[u] |= np.int64(1) << slot[w]
                    time[slot[w]] += a.comm[u]
        if home < slots:
            time[home] += a.acc[u] + (a.comm[u] if seen[u] & OUT else 0.0)
    start[:] = 0.0
    for p in range(slots):
        end[p] = time[p]
    # Starts rise until all are as late as what they wait for; in a circle they never stop.
    moved, rounds = True, 0
    while moved:
        if rounds > slots + count + 1:
            return np.inf
        moved = False
        rounds += 1
        for v in range(count):
            ready = 0.0
            for u in predecessors(a.graph, v):
                if slot[u] == slots:
                    ready = max(ready, end[slots + u])
                elif slot[u] != slot[v]:
                    ready = max(ready, end[slot[u]])
            if slot[v] == slots:
                if rounds == 1 or ready + a.cpu[v] > end[slots + v]:
                    end[slots + v] = ready + a.cpu[v]
                    moved = True
            elif ready > start[slot[v]]:
                start[slot[v]] = ready
                end[slot[v]] = ready + time[slot[v]]
                moved = True
        if chained:
            for p in range(slots):
                if p % each and end[p - 1] > start[p]:
                    start[p] = end[p - 1]
                    end[p] = start[p] + time[p]
                    moved = True
    least = 0.0
    for u in range(count):
        done = end[slots + u] if slot[u] == slots else end[slot[u]]
        # A piece hands a tensor out once, whoever reads it.
        out, after = 0.0 if seen[u] & OUT else a.comm[u], 0.0
        for w in successors(a.graph, u):
            if w >= count:
                there, here = a.cpu[w] + rest[0][w], a.acc[w] + rest[1][w]
                if slot[u] == slots:
                    after = max(after, min(there, a.comm[u] + here))
                else:
                    after = max(after, min(out + there, here))
        least = max(least, done + after)
    return least
