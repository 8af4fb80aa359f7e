"""The decision "is there an acyclic split with every line within its limit?", resumable, and why its pruning is safe.

The rules are those of ``partita.throughput.solvers.decision``, with what changes for the variants.

*Fewest devices.* Of two states with one ideal, the one that uses no more devices of any kind is at least as good, if both
are in the same group. (A state in the group filled first would have to cross to the other group at this ideal.)

*Certain load.* While items are decided one by one, work of the chosen items, and what nets with a chosen pin and one that
is surely outside cost by the direction that is known (the cheaper one while it is not), only grow; so does memory, and
with it reloading, but for what enters under recomputation in a search from the outputs; so does synchronisation.

*Capacity.* See ``capacity``.

*Dominance.* Drop stage S after I if some ready v outside S can join it: (a) S + v is feasible on the same devices, and (b)
any later stage R that holds v is no worse without it. For (b), on every kind with a device left and on every line: what
nets of v cost R more afterwards is at most v's work on that line. A net without a pin in I ∪ S may become cut for R, at
its price out, or in if v is its maker; a net made by v with a pin there already turns from out to in; other nets that R
still touches cost the same, and nets R no longer touches cost nothing. A line of transfers alone has no work of v, so
there nothing may be added. Third stages pay what they paid: they hold the makers they held. R's memory, reloading and
synchronisation fall, being monotone set functions; its position is unchanged, or R vanishes and stages farther out hold
fewer microbatches. Where R may be in the other group, nets that newly cross between the groups, or cross the other way,
must cost the groups nothing. Not with recomputation where memory matters: readers of v left in R would make v's tensor
enter R.
"""

from __future__ import annotations

import math

import numpy as np

from partita.kernels.arrays import Floats, Longs
from partita.kernels.variant_arrays import VariantScratch, VariantStore, VariantWeights
from partita.throughput.solvers.variants.capacity import variant_capacity
from partita.throughput.solvers.variants.prepared import Split, VariantPrepared

__all__ = ["FULL", "VariantDecision", "VariantSearcher"]

#: Status of a decision that ran out of memory for its states; the others are those of the kernel.
FULL = 9

#: Relative slack of the comparison with limits: more than rounding, less than any claim.
SLACK = 1e-11


class VariantSearcher:
    """What all decisions about one problem in one direction share.

    Parameters
    ----------
    prepared
        The problem.
    top
        No limit will be larger.
    max_bytes
        Most memory for the states of one decision.
    """

    def __init__(self, prepared: VariantPrepared, top: float, max_bytes: float) -> None:
        self.prepared, self.max_bytes = prepared, max_bytes
        self.capacity = variant_capacity(prepared, top)
        self.dominance = not (prepared.instance.recompute and bool(prepared.arrays.limits[0]))
        words = np.random.default_rng(20240229).integers(0, 2**63, size=2 * prepared.items, dtype=np.uint64)
        self.zobrist = words[::2] ^ (words[1::2] << np.uint64(1))


