"""The search of variants: pools of alike devices, lines with limits, groups, replicas; and why its pruning is safe.

The rules are those of ``partita.problems.throughput.solvers.plain``, with what changes for the variants.

*Fewest devices.* Of two states with one downset, the one that uses no more devices of any kind is at least as good, if
both are in the same group. (A state in the group filled first would have to cross to the other group at this downset.)

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
way, must cost the groups nothing; R is in the same group if no downset that contains I ∪ S but not v can be where the
group ends, which is known where the downsets are few enough to list. Not with recomputation where memory matters:
readers of v left in R would make v's tensor enter R.

A variant's load is cut into lines with limits: what must hold for the objective to be at most T. A maximum of terms is
at most T when every term is, so each term is a line of its own. GPipe's objective A + B ≤ T with A ≥ every forward load
and B ≥ every backward load is cut into boxes A ≤ a, B ≤ b; a line of a phase has its limit, and since every device's
own forward and backward load add up to at most A + B, both together are lines with limit T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, Words, as_arrays, bit_rows
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.arrays import Lines, SliceTable
from partita.engines.kernels.throughput.downsets import find_cuts
from partita.engines.kernels.throughput.search_state import (
    LINE_COLUMNS,
    DownsetSearch,
    StateStore,
    Variant,
    downset_masks,
    enlarged,
    new_scratch,
    new_store,
    new_tally,
)
from partita.engines.kernels.throughput.slicing import slice_order
from partita.engines.kernels.throughput.stage_loads import stage_values
from partita.engines.kernels.throughput.variant_search import FIT_NODES, search_variant
from partita.engines.kernels.throughput.working_memory import PeakArrays, peak_scratch
from partita.ground.rounding import lowered, raised, up_to
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.contraction.lossless import absorb
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.race import Searcher
from partita.problems.throughput.solvers.view import CapacityRule, Effort, PhaseLoads, SearchView, Split
from partita.problems.throughput.working_memory import PeakTable

#: Most downsets that are listed, and most of them that are kept.
MOST_DOWNSETS, MOST_CUTS = 200_000, 3_000
#: Which limit a line has: T, a or b, as places in ``PhaseLoads``.
BOTH, FORWARD, BACKWARD = 0, 1, 2

#: Terms of a load: coefficients of work, transfers in, transfers out.
_TERMS = {
    "sum": ((1.0, 1.0, 1.0),),
    "overlap": ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0)),
    "duplex": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
}


@dataclass(eq=False)
class VariantView(SearchView):
    """See ``SearchView``."""

    #: Orders of operators; of an empty problem unless memory is a peak.
    peaks: PeakTable = field(default_factory=lambda: PeakTable(None))

    effort: ClassVar[Effort] = Effort(leg=30_000, first=200_000, round=500_000, orders=30, pairs=2e9, code=0.3)
    variants: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        terms = np.array(_TERMS[self.problem.communication])
        phases = (BOTH, FORWARD, BACKWARD) if self.gpipe else (BOTH,)
        coefficients = [np.hstack([terms * (phase != BACKWARD), terms * (phase != FORWARD)]) for phase in phases]
        #: (L,) BOTH, FORWARD or BACKWARD of each line; line 0 holds all work of the item.
        self.place = np.repeat(phases, len(terms))
        self.line_count = len(self.place)
        #: (L, 6) of forward work, in, out, then backward work, in, out.
        self.coefficients: Floats = np.concatenate(coefficients)
        #: (L,) 1 where reloading, and synchronising in turn with work, add to the line.
        self.with_reload = (self.place != FORWARD).astype(np.float64)
        self.with_sync = self.with_reload * (self.problem.communication == "sum")

    def limits(self, limits: PhaseLoads) -> Floats:
        """Limit of each line, and of synchronisation."""
        return np.array([*np.array(limits)[self.place], limits.backward if self.gpipe else limits.both])

    def _combine(self, forward: Floats, backward: Floats, place: int) -> Floats:
        """Lines (last axis) of what both phases take: of work (place 0), of what comes in (1), of what goes out (2)."""
        return forward[..., None] * self.coefficients[:, place] + backward[..., None] * self.coefficients[:, place + 3]

    def _loads(self, values: Floats, reload: Floats, sync: Floats, replicas: Floats) -> Floats:
        """(stages, 3) load, forward and backward load of stages from their lines, reload and synchronisation times.

        For a single phase the last two are the load as well.
        """
        each = (values + self.with_reload * reload[:, None]) / replicas[:, None]
        each = each + self.with_sync * sync[:, None]
        apart = 0.0 if self.with_sync.any() else sync
        total = np.maximum(each[:, self.place == BOTH].max(axis=1), apart)
        if not self.gpipe:
            return np.stack([total, total, total], axis=1)
        first = each[:, self.place == FORWARD].max(axis=1)
        second = np.maximum(each[:, self.place == BACKWARD].max(axis=1), apart)
        return np.stack([first + second, first, second], axis=1)

    @cached_property
    def peak_arrays(self) -> PeakArrays:
        """What the kernels read to find orders."""
        members: list[list[int]] = [[] for _ in range(self.items)]
        for place, item in enumerate(self.original[self.instance.group] if self.ordered else ()):
            members[item].append(place)
        return self.peaks.arrays(members, backwards=self.backwards)

    @cached_property
    def lines(self) -> Lines:
        """The kernels' input beside the arrays."""
        problem, instance, original = self.problem, self.instance, self.original
        kinds, grouped = [pool.kind for pool in self.pools], not self.early.all()
        groups = [problem.groups[group] for group in (self.filled, 1 - self.filled)] if grouped else []
        work = instance.work[original][:, kinds].T
        can = np.isfinite(work)
        second = np.where(can, instance.work_backward[original][:, kinds].T, 0.0)
        late = instance.net_backward[:, kinds].T
        cost_in, cost_out = (self._combine(instance.net_cost[:, kinds].T - late, late, way) for way in (1, 2))
        group_in, group_out = np.zeros((2, 2, instance.nets, self.line_count))
        for place, group in enumerate(groups):
            unit, latency, totals = group.transfer_time_per_unit, group.transfer_latency, instance.net_totals
            total, late = (totals[:, size] * unit + totals[:, size + 1] * latency for size in (0, 2))
            group_in[place], group_out[place] = (self._combine(total - late, late, way) for way in (1, 2))
        first_pin = self.arrays.net.pins[self.arrays.net.ptr[:-1]]
        maker = np.where(instance.net_maker >= 0, original[instance.net_maker], first_pin)
        devices, most = sum(self.counts), max(1, *self.replicas.tolist())
        flights = [[0] * (devices + 1)]
        flights += [[0, *(problem.schedule.in_flight(j, r) for j in range(1, devices + 1))] for r in range(1, most + 1)]
        batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
        work_lines = self._combine(np.where(can, work, 0.0) - second, second, 0)
        own = {
            "can": can,
            "work": work_lines,
            "chain": np.where(can, work_lines[:, :, 0], np.inf),
            "cost_in": cost_in,
            "cost_out": cost_out,
            "maker": maker,
            "reload_time": np.array([problem.kinds[k].reload_time_per_byte for k in kinds]),
            "sync_time": np.array([problem.kinds[k].sync_time_per_byte for k in kinds]) / batch,
            "sync": instance.sync[original],
            "phase": 1 - self.early,
            "group_in": group_in,
            "group_out": group_out,
            "replicas": self.replicas,
            "flights": np.array(flights),
            "hard": self.arrays.limited and not problem.streaming,
            "sync_apart": most > 1 and not self.with_sync.any(),
            "with_reload": self.with_reload,
            "with_sync": self.with_sync,
            "grouped": grouped,
            "peak": self.ordered,
        }
        return as_arrays(Lines, vars(instance) | own)

    @cached_property
    def most(self) -> float:
        """Everything on one device, every net cut, everything reloaded and synchronised."""
        a, lines = self.arrays, self.lines
        over = (a.fixed.sum() + a.cover_fixed.sum()) + lines.flights.max() * (
            a.active.sum() + a.cover_active.sum() + a.net_entering.sum()
        )
        over += self.peaks.most if self.ordered else a.workspace.max(initial=0.0)
        sync = float((lines.sync.sum() + lines.cover_sync.sum()) * lines.sync_time.max(initial=0.0))
        most = float((lines.work * (lines.can != 0)[:, :, None]).sum(axis=1).max())
        most += float(lines.cost_in.sum(axis=1).max() + lines.cost_out.sum(axis=1).max())
        most += float(lines.group_in.sum(axis=1).max() + lines.group_out.sum(axis=1).max())
        most += float(over) * float(lines.reload_time.max(initial=0.0)) + sync
        return up_to(most * (2 if self.gpipe else 1)) + 1e-30

    def _operators(self, split: Split) -> list[tuple[int, ...]]:
        """Ids of the operators of every stage, in an order that memory allows where that matters."""
        if not self.ordered:
            return super()._operators(split)
        known = [self.peaks.known(self._places(placed.items)).operators for placed in split]
        return [tuple(self.problem.operators[v].id for v in row) for row in known]

    def _places(self, items: Ints) -> Ints:
        """Places of the operators of items, in an order in which they can run."""
        k = self.peak_arrays
        row = np.concatenate([k.item_ops[k.item_ptr[v] : k.item_ptr[v + 1]] for v in items])
        return row[::-1].copy() if self.backwards else row

    def value(self, split: Split) -> PhaseLoads:
        kinds = np.array([placed.pool for placed in split], dtype=np.int32)
        replicas = np.array([placed.replicas for placed in split], dtype=np.int64)
        # Backwards the devices up to and including a stage are those from it to the end of the pipeline.
        to_end = np.cumsum(replicas) if self.backwards else np.ones_like(replicas)
        lines, stages, none = self.line_count, len(split), np.zeros(2)
        #: What each stage needs while it runs, where that depends on its order.
        space = np.zeros(stages)
        for number, placed in enumerate(split if self.ordered else ()):
            places = self._places(placed.items)
            space[number] = self.peaks.order(places, places.tolist()).peak
        values, extra, links = np.zeros((stages, lines)), np.zeros((stages, 2)), np.zeros((2, lines))
        flights, label = self.lines.flights[replicas, to_end], self.label(split)
        stage_values(self.arrays, self.lines, label, kinds, flights, space, values, extra, links)
        reload = extra[:, 0] * self.lines.reload_time[kinds]
        sync = extra[:, 1] * self.lines.sync_time[kinds] * ((replicas - 1) / replicas)
        loads = self._loads(values, reload, sync, replicas.astype(np.float64))
        loads = np.concatenate([loads, self._loads(links, none, none, np.ones(2))])
        top = loads.max(axis=0)
        return PhaseLoads(float(top[1] + top[2]) if self.gpipe else float(top[0]), float(top[1]), float(top[2]))

    def rules(self) -> list[CapacityRule]:
        """One for each line with work; see ``remaining_capacity``."""
        lines, a = self.lines, self.arrays
        rules = []
        bytes_each = a.fixed + a.active
        limited = np.isfinite(a.memory)
        for line in (i for i in range(self.line_count) if self.coefficients[i, [0, 3]].any()):
            item = np.where(lines.can != 0, lines.work[:, :, line], np.inf)
            net = np.minimum(lines.cost_in[:, :, line], lines.cost_out[:, :, line])
            rules.append(CapacityRule(item, net, int(self.place[line]), np.zeros(len(a.memory))))
            rate = np.where(limited, lines.reload_time, 0.0)
            if self.place[line] == BOTH and self.problem.streaming and rate.any():
                more = rate[:, None] * bytes_each[None, :]
                rules.append(CapacityRule(item + more, net, BOTH, rate * np.where(limited, a.memory, 0.0)))
        if lines.hard and limited.all() and bytes_each.any():
            item = np.where(lines.can != 0, bytes_each[None, :], np.inf)
            rules.append(CapacityRule(item, np.zeros((len(a.memory), a.net_entering.shape[0])), None, a.memory))
        return rules

    def slice(self, order: Ints, limits: PhaseLoads, table: SliceTable, stop: Longs) -> bool:
        at_most = raised(self.limits(limits))
        return bool(slice_order(self.arrays, self.lines, self.peak_arrays, order, at_most, self.codes, table, stop))


