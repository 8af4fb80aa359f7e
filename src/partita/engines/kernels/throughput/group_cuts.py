"""Where the group that is filled first may end: what the links of both groups carry there."""

from __future__ import annotations

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import allocating_nothing
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.arrays import Arrays, Lines
from partita.engines.kernels.throughput.ideals import clear, flip, move_to, store_ideal
from partita.engines.kernels.throughput.search_state import Scratch, Store, Tally


@allocating_nothing
def cut_links(a: Arrays, b: Lines, x: Scratch, links: Floats) -> None:
    """What the links of both groups carry of what crosses the current ideal, in ``links`` (2, lines)."""
    links[:] = 0.0
    for e in range(x.net_in.shape[0]):
        if x.net_in[e] == 0 or x.net_in[e] == a.net.ptr[e + 1] - a.net.ptr[e]:
            continue
        for group in range(2):
            mine = (x.in_ideal[b.maker[e]] != 0) == (group == 0)
            for line in range(links.shape[1]):
                links[group, line] += b.group_out[group, e, line] if mine else b.group_in[group, e, line]


@allocating_nothing
def find_cuts(a: Arrays, b: Lines, t: Tally, s: Store, x: Scratch, links: Floats, stop: Longs) -> int:
    """All ideals, and in ``links`` (ideals, 2, lines) what links carry there; start with the empty one.

    Returns REFUTED when done, GROW (enlarge the store and ``links``) or STOPPED.
    """
    if s.counters[at.VALID] == 0:
        clear(a, t, x)
        s.counters[at.VALID] = 1
    while s.counters[at.TAKEN] < s.counters[at.IDEALS]:
        ideal = s.counters[at.TAKEN]
        if stop[0] != 0:
            return at.STOPPED
        move_to(a, t, s, x, ideal)
        cut_links(a, b, x, links[ideal])
        for v in range(x.in_ideal.shape[0]):
            if x.in_ideal[v] != 0 or x.missing[v] != 0:
                continue
            flip(x, v)
            known = store_ideal(s, x, s.ideal_hash[ideal] ^ x.zobrist[v], max(x.places[at.END], v // 64 + 1))
            flip(x, v)
            if known < 0:
                return at.GROW
        s.counters[at.TAKEN] = ideal + 1
    return at.REFUTED