class VariantDecision:
    """One search with one set of limits; ``run`` continues it.

    Parameters
    ----------
    searcher
        The problem and direction.
    limits
        Of the load, of forward loads and of backward loads; the last two matter for GPipe's objective only.
    """

    def __init__(self, searcher: VariantSearcher, limits: tuple[float, float, float]) -> None:
        self.searcher = searcher
        prepared, cap = searcher.prepared, searcher.capacity
        self.weights = VariantWeights(cap.item, cap.net, cap.choice, cap.budget(limits, 2 * SLACK), cap.radix)
        self.limits: Floats = prepared.shape.limits(*limits)
        self.store = _new_store(prepared)
        self.scratch = _new_scratch(prepared, searcher.zobrist, len(cap.place))

    @property
    def nodes(self) -> int:
        """Decisions made so far: the deterministic measure of effort."""
        from partita.kernels.variant_search import NODES

        return int(self.store.counters[NODES])

    def run(self, node_limit: int, stop: Longs, halt: Longs) -> int:
        """Search until an answer, ``node_limit`` nodes in all, a raised ``stop[0]`` or ``halt[0]``, or memory is full."""
        from partita.kernels import variant_search as kernel

        p = self.searcher.prepared
        while True:
            status = int(
                kernel.search_variant(
                    p.arrays,
                    p.lines,
                    self.weights,
                    self.store,
                    self.scratch,
                    self.limits * (1 + SLACK),
                    # Smaller by more than rounding, so that what replaces a stage is surely kept.
                    self.limits * (1 - 1e-12),
                    self.searcher.dominance,
                    p.stride,
                    p.digits,
                    p.digit_sum,
                    p.phases,
                    node_limit,
                    stop,
                    halt,
                )
            )
            if status != kernel.GROW:
                return status
            if not self._grow():
                return FULL

    def _grow(self) -> bool:
        from partita.kernels.ideals import rehash
        from partita.kernels.variant_search import IDEALS, STATES

        s = self.store
        ideals, states = int(s.counters[IDEALS]), int(s.counters[STATES])
        if 2 * sum(int(field.nbytes) for field in s) > self.searcher.max_bytes:
            return False

        def longer(name: str, filled: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
            old = getattr(s, name)
            new = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
            new[:filled] = old[:filled]
            return new

        if states >= s.state_ideal.shape[0]:
            names = ("state_ideal", "state_code", "state_parent", "state_kind", "state_replicas", "state_next")
            self.store = s._replace(**{name: longer(name, states) for name in names})
            return True
        grown = {name: longer(name, ideals) for name in ("ideal_hash", "words", "fewest")}
        table = np.zeros(2 * s.table.shape[0], dtype=np.int32)
        rehash(table, grown["ideal_hash"], ideals)
        self.store = s._replace(table=table, **grown)
        return True

    def split(self) -> Split:
        """The stages of a found split, in search order."""
        from partita.kernels.variant_search import LAST_KIND, LAST_PARENT, LAST_REPLICAS

        s, n = self.store, self.searcher.prepared.items
        inside = np.ones(n, dtype=bool)
        stages: Split = []
        state = int(s.counters[LAST_PARENT])
        kind, replicas = int(s.counters[LAST_KIND]), int(s.counters[LAST_REPLICAS])
        while state >= 0:
            words = s.words[int(s.state_ideal[state])]
            before = np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(bool)
            stages.append((kind, replicas, np.flatnonzero(inside & ~before).astype(np.int32)))
            inside = before
            kind, replicas = int(s.state_kind[state]), int(s.state_replicas[state])
            state = int(s.state_parent[state])
        return stages[::-1]


def _new_store(prepared: VariantPrepared) -> VariantStore:
    from partita.kernels import variant_search as kernel

    ideals, states, devices = 1 << 10, 1 << 11, int(prepared.arrays.devices.sum())
    store = VariantStore(
        table=np.zeros(4 * ideals, dtype=np.int32),
        ideal_hash=np.zeros(ideals, dtype=np.uint64),
        words=np.zeros((ideals, math.ceil(prepared.items / 64)), dtype=np.uint64),
        fewest=np.zeros((ideals, prepared.codes), dtype=np.int32),
        state_ideal=np.zeros(states, dtype=np.int32),
        state_code=np.zeros(states, dtype=np.int32),
        state_parent=np.full(states, -1, dtype=np.int32),
        state_kind=np.zeros(states, dtype=np.int8),
        state_replicas=np.zeros(states, dtype=np.int32),
        state_next=np.full(states, -1, dtype=np.int32),
        heads=np.full(devices + 1, -1, dtype=np.int32),
        counters=np.zeros(8, dtype=np.int64),
    )
    store.fewest[0, 1:] = 1 << 30
    store.heads[0] = 0
    store.counters[kernel.IDEALS] = store.counters[kernel.STATES] = 1
    store.counters[kernel.CURSOR] = -1
    return store


def _new_scratch(
    prepared: VariantPrepared, zobrist: np.ndarray[tuple[int], np.dtype[np.uint64]], rules: int
) -> VariantScratch:
    a, n = prepared.arrays, prepared.items
    m, covers, lines = a.net_ptr.shape[0] - 1, a.cover_fixed.shape[0], len(prepared.shape.limit)
    int32, int8 = np.int32, np.int8
    return VariantScratch(
        zobrist=zobrist,
        words=np.zeros(math.ceil(n / 64), dtype=np.uint64),
        in_ideal=np.zeros(n, int8),
        missing=np.zeros(n, int32),
        net_in=np.zeros(m, int32),
        status=np.zeros(n, int8),
        missing_now=np.zeros(n, int32),
        head=np.zeros(n),
        reach=np.zeros(n + 1, int32),
        net_out=np.zeros(m, int32),
        net_here=np.zeros(m, int32),
        cover_here=np.zeros(covers, int32),
        queue=np.zeros(n + 1, int32),
        decision=np.zeros(n + 1, int8),
        queue_end=np.zeros(n + 2, int32),
        mark_end=np.zeros(n + 2, int32),
        marks=np.zeros(n + 1, int32),
        value=np.zeros((n + 2, lines)),
        lost=np.zeros((n + 2, rules)),
        cross=np.zeros((n + 2, rules)),
        held=np.zeros((n + 2, 4)),
        memory=np.zeros(n),
        cover_memory=np.zeros(covers),
        rest=np.zeros(rules),
        reachable=np.zeros(rules),
        trial=np.zeros(lines),
    )
