"""Downsets in a search: the store of those met, with the states that reach them, and the walk from one to another.

Items are numbered topologically, so a downset is all ones, a short window, and all zeros; only the window is kept.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import allocating_nothing, called_allocating_nothing, inlined
from partita.engines.kernels.rows import sets_with, successors
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.arrays import Arrays, Codes, Lines
from partita.engines.kernels.throughput.search_state import Scratch, StateStore, Tally

#: Moves after which the running sums are computed afresh: rounding errors must not build up.
_FRESH = 20_000


@called_allocating_nothing
def clear(a: Arrays, t: Tally, x: Scratch) -> None:
    """Make the empty downset the current one, and forget the stage that was built."""
    x.in_downset[:] = 0
    x.words[:] = 0
    x.net_in[:] = 0
    x.net_here[:] = 0
    x.cover_here[:] = 0
    x.status[:] = 0
    x.ready_place[:] = -1
    x.places[:] = 0
    t.inside[:] = 0.0
    t.across[:] = 0.0
    for v in range(x.in_downset.shape[0]):
        x.missing[v] = a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v]
        _set_ready(x, v)


@inlined
def flip(x: Scratch, v: int) -> None:
    """Add an item to the bits of the current downset, or take it away."""
    x.words[v // 64] ^= np.uint64(1) << np.uint64(v % 64)


@inlined
def _set_ready(x: Scratch, v: int) -> None:
    ready = x.missing[v] == 0 and x.in_downset[v] == 0
    place = x.ready_place[v]
    if ready and place < 0:
        x.ready_place[v] = x.places[at.READY]
        x.ready_items[x.places[at.READY]] = v
        x.places[at.READY] += 1
    elif not ready and place >= 0:
        x.places[at.READY] -= 1
        moved = x.ready_items[x.places[at.READY]]
        x.ready_items[place] = moved
        x.ready_place[moved] = place
        x.ready_place[v] = -1


@inlined
def _toggle(a: Arrays, t: Tally, x: Scratch, v: int) -> None:
    sign = 1 if x.in_downset[v] == 0 else -1
    x.in_downset[v] += sign
    x.places[at.INSIDE] += sign
    for y in range(t.inside.shape[0]):
        t.inside[y] += sign * t.item[v, y]
    for e in sets_with(a.net, v):
        size = a.net.ptr[e + 1] - a.net.ptr[e]
        before = x.net_in[e]
        after = before + sign
        x.net_in[e] = after
        change = int(0 < after < size) - int(0 < before < size)
        if change != 0:
            for y in range(t.across.shape[0]):
                t.across[y] += change * t.net[e, y]
    for w in successors(a.graph, v):
        x.missing[w] -= sign
        _set_ready(x, w)
    _set_ready(x, v)


@called_allocating_nothing
def _refresh(a: Arrays, t: Tally, x: Scratch) -> None:
    """Compute the running sums afresh."""
    t.inside[:] = 0.0
    t.across[:] = 0.0
    for v in range(x.in_downset.shape[0]):
        if x.in_downset[v] != 0:
            for y in range(t.inside.shape[0]):
                t.inside[y] += t.item[v, y]
    for e in range(x.net_in.shape[0]):
        if 0 < x.net_in[e] < a.net.ptr[e + 1] - a.net.ptr[e]:
            for y in range(t.across.shape[0]):
                t.across[y] += t.net[e, y]


@called_allocating_nothing
def move_to(a: Arrays, t: Tally, s: StateStore, x: Scratch, downset: int) -> None:
    """Change the current downset into the stored one, item by item."""
    first, length = s.downset_first[downset], s.downset_length[downset]
    offset = s.downset_offset[downset]
    one, moves = np.uint64(1), x.places[at.MOVES]
    for i in range(min(x.places[at.FIRST], first), max(x.places[at.END], first + length)):
        if i < first:
            wanted = x.full[i]
        elif i < first + length:
            wanted = s.pool[offset + i - first]
        else:
            wanted = np.uint64(0)
        changed = x.words[i] ^ wanted
        x.words[i] = wanted
        v = i * 64
        while changed != 0:
            if changed & one != 0:
                _toggle(a, t, x, v)
                moves += 1
            changed = changed >> one
            v += 1
    x.places[at.FIRST], x.places[at.END] = first, first + length
    if moves > _FRESH:
        moves = 0
        _refresh(a, t, x)
    x.places[at.MOVES] = moves


@called_allocating_nothing
def store_downset(s: StateStore, x: Scratch, code: np.uint64, top: int) -> int:
    """Number of the downset in ``x.words``; -1 when the store must grow first. ``top`` words may be non-empty."""
    first = x.places[at.FIRST]
    while first < top and x.words[first] == x.full[first]:
        first += 1
    end = top
    while end > first and x.words[end - 1] == 0:
        end -= 1
    length = end - first
    mask = s.table.shape[0] - 1
    slot = int(code >> np.uint64(20)) & mask
    while s.table[slot] != 0:
        known = s.table[slot] - 1
        if s.downset_hash[known] == code and s.downset_first[known] == first and s.downset_length[known] == length:
            offset = s.downset_offset[known]
            same = True
            for i in range(length):
                if s.pool[offset + i] != x.words[first + i]:
                    same = False
                    break
            if same:
                return int(known)
        slot = (slot + 1) & mask
    number, used = s.counters[at.DOWNSETS], s.counters[at.POOL]
    if number >= s.downset_hash.shape[0] or used + length > s.pool.shape[0]:
        return -1
    s.table[slot] = number + 1
    s.downset_hash[number] = code
    s.downset_first[number] = first
    s.downset_length[number] = length
    s.downset_offset[number] = used
    for i in range(length):
        s.pool[used + i] = x.words[first + i]
    for c in range(s.fewest.shape[1]):
        s.fewest[number, c] = 1 << 30
    s.counters[at.DOWNSETS] = number + 1
    s.counters[at.POOL] = used + length
    return int(number)


@inlined
def dominated(s: StateStore, codes: Codes, downset: int, code: int, used: int, strictly: bool) -> bool:
    """Whether the downset is known with no more devices of any kind in the same group.

    ``used`` counts those of kind 0; ``strictly`` asks for an entry of another code.
    """
    for c in range(s.fewest.shape[1]):
        if s.fewest[downset, c] > used or (strictly and c == code) or codes.phases[c] != codes.phases[code]:
            continue
        lower = True
        for k in range(1, codes.digits.shape[1]):
            if codes.digits[c, k] > codes.digits[code, k]:
                lower = False
                break
        if lower:
            return True
    return False


@inlined
def is_known_better(s: StateStore, codes: Codes, state: int, used: int) -> bool:
    """Whether a state's downset was reached with fewer devices since the state was stored."""
    downset, code = s.state_downset[state], s.state_code[state]
    return bool(s.fewest[downset, code] < used or dominated(s, codes, downset, code, used, True))