def variant_views(problem: ThroughputProblem) -> list[SearchView]:
    """The views in the direction that memory needs: one for each group that the pipeline may start with."""
    view = variant_view(problem)
    if len(problem.groups) > 1:
        one, other = problem.groups
        fields = ("counts", "transfer_time_per_unit", "transfer_latency")
        alike = all(getattr(one, field) == getattr(other, field) for field in fields)
        if sum(one.counts) and sum(other.counts) and not alike:
            return [view, replace(view, first=1)]
    return [view]


def variant_view(problem: ThroughputProblem, *, backwards: bool | None = None, first: int = 0) -> VariantView:
    """The view of a problem with at most two groups, see ``SearchView``; ``backwards`` as in ``plain_view``."""
    instance = build_instance(problem, directed=problem.communication == "duplex")
    if problem.communication == "sum" and not (problem.gpipe or problem.groups or problem.working_memory == "peak"):
        # Items that some optimum keeps together are one where a load is a single sum.
        batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
        rates = np.array([kind.sync_time_per_byte for kind in problem.kinds])
        instance = absorb(instance, sync_time=(problem.max_replicas - 1) * rates / batch)
    back = instance.positional if backwards is None else backwards
    if problem.working_memory != "peak":
        return VariantView(problem, instance, back, first)
    peaks = PeakTable(problem)
    # The largest need of a single operator: what every order of every set with it needs at least.
    np.maximum.at(instance.workspace, instance.group, peaks.own)
    return VariantView(problem, instance, back, first, peaks)


