"""The decision "is there an acyclic split with every line within its limit?", resumable, and why its pruning is safe.

The rules are those of ``partita.problems.throughput.solvers.decision``, with what changes for the variants.

*Fewest devices.* Of two states with one ideal, the one that uses no more devices of any kind is at least as good, if
both are in the same group. (A state in the group filled first would have to cross to the other group at this ideal.)

*Certain load.* While items are decided one by one, work of the chosen items, and what nets with a chosen pin and one
that is surely outside cost by the direction that is known (the cheaper one while it is not), only grow; so does memory,
and with it reloading, but for what enters under recomputation in a search from the outputs; so does synchronisation.

*Capacity.* See ``remaining_capacity``.

*Dominance.* Drop stage S after I if some ready v outside S can join it: (a) S + v is feasible on the same devices, and
(b) any later stage R that holds v is no worse without it. For (b), on every kind with a device left and on every line:
what nets of v cost R more afterwards is at most v's work on that line. A net without a pin in I ∪ S may become cut for
R, at its price out, or in if v is its maker; a net made by v with a pin there already turns from out to in; other nets
that R still touches cost the same, and nets R no longer touches cost nothing. A line of transfers alone has no work of
v, so there nothing may be added. Third stages pay what they paid: they hold the makers they held. R's memory, reloading
and synchronisation fall, being monotone set functions; its position is unchanged, or R vanishes and stages farther out
hold fewer microbatches. Where R may be in the other group, nets that newly cross between the groups, or cross the other
way, must cost the groups nothing; R is in the same group if no ideal that contains I ∪ S but not v can be where the
group ends, which is known where the ideals are few enough to list. Not with recomputation where memory matters: readers
of v left in R would make v's tensor enter R.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.throughput.arrays import Floats, Longs
from partita.kernels.throughput.variant_arrays import VariantWeights
from partita.problems.throughput.solvers.decision import FULL
from partita.problems.throughput.solvers.group_cuts import find_group_cuts
from partita.problems.throughput.solvers.remaining_capacity import capacity
from partita.problems.throughput.solvers.search_memory import enlarged, new_scratch, new_store
from partita.problems.throughput.solvers.variant_view import SLACK, VariantView
from partita.problems.throughput.solvers.view import Limits, Placed, Split

__all__ = ["VariantDecision", "VariantSearcher"]


class VariantSearcher:
    """What all decisions about one problem in one direction share.

    Parameters
    ----------
    view
        The problem in one direction.
    top
        No limit will be larger.
    max_bytes
        Most memory for the states of one decision.
    """

    def __init__(self, view: VariantView, top: float, max_bytes: float) -> None:
        self.view, self.max_bytes = view, max_bytes
        self.capacity = capacity(view, top)
        self.dominance = not (view.instance.recompute and bool(view.arrays.limits[0]))
        words = np.random.default_rng(20240229).integers(0, 2**63, size=2 * view.items, dtype=np.uint64)
        self.zobrist = words[::2] ^ (words[1::2] << np.uint64(1))
        self.cuts = find_group_cuts(view, self.zobrist, top) if view.lines.switches[4] else None
        if self.cuts is not None:
            self.beyond = self.cuts.beyond(view, self.capacity.item, self.capacity.net)


class VariantDecision:
    """One search with one set of limits; ``run`` continues it.

    Parameters
    ----------
    searcher
        The problem and direction.
    limits
        Of the load, of forward loads and of backward loads; the last two matter for GPipe's objective only.
    """

    def __init__(self, searcher: VariantSearcher, limits: Limits) -> None:
        from partita.kernels.throughput.variant_stage import FIT_NODES
        from partita.kernels.throughput.working_memory import peak_scratch

        self.searcher = searcher
        view, cap = searcher.view, searcher.capacity
        self.limits: Floats = view.shape.limits(limits)
        self.store = new_store(view)
        self.scratch = new_scratch(view, searcher.zobrist, len(cap.limit))
        k = view.peak_arrays
        self.peak_scratch = peak_scratch(len(k.scratch), len(k.size), FIT_NODES + 2 * len(k.scratch))
        self.cuts = np.zeros((0, self.store.words.shape[1]), dtype=np.uint64)
        beyond = np.zeros((cap.item.shape[0], 0))
        if searcher.cuts is not None:
            chosen = searcher.cuts.within(self.limits * (1 + SLACK))
            self.cuts, beyond = np.ascontiguousarray(searcher.cuts.words[chosen]), searcher.beyond[:, chosen].copy()
        self.weights = VariantWeights(
            item=cap.item,
            net=cap.net,
            choice=cap.choice,
            budget=cap.budget(limits, 2 * SLACK),
            first=cap.budget(limits, 2 * SLACK, first=True),
            beyond=beyond * (1 + SLACK),
            radix=cap.radix,
        )

    @property
    def nodes(self) -> int:
        """Decisions made so far: the deterministic measure of effort."""
        from partita.kernels.throughput.variant_ideals import NODES

        return int(self.store.counters[NODES])

    @property
    def expected(self) -> float:
        """Nodes still needed, as far as one can tell: this search does not go level by level."""
        return float("inf")

    def run(self, node_limit: int, stop: Longs, halt: Longs) -> int:
        """Search until an answer, ``node_limit`` nodes in all, a raised ``stop[0]`` or ``halt[0]``, or full memory."""
        from partita.kernels.throughput.variant_ideals import GROW
        from partita.kernels.throughput.variant_search import search_variant

        p = self.searcher.view
        while True:
            status = int(
                search_variant(
                    p.arrays,
                    p.lines,
                    self.weights,
                    self.store,
                    self.scratch,
                    p.peak_arrays,
                    self.peak_scratch,
                    self.limits * (1 + SLACK),
                    # Smaller by more than rounding, so that what replaces a stage is surely kept.
                    self.limits * (1 - 1e-12),
                    self.searcher.dominance,
                    self.cuts,
                    p.stride,
                    p.digits,
                    p.digit_sum,
                    p.phases,
                    node_limit,
                    stop,
                    halt,
                )
            )
            if status != GROW:
                return status
            grown = enlarged(self.store, self.searcher.max_bytes)
            if grown is None:
                return FULL
            self.store = grown

    def split(self) -> Split:
        """The stages of a found split, in search order."""
        from partita.kernels.throughput.variant_ideals import LAST_KIND, LAST_PARENT, LAST_REPLICAS

        s, n = self.store, self.searcher.view.items
        inside = np.ones(n, dtype=bool)
        stages: Split = []
        state = int(s.counters[LAST_PARENT])
        kind, replicas = int(s.counters[LAST_KIND]), int(s.counters[LAST_REPLICAS])
        while state >= 0:
            words = s.words[int(s.state_ideal[state])]
            before = np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(bool)
            stages.append(Placed(kind, replicas, np.flatnonzero(inside & ~before).astype(np.int32)))
            inside = before
            kind, replicas = int(s.state_kind[state]), int(s.state_replicas[state])
            state = int(s.state_parent[state])
        return stages[::-1]
