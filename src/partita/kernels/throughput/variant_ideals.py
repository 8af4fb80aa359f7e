"""Ideals of a variant's search: stored bit sets, what they leave out, and where the first group may end."""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays, Bytes, Floats, Longs
from partita.kernels.throughput.variant_arrays import Lines, VariantScratch, VariantStore

__all__ = ["cut_fits", "dominated", "find_cuts", "load_ideal", "store_ideal"]

REFUTED, FOUND, GROW, LIMIT, STOPPED = 0, 1, 2, 3, 4

#: Places in ``VariantStore.counters``; CURSOR is the state being expanded, -1 for none.
IDEALS, STATES, CURSOR, LEVEL, NODES, LAST_PARENT, LAST_KIND, LAST_REPLICAS = range(8)


@compiled
def load_ideal(a: Arrays, s: VariantStore, x: VariantScratch, ideal: int) -> int:
    """Describe a stored ideal in the scratch arrays; the number of its items."""
    n, inside = x.in_ideal.shape[0], 0
    one = np.uint64(1)
    x.net_in[:] = 0
    for v in range(n):
        x.missing[v] = a.pred_ptr[v + 1] - a.pred_ptr[v]
    for i in range(x.words.shape[0]):
        x.words[i] = s.words[ideal, i]
    for v in range(n):
        if (x.words[v // 64] >> np.uint64(v % 64)) & one == 0:
            x.in_ideal[v] = 0
            continue
        x.in_ideal[v] = 1
        inside += 1
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            x.net_in[a.item_nets[p]] += 1
        for p in range(a.succ_ptr[v], a.succ_ptr[v + 1]):
            x.missing[a.succ[p]] -= 1
    return inside


@compiled
def store_ideal(s: VariantStore, x: VariantScratch, code: np.uint64) -> int:
    """Number of the ideal in ``x.words``; -1 when the store must grow first."""
    mask = s.table.shape[0] - 1
    slot = int(code >> np.uint64(20)) & mask
    while s.table[slot] != 0:
        known = s.table[slot] - 1
        if s.ideal_hash[known] == code:
            same = True
            for i in range(x.words.shape[0]):
                if s.words[known, i] != x.words[i]:
                    same = False
                    break
            if same:
                return int(known)
        slot = (slot + 1) & mask
    number = s.counters[IDEALS]
    if number >= s.ideal_hash.shape[0]:
        return -1
    s.table[slot] = number + 1
    s.ideal_hash[number] = code
    s.words[number] = x.words
    s.fewest[number] = 1 << 30
    s.counters[IDEALS] = number + 1
    return int(number)


@compiled
def dominated(s: VariantStore, digits: Longs, phase: Longs, ideal: int, code: int, used: int, strictly: bool) -> bool:
    """Whether the ideal is known with no more devices of any kind in the same group (``strictly``: otherwise)."""
    for c in range(s.fewest.shape[1]):
        if s.fewest[ideal, c] > used or (strictly and c == code) or phase[c] != phase[code]:
            continue
        lower = True
        for k in range(1, digits.shape[1]):
            if digits[c, k] > digits[code, k]:
                lower = False
                break
        if lower:
            return True
    return False


@compiled
def cut_fits(a: Arrays, b: Lines, x: VariantScratch, limits: Floats) -> bool:
    """Whether the links of both groups carry what crosses the current ideal."""
    for g in range(2):
        x.trial[:] = 0.0
        for e in range(x.net_in.shape[0]):
            if x.net_in[e] == 0 or x.net_in[e] == a.net_ptr[e + 1] - a.net_ptr[e]:
                continue
            mine = (x.in_ideal[b.maker[e]] != 0) == (g == 0)
            for line in range(x.trial.shape[0]):
                x.trial[line] += b.group_out[g, e, line] if mine else b.group_in[g, e, line]
        for line in range(x.trial.shape[0]):
            if x.trial[line] > limits[line]:
                return False
    return True


@compiled
def find_cuts(a: Arrays, b: Lines, s: VariantStore, x: VariantScratch, limits: Floats, fits: Bytes, stop: Longs) -> int:
    """All ideals, and in ``fits`` which of them the links of both groups allow; start with the empty one.

    Returns REFUTED when done, GROW (enlarge the store and ``fits``) or STOPPED.
    """
    one = np.uint64(1)
    while s.counters[CURSOR] < s.counters[IDEALS]:
        ideal = s.counters[CURSOR]
        if stop[0] != 0:
            return STOPPED
        load_ideal(a, s, x, ideal)
        fits[ideal] = cut_fits(a, b, x, limits)
        for v in range(x.in_ideal.shape[0]):
            if x.in_ideal[v] != 0 or x.missing[v] != 0:
                continue
            x.words[v // 64] ^= one << np.uint64(v % 64)
            known = store_ideal(s, x, s.ideal_hash[ideal] ^ x.zobrist[v])
            x.words[v // 64] ^= one << np.uint64(v % 64)
            if known < 0:
                return GROW
        s.counters[CURSOR] = ideal + 1
    return REFUTED