class VariantSearcher(Searcher):
    """See ``Searcher``; these searches do not go level by level."""

    kernel = staticmethod(search_variant)
    columns = LINE_COLUMNS

    def __init__(self, view: VariantView, top: float) -> None:
        super().__init__(view, top)
        self.variant = view
        self.dominance = not (view.instance.recompute and view.arrays.limited)
        self._find_cuts(top)

    def start(self, limits: PhaseLoads) -> DownsetSearch[Variant]:
        view, cap = self.variant, self.capacity
        n, lines, (rules, _) = view.items, view.line_count, cap.choice.shape
        k, words = view.peak_arrays, math.ceil(n / 64)
        line_limits = view.limits(limits)
        # The last limit is not of a line.
        inside = (self.links <= raised(line_limits)[:-1]).all(axis=(1, 2))
        own = Variant(
            lines=view.lines,
            limits=raised(line_limits),
            # Smaller by more than rounding, so that what replaces a stage is surely kept.
            inner=lowered(line_limits),
            cuts=self.cuts[inside],
            first=cap.budget(limits, first=True),
            beyond=raised(self.beyond[:, inside].copy()),
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
        store = new_store(len(view.codes.digits), 1 << 10, 1 << 11, words << 10, levels=sum(view.counts) + 1)
        return self._search(limits, store, new_tally(cap.item[:0], cap.net[:0]), own)

    def _find_cuts(self, top: float) -> None:
        """All downsets that may be a cut between the groups at limits up to ``top``; none if they are too many."""
        view, a, item, net = self.variant, self.view.arrays, self.capacity.item, self.capacity.net
        masks, links = np.zeros((0, view.items), dtype=bool), np.zeros((0, 2, view.line_count))
        known = _all_downsets(view, self.zobrist) if view.lines.grouped else None
        if known is not None:
            store, carried = known
            kept = np.flatnonzero((carried <= view.limits(PhaseLoads(top, top, top))[:-1]).all(axis=(1, 2)))
            if len(kept) <= MOST_CUTS:
                masks, links = downset_masks(store, kept, view.items), carried[kept]
        outside = ~masks
        touched = np.zeros((len(masks), net.shape[1]), dtype=bool)
        for e in range(net.shape[1]):
            touched[:, e] = outside[:, a.net.members(e)].any(axis=1)
        #: (cuts, words) the items before each cut, (cuts, 2, lines) what each group's link carries there, and
        #: (rows, cuts) weight of the items beyond each cut and of the nets that touch them.
        self.cuts, self.links, self.beyond = bit_rows(masks), links, item @ outside.T + net @ touched.T


def _all_downsets(view: VariantView, zobrist: Words) -> tuple[StateStore, Floats] | None:
    """All downsets, and (downsets, 2, lines) what the links carry there; None if there are too many."""
    a = view.arrays
    tally = new_tally(np.zeros((0, view.items)), np.zeros((0, len(a.net.ptr) - 1)))
    scratch = new_scratch(a, zobrist, LINE_COLUMNS)
    words = scratch.words.shape[0]
    store = new_store(len(view.codes.digits), 1 << 10, 1, words << 10)
    links = np.zeros((store.downset_hash.shape[0], 2, view.line_count))
    stop = np.zeros(1, dtype=np.int64)
    while find_cuts(a, view.lines, tally, store, scratch, links, stop) == at.GROW:
        grown = enlarged(store, words, 4e8) if store.counters[at.DOWNSETS] < MOST_DOWNSETS else None
        if grown is None:
            return None
        store = grown
        links = np.concatenate([links, np.zeros((store.downset_hash.shape[0] - len(links), *links.shape[1:]))])
    return store, links[: int(store.counters[at.DOWNSETS])]
