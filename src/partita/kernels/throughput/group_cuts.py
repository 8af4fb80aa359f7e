"""Where the group that is filled first may end: ideals whose cut the links of both groups carry."""

from __future__ import annotations

from partita.kernels.compiled import allocating_nothing
from partita.kernels.throughput.arrays import Arrays, Bytes, Floats, Lines, Longs
from partita.kernels.throughput.ideals import clear, flip, move_to, store_ideal
from partita.kernels.throughput.search_state import (
    END,
    GROW,
    IDEALS,
    REFUTED,
    STOPPED,
    TAKEN,
    VALID,
    Scratch,
    Store,
    Tally,
)


@allocating_nothing
def cut_fits(a: Arrays, b: Lines, x: Scratch, limits: Floats, trial: Floats) -> bool:
    """Whether the links of both groups carry what crosses the current ideal; ``trial`` (lines,) is scratch."""
    for group in range(2):
        trial[:] = 0.0
        for e in range(x.net_in.shape[0]):
            if x.net_in[e] == 0 or x.net_in[e] == a.net_ptr[e + 1] - a.net_ptr[e]:
                continue
            mine = (x.in_ideal[b.maker[e]] != 0) == (group == 0)
            for line in range(trial.shape[0]):
                trial[line] += b.group_out[group, e, line] if mine else b.group_in[group, e, line]
        for line in range(trial.shape[0]):
            if trial[line] > limits[line]:
                return False
    return True


@allocating_nothing
def find_cuts(
    a: Arrays, b: Lines, t: Tally, s: Store, x: Scratch, limits: Floats, trial: Floats, fits: Bytes, stop: Longs
) -> int:
    """All ideals, and in ``fits`` which of them the links of both groups allow; start with the empty one.

    Returns REFUTED when done, GROW (enlarge the store and ``fits``) or STOPPED.
    """
    if s.counters[VALID] == 0:
        clear(a, t, x)
        s.counters[VALID] = 1
    while s.counters[TAKEN] < s.counters[IDEALS]:
        ideal = s.counters[TAKEN]
        if stop[0] != 0:
            return STOPPED
        move_to(a, t, s, x, ideal)
        fits[ideal] = cut_fits(a, b, x, limits, trial)
        for v in range(x.in_ideal.shape[0]):
            if x.in_ideal[v] != 0 or x.missing[v] != 0:
                continue
            flip(x, v)
            known = store_ideal(s, x, s.ideal_hash[ideal] ^ x.zobrist[v], max(x.places[END], v // 64 + 1))
            flip(x, v)
            if known < 0:
                return GROW
        s.counters[TAKEN] = ideal + 1
    return REFUTED
