"""The decision "is there an acyclic split with every line within its limit?", resumable, and why its pruning is safe.

The rules are those of ``partita.problems.throughput.solvers.decision``, with what changes for the variants.

*Fewest devices.* Of two states with one ideal, the one that uses no more devices of any kind is at least as good, if
both are in the same group. (A state in the group filled first would have to cross to the other group at this ideal.)

*Certain load.* While items are decided one by one, work of the chosen items, and what nets with a chosen pin and one
that is surely outside cost by the direction that is known (the cheaper one while it is not), only grow; so does memory,
and with it reloading, but for what enters under recomputation in a search from the outputs; so does synchronisation.

*Capacity.* See ``capacity``.

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

import math

import numpy as np

from partita.kernels.throughput.arrays import Codes, Longs
from partita.kernels.throughput.search_memory import (
    enlarged,
    new_line_scratch,
    new_scratch,
    new_store,
    new_tally,
    random_words,
    stages_found,
)
from partita.kernels.throughput.search_state import (
    CURSOR,
    GROW,
    LINE_COLUMNS,
    NODES,
    LineQuestion,
    LineWeights,
    Until,
)
from partita.problems.throughput.solvers.variants.group_cuts import find_group_cuts
from partita.problems.throughput.solvers.variants.prepared import Split, VariantPrepared
from partita.problems.throughput.solvers.variants.remaining_capacity import variant_capacity

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
        self.dominance = not (prepared.instance.recompute and prepared.arrays.limited)
        self.zobrist = random_words(prepared.items)
        self.cuts = find_group_cuts(prepared, self.zobrist, top) if prepared.lines.grouped else None
        if self.cuts is not None:
            self.beyond = self.cuts.beyond(prepared, self.capacity.item, self.capacity.net)


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
        from partita.kernels.throughput.variant_stage import FIT_NODES
        from partita.kernels.throughput.working_memory import peak_scratch

        self.searcher = searcher
        p, cap = searcher.prepared, searcher.capacity
        line_limits = p.shape.limits(*limits)
        k, words = p.peak_arrays, math.ceil(p.items / 64)
        cuts, beyond = np.zeros((0, words), dtype=np.uint64), np.zeros((cap.item.shape[0], 0))
        if searcher.cuts is not None:
            chosen = searcher.cuts.within(line_limits * (1 + SLACK))
            cuts, beyond = np.ascontiguousarray(searcher.cuts.words[chosen]), searcher.beyond[:, chosen].copy()
        self.question = LineQuestion(
            limits=line_limits * (1 + SLACK),
            # Smaller by more than rounding, so that what replaces a stage is surely kept.
            inner=line_limits * (1 - 1e-12),
            dominance=searcher.dominance,
            cuts=cuts,
        )
        self.weights = LineWeights(
            item=cap.item,
            net=cap.net,
            choice=cap.choice,
            budget=cap.budget(limits, 2 * SLACK),
            first=cap.budget(limits, 2 * SLACK, first=True),
            beyond=beyond * (1 + SLACK),
            radix=cap.radix,
        )
        self.tally = new_tally(cap.item[:0], cap.net[:0])
        self.store = new_store(p.codes, 1 << 10, 1 << 11, words << 10, levels=int(p.arrays.devices.sum()) + 1)
        self.store.counters[CURSOR] = -1
        self.scratch = new_scratch(p.arrays, searcher.zobrist, LINE_COLUMNS)
        peaks = peak_scratch(len(k.scratch), len(k.size), FIT_NODES + 2 * len(k.scratch))
        self.line_scratch = new_line_scratch(p.items, len(p.shape.limit), len(cap.place), k, peaks)

    @property
    def nodes(self) -> int:
        """Decisions made so far: the deterministic measure of effort."""
        return int(self.store.counters[NODES])

    def run(self, node_limit: int, stop: Longs, halt: Longs) -> int:
        """Search until an answer, ``node_limit`` nodes in all, a raised ``stop[0]`` or ``halt[0]``, or full memory."""
        from partita.kernels.throughput.variant_search import search_variant

        p = self.searcher.prepared
        codes = Codes(p.stride, p.digits, p.digit_sum, p.phases)
        until = Until(node_limit, stop, halt)
        while True:
            state = (self.weights, self.tally, self.store, self.scratch, self.line_scratch)
            status = int(search_variant(p.arrays, p.lines, *state, codes, self.question, until))
            if status != GROW:
                return status
            grown = enlarged(self.store, self.scratch.words.shape[0], self.searcher.max_bytes)
            if grown is None:
                return FULL
            self.store = grown

    def split(self) -> Split:
        """The stages of a found split, in search order."""
        return stages_found(self.store, self.searcher.prepared.items)
