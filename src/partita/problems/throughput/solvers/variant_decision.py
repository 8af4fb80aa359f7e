"""The decision "is there an acyclic split with every line within its limit?", resumable, and why its pruning is safe.

The rules are those of ``partita.problems.throughput.solvers.plain_decision``, with what changes for the variants.

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

import math

import numpy as np

from partita.engines.kernels.throughput.search_memory import new_store, new_tally
from partita.engines.kernels.throughput.search_state import LINE_COLUMNS, Search, Variant
from partita.ground.rounding import SUMMED, lowered, raised
from partita.problems.throughput.solvers.decision import Searcher
from partita.problems.throughput.solvers.group_cuts import find_group_cuts
from partita.problems.throughput.solvers.variant_view import VariantView
from partita.problems.throughput.solvers.view import LoadLimits


class VariantSearcher(Searcher):
    """See ``Searcher``; these searches do not go level by level."""

    columns = LINE_COLUMNS

    def __init__(self, view: VariantView, top: float) -> None:
        super().__init__(view, top)
        self.variant = view
        self.dominance = not (view.instance.recompute and view.arrays.limited)
        self.cuts = find_group_cuts(view, self.zobrist, top, self.capacity.item, self.capacity.net)

    def start(self, limits: LoadLimits) -> Search[Variant]:
        from partita.engines.kernels.throughput.variant_search import FIT_NODES
        from partita.engines.kernels.throughput.working_memory import peak_scratch

        view, cap = self.variant, self.capacity
        n, lines, (rules, _) = view.items, len(view.shape.limit), cap.choice.shape
        k, words = view.peak_arrays, math.ceil(n / 64)
        line_limits = view.shape.limits(limits)
        cuts, beyond = self.cuts.within(raised(line_limits))
        own = Variant(
            lines=view.lines,
            limits=raised(line_limits),
            # Smaller by more than rounding, so that what replaces a stage is surely kept.
            inner=lowered(line_limits),
            cuts=cuts,
            first=cap.budget(limits, 2 * SUMMED, first=True),
            beyond=raised(beyond),
            value=np.zeros((n + 2, lines)),
            lost=np.zeros((n + 2, rules)),
            cross=np.zeros((n + 2, rules)),
            row=np.zeros(rules, dtype=np.int64),
            rest=np.zeros(rules),
            reachable=np.zeros(rules),
            links=np.zeros((2, lines)),
            trial=np.zeros(lines),
            peaks=k,
            peak_scratch=peak_scratch(len(k.scratch), len(k.size), FIT_NODES + 2 * len(k.scratch)),
        )
        store = new_store(view.code_count, 1 << 10, 1 << 11, words << 10, levels=view.device_count + 1)
        return self._search(limits, store, new_tally(cap.item[:0], cap.net[:0]), own)

    def go_on(self, search: Search[Variant]) -> int:
        from partita.engines.kernels.throughput.variant_search import search_variant

        return int(search_variant(search))