@called_allocating_nothing
def cut_links(a: Arrays, b: Lines, x: Scratch, links: Floats) -> None:
    """What the links of both groups carry of what crosses the current downset, in ``links`` (2, lines)."""
    links[:] = 0.0
    for e in range(x.net_in.shape[0]):
        if x.net_in[e] == 0 or x.net_in[e] == a.net.ptr[e + 1] - a.net.ptr[e]:
            continue
        for group in range(2):
            mine = (x.in_downset[b.maker[e]] != 0) == (group == 0)
            for line in range(links.shape[1]):
                links[group, line] += b.group_out[group, e, line] if mine else b.group_in[group, e, line]


@allocating_nothing
def find_cuts(a: Arrays, b: Lines, t: Tally, s: StateStore, x: Scratch, links: Floats, stop: Longs) -> int:
    """All downsets, and in ``links`` (downsets, 2, lines) what links carry there; start with the empty one.

    Returns REFUTED when done, GROW (enlarge the store and ``links``) or STOPPED.
    """
    if s.counters[at.VALID] == 0:
        clear(a, t, x)
        s.counters[at.VALID] = 1
    while s.counters[at.TAKEN] < s.counters[at.DOWNSETS]:
        downset = s.counters[at.TAKEN]
        if stop[0] != 0:
            return at.STOPPED
        move_to(a, t, s, x, downset)
        cut_links(a, b, x, links[downset])
        for v in range(x.in_downset.shape[0]):
            if x.in_downset[v] != 0 or x.missing[v] != 0:
                continue
            flip(x, v)
            known = store_downset(s, x, s.downset_hash[downset] ^ x.zobrist[v], max(x.places[at.END], v // 64 + 1))
            flip(x, v)
            if known < 0:
                return at.GROW
        s.counters[at.TAKEN] = downset + 1
    return at.REFUTED
