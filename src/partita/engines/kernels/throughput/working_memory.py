"""Can a set of operators run one after another within some working memory? And what does a given order need?

A tensor is held from the first to the last operator of the set that makes or reads it. Why the search may run some
operators at once, and what follows for sets, is in ``partita.problems.throughput.working_memory``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs, Words, zeros
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.graph_arrays import GraphArrays
from partita.engines.kernels.rows import row_of, successors

#: Answers of ``fit``: no order, an order (in ``PeakScratch.order``), undecided within the nodes allowed.
OVER, FITS, OPEN = 0, 1, 2


class PeakArrays(NamedTuple):
    """P operators, T tensors, and n items of operators; CSR pairs are (pointer, members)."""

    graph: GraphArrays  #: Who reads what an operator makes, each once.
    #: Tensors that an operator makes or reads.
    op_ptr: Ints
    op_tensors: Ints
    size: Floats  #: (T,) bytes.
    scratch: Floats  #: (P,) bytes an operator needs beside its tensors while it runs.
    #: Operators of an item, in an order in which they can run.
    item_ptr: Ints
    item_ops: Ints


class PeakScratch(NamedTuple):
    """Working arrays; ``members`` is the input and ``order`` the output of ``fit``; ``inside`` is 0 between calls."""

    members: Ints
    order: Ints
    inside: Bytes
    waiting: Ints
    ready: Ints
    place: Ints
    forced: Bytes
    live: Floats
    change: Floats
    pins: Ints
    done: Ints
    first: Words
    second: Words
    table: Words
    check: Words
    stamp: Longs


def peak_scratch(operators: int, tensors: int, nodes: int) -> PeakScratch:
    """Arrays for sets of up to so many operators and searches of up to so many nodes."""
    slots = 64
    while slots < 2 * nodes + 2:
        slots *= 2
    words = np.random.default_rng(20240301).integers(0, 2**63, size=2 * operators, dtype=np.uint64)
    words = words << np.uint64(1) | np.uint64(1)
    return zeros(
        PeakScratch,
        ("members order inside waiting place", operators),
        ("ready forced change", operators + 1),
        ("live", operators + 2),
        ("pins done", tensors),
        ("table check", slots),
        ("stamp", slots + 1),
        first=words[:operators].copy(),
        second=words[operators:].copy(),
    )


@inlined
def _count_pins(k: PeakArrays, x: PeakScratch, operators: Ints, count: int) -> None:
    """Count the pins of every tensor among the first ``count`` operators, none of them done."""
    for i in range(count):
        v = operators[i]
        for t in row_of(k.op_ptr, k.op_tensors, v):
            x.pins[t] = 0
            x.done[t] = 0
    for i in range(count):
        v = operators[i]
        for t in row_of(k.op_ptr, k.op_tensors, v):
            x.pins[t] += 1


@allocating_nothing
def peak_along(k: PeakArrays, x: PeakScratch, count: int) -> float:
    """Most memory held while the first ``count`` operators of ``x.order`` run in turn."""
    _count_pins(k, x, x.order, count)
    live, peak = 0.0, 0.0
    for i in range(count):
        v = x.order[i]
        for t in row_of(k.op_ptr, k.op_tensors, v):
            if x.done[t] == 0:
                live += k.size[t]
        peak = max(peak, live + k.scratch[v])
        for t in row_of(k.op_ptr, k.op_tensors, v):
            x.done[t] += 1
            if x.done[t] == x.pins[t]:
                live -= k.size[t]
    return peak


@inlined
def _known(x: PeakScratch, one: np.uint64, two: np.uint64) -> bool:
    """Whether a set of operators that have run was met before in this search; it is from now on."""
    slots = x.table.shape[0]
    mask = slots - 1
    turn = x.stamp[slots]
    slot = int(one >> np.uint64(20)) & mask
    while x.stamp[slot] == turn:
        if x.table[slot] == one and x.check[slot] == two:
            return True
        slot = (slot + 1) & mask
    x.stamp[slot], x.table[slot], x.check[slot] = turn, one, two
    return False


@inlined
def _add_ready(x: PeakScratch, v: int, ready: int) -> int:
    """One more operator can run; how many can."""
    x.ready[ready] = v
    x.place[v] = ready
    return ready + 1


@inlined
def _drop_ready(x: PeakScratch, v: int, ready: int) -> int:
    """An operator is no longer among those that can run; how many are left."""
    moved = x.ready[ready - 1]
    x.ready[x.place[v]] = moved
    x.place[moved] = x.place[v]
    return ready - 1


@inlined
def _run(k: PeakArrays, x: PeakScratch, v: int, ready: int) -> int:
    """An operator that can run does; how many can then."""
    ready = _drop_ready(x, v, ready)
    for t in row_of(k.op_ptr, k.op_tensors, v):
        x.done[t] += 1
    for u in successors(k.graph, v):
        if x.inside[u] != 0:
            x.waiting[u] -= 1
            if x.waiting[u] == 0:
                ready = _add_ready(x, u, ready)
    return ready


@inlined
def _take_back(k: PeakArrays, x: PeakScratch, v: int, ready: int) -> int:
    """The last operator that ran has not; how many can run then."""
    for u in successors(k.graph, v):
        if x.inside[u] != 0:
            if x.waiting[u] == 0:
                ready = _drop_ready(x, u, ready)
            x.waiting[u] += 1
    for t in row_of(k.op_ptr, k.op_tensors, v):
        x.done[t] -= 1
    return _add_ready(x, v, ready)


@inlined
def _choose(
    k: PeakArrays, x: PeakScratch, ready: int, live: float, most: float, last_change: float, last: int
) -> tuple[int, float]:
    """What can run next and adds least, of those after the last one tried, by (change, number); −1 for none."""
    chosen, least = -1, np.inf
    for i in range(ready):
        v = x.ready[i]
        need, change = live + k.scratch[v], 0.0
        for t in row_of(k.op_ptr, k.op_tensors, v):
            if x.done[t] == 0:
                need += k.size[t]
                if x.pins[t] > 1:
                    change += k.size[t]
            elif x.done[t] + 1 == x.pins[t]:
                change -= k.size[t]
        if need > most or change < last_change or (change == last_change and v <= last):
            continue
        if change < least or (change == least and v < chosen):
            chosen, least = v, change
    return chosen, least


@allocating_nothing
def fit(k: PeakArrays, x: PeakScratch, count: int, most: float, nodes: int) -> int:
    """Whether the first ``count`` operators of ``x.members`` can run in some order with at most ``most`` bytes held.

    Tries at most ``nodes`` states, no more than the scratch arrays are made for. Operators that hold less or as much
    after they ran are run as soon as they can; otherwise those that add least are tried first.
    """
    _count_pins(k, x, x.members, count)
    for i in range(count):
        x.inside[x.members[i]] = 1
        x.waiting[x.members[i]] = 0
    possible = True
    for i in range(count):
        v = x.members[i]
        own = k.scratch[v]
        for t in row_of(k.op_ptr, k.op_tensors, v):
            own += k.size[t]
        possible = possible and own <= most
        for w in successors(k.graph, v):
            if x.inside[w] != 0:
                x.waiting[w] += 1
    if not possible:
        for i in range(count):
            x.inside[x.members[i]] = 0
        return OVER
    x.stamp[x.table.shape[0]] += 1
    ready = 0
    for i in range(count):
        v = x.members[i]
        x.place[v] = -1
        if x.waiting[v] == 0:
            ready = _add_ready(x, v, ready)
    depth, tried = 0, 0
    x.live[0] = 0.0
    one, two = np.uint64(0), np.uint64(0)
    # The last operator tried here.
    last_change, last = -np.inf, -1
    answer = FITS
    while depth < count:
        v, least = _choose(k, x, ready, x.live[depth], most, last_change, last)
        if v < 0:
            # Go back to the last operator that was a choice.
            over = True
            while over and depth > 0:
                depth -= 1
                v = x.order[depth]
                ready = _take_back(k, x, v, ready)
                one ^= x.first[v]
                two ^= x.second[v]
                if x.forced[depth] == 0:
                    last_change, last = x.change[depth], v
                    over = False
            if over:
                answer = OVER
                break
            continue
        forced = least <= 0.0
        if not forced and _known(x, one ^ x.first[v], two ^ x.second[v]):
            last_change, last = least, v
            continue
        tried += 1
        if tried > nodes:
            answer = OPEN
            break
        x.order[depth], x.change[depth], x.forced[depth] = v, least, 1 if forced else 0
        one ^= x.first[v]
        two ^= x.second[v]
        ready = _run(k, x, v, ready)
        x.live[depth + 1] = x.live[depth] + least
        depth += 1
        last_change, last = -np.inf, -1
    for i in range(count):
        x.inside[x.members[i]] = 0
    return answer
