"""Steps that all searches take while they build a stage: items join it one by one, or stay outside.

An item stays outside together with all that depends on it. Both decisions can be taken back in turn, last one first.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.compiled import called_allocating_nothing, inlined
from partita.engines.kernels.rows import sets_with, successors
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.arrays import Arrays, Codes
from partita.engines.kernels.throughput.downsets import dominated, flip, store_downset
from partita.engines.kernels.throughput.search_state import Scratch, StageTrial, StateStore

#: Status of an item while a stage is built: out of reach (or in the downset), open, in it, excluded, about to be.
AWAY, OPEN, CHOSEN, EXCLUDED, LISTED = range(5)


@called_allocating_nothing
def reach_items(
    a: Arrays, s: StateStore, x: Scratch, time: Floats, most: float, before: Floats, most_before: Floats
) -> tuple[int, int, int]:
    """List in ``x.reach`` what a stage after the current downset can hold, ready items first: these become open.

    That is what has no longer chain of ``time`` before it than ``most``, and of ``before`` (rows, n), what lies before
    an item in any order, no more than ``most_before`` (rows,). Returns how many are ready, how many are listed, and the
    number of words beyond which no item is.
    """
    s.counters[at.STAMP] += 1
    stamp, reach = s.counters[at.STAMP], x.reach
    for i in range(x.places[at.READY]):
        v = x.ready_items[i]
        j = i
        # Insertion sort: the order of decisions must not depend on the path to this downset.
        while j > 0 and reach[j - 1] > v:
            reach[j] = reach[j - 1]
            j -= 1
        reach[j] = v
    count, top = 0, x.places[at.END]
    for i in range(x.places[at.READY]):
        v = reach[i]
        if time[v] <= most:
            reach[count] = v
            x.head[v] = time[v]
            count += 1
    ready, i = count, 0
    while i < count:
        v = reach[i]
        i += 1
        x.status[v] = OPEN
        top = max(top, v // 64 + 1)
        for u in successors(a.graph, v):
            if x.stamp_item[u] != stamp:
                x.stamp_item[u] = stamp
                x.missing_now[u] = x.missing[u]
                x.head[u] = 0.0
            x.missing_now[u] -= 1
            x.head[u] = max(x.head[u], x.head[v])
            if x.missing_now[u] == 0:
                x.head[u] += time[u]
                within = x.head[u] <= most
                for row in range(before.shape[0]):
                    within = within and before[row, u] <= most_before[row]
                if within:
                    reach[count] = u
                    count += 1
    return ready, count, top


@called_allocating_nothing
def open_nets(a: Arrays, s: StateStore, x: Scratch, reached: int) -> int:
    """Count the pins of nets that no stage here can hold in ``x.net_out``; list the others' nets in ``x.touched``."""
    stamp, count = s.counters[at.STAMP], 0
    for i in range(reached):
        v = x.reach[i]
        for e in sets_with(a.net, v):
            if x.stamp_net[e] != stamp:
                x.stamp_net[e] = stamp
                x.net_out[e] = a.net.ptr[e + 1] - a.net.ptr[e]
                x.net_here[e] = 0
                x.touched[count] = e
                count += 1
            x.net_out[e] -= 1
    return count


@inlined
def hold(a: Arrays, x: Scratch, flights: int) -> None:
    """Memory of items and covers in a stage with so many microbatches in flight."""
    share = 1 if a.recompute else flights
    for v in range(x.memory.shape[0]):
        x.memory[v] = a.fixed[v] + share * a.active[v]
    for c in range(x.cover_memory.shape[0]):
        x.cover_memory[c] = a.cover_fixed[c] + share * a.cover_active[c]


@inlined
def with_item(a: Arrays, x: Scratch, v: int, memory: float, space: float) -> tuple[float, float]:
    """Bytes and workspace of the stage with an item more."""
    memory += x.memory[v]
    for c in sets_with(a.cover, v):
        if x.cover_here[c] == 0:
            memory += x.cover_memory[c]
    return memory, max(space, a.workspace[v])


@inlined
def entering(a: Arrays, x: Scratch, e: int, v: int, mine: int) -> float:
    """What enters the stage more, per microbatch, when v joins ``mine`` pins of net e."""
    size = a.net_entering[e]
    if size <= 0.0:
        return 0.0
    source = a.net_source[e]
    if a.backwards:
        # Readers come first, and their tensor enters until its source joins them.
        if source == v:
            return -size if mine > 0 else 0.0
        return size if mine == 0 else 0.0
    return size if mine == 0 and x.in_downset[source] != 0 else 0.0


@inlined
def copy_row(rows: Floats, depth: int) -> None:
    """Start the next depth with the numbers of this one."""
    for column in range(rows.shape[1]):
        rows[depth + 1, column] = rows[depth, column]


@inlined
def add_item(a: Arrays, x: Scratch, v: int, depth: int, queue_len: int) -> int:
    """Let an item join whose pins are counted; the length of the queue with what is ready now."""
    x.decision[depth] = 1
    x.queue_end[depth] = queue_len
    for c in sets_with(a.cover, v):
        x.cover_here[c] += 1
    for u in successors(a.graph, v):
        x.missing[u] -= 1
        if x.missing[u] == 0 and x.status[u] == OPEN:
            x.queue[queue_len] = u
            queue_len += 1
    x.status[v] = CHOSEN
    flip(x, v)
    return queue_len


@inlined
def take_item_back(a: Arrays, x: Scratch, v: int) -> None:
    """Undo ``add_item`` and the count of its pins."""
    for e in sets_with(a.net, v):
        x.net_here[e] -= 1
    for w in successors(a.graph, v):
        x.missing[w] += 1
    for c in sets_with(a.cover, v):
        x.cover_here[c] -= 1
    x.status[v] = OPEN
    flip(x, v)


@inlined
def return_items(a: Arrays, x: Scratch, start: int, end: int) -> None:
    """Open excluded items again, those listed in ``x.marks[start:end]``."""
    for i in range(start, end):
        u = x.marks[i]
        x.status[u] = OPEN
        for e in sets_with(a.net, u):
            x.net_out[e] -= 1


@called_allocating_nothing
def keep_state(s: StateStore, x: Scratch, codes: Codes, stage: StageTrial, top: int, downset_hash: np.uint64) -> bool:
    """Store the state after a stage, unless a known one is as good; false if the store must grow first."""
    if s.counters[at.STATES] >= s.state_downset.shape[0]:
        return False
    found = store_downset(s, x, downset_hash, top)
    if found < 0:
        return False
    if dominated(s, codes, found, stage.code_after, stage.used_after, False):
        return True
    s.fewest[found, stage.code_after] = stage.used_after
    new = s.counters[at.STATES]
    s.state_downset[new] = found
    s.state_code[new] = stage.code_after
    s.state_parent[new] = stage.state
    s.state_kind[new] = stage.kind
    s.state_replicas[new] = stage.replicas
    if s.heads.shape[0] > 0:
        level = s.counters[at.LEVEL] + stage.replicas
        s.state_next[new] = s.heads[level]
        s.heads[level] = new
    s.counters[at.STATES] = new + 1
    return True
