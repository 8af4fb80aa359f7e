"""The search of plain problems: their view, "is there an acyclic split with every load at most T?", and why it holds.

A state is a downset I (items of the stages placed so far) and the devices used; R is what remains.

*Fewest devices.* Of two states with one downset, the one that uses no more devices of any kind is at least as good: it
has placed no more stages, so where memory depends on the number of later stages it allows no less memory.

*Certain load.* While items are decided one by one, work of the chosen items plus the cost of nets with a chosen pin
and a pin that is surely outside (in I, excluded, or after an excluded item) only grows; above T no completion is
feasible.

*Capacity.* See ``remaining_capacity``: the remaining items and the nets that surely cross must fit on the remaining
devices. Memory likewise: Σ bytes of what remains, each item once, at the microbatches of the next stage, which later
ones (placed further from the outputs) never undercut.

*Charged work.* With one kind of device, the weights may be the charged work of the bounds, which holds at all targets
up to that of ``Charged``: a stage of a split with loads up to T has Σ charge + Σ cost of its cut nets that are not
forced <= load <= T. Summed over the remaining stages, every net that crosses counts at least once, so the remaining
items' charge and the crossing nets' cost, without the forced ones', fit into T times the devices left. That is the
rule above with other weights; it is used where the charge adds up to more than the work.

*Dominance.* Drop stage S after I if some ready v outside S has (a) on every kind κ with a device left, the cost on κ
of v's nets without a pin in I ∪ S at most v's time on κ, and (b) S + v feasible. Proof: in a completion of I ∪ S move
v from its stage R (on some κ) into S. Only nets with all pins in R become cut for R, and those have no pin in I ∪ S:
R gains at most what it loses. A net with pins in R and in a third stage Q was cut for Q and stays so; loads elsewhere
do not change. R's memory falls: it is a monotone set function, R's position is unchanged, or R vanishes and stages
farther out hold fewer microbatches. The order stays acyclic because v was ready. Repeating ends, as S grows. Not with
recomputation under a memory limit: readers of v left in R would make v's tensor enter R.

*Exclusion.* If v satisfies (a) when it is excluded, it does so for every later S (I ∪ S only grows), so a stage S
worth keeping has S + v infeasible, in memory or in load. All that can still be in S together with v may be seen to
fit in memory; then load(S + v) > T. But load(S + v) ≤ t_v + [work of all that can still be in S] + an upper bound on
the communication, the cost of nets whose fate is open or certain plus v's own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.closures import before_and_after
from partita.engines.kernels.throughput.arrays import SliceTable
from partita.engines.kernels.throughput.plain_search import search_plain
from partita.engines.kernels.throughput.search_state import COLUMNS, DownsetSearch, Plain, new_store, new_tally
from partita.engines.kernels.throughput.slicing import slice_order
from partita.engines.kernels.throughput.stage_loads import segment_loads
from partita.ground.rounding import TOLERANCE, clearly_below, raised, up_to
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.contraction.lossless import absorb, order_twins
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.race import Searcher
from partita.problems.throughput.solvers.remaining_capacity import Capacity
from partita.problems.throughput.solvers.view import CapacityRule, Effort, PhaseLoads, SearchView, Split

#: Most stages times nets that the annealing counts.
MOST_COUNTS = 20_000_000
#: Charged work must add up to so much more than work to take its place.
WORTH = 1e-3


class PlainView(SearchView):
    """See ``SearchView``."""

    effort: ClassVar[Effort] = Effort(leg=100_000, first=2_000_000, round=4_000_000, orders=40, pairs=4e9, code=0.2)
    variants: ClassVar[bool] = False

    @cached_property
    def nets(self) -> Longs:
        """Nets that cost nothing and let nothing enter do not matter."""
        cost = self.instance.net_cost[:, [pool.kind for pool in self.pools]].max(axis=1, initial=0.0)
        return np.flatnonzero((cost > 0) | (self.instance.net_entering > 0))

    @cached_property
    def most(self) -> float:
        """Everything on one device, every net cut."""
        a = self.arrays
        finite = np.where(np.isfinite(a.work), a.work, 0.0).max(axis=0)
        return up_to(float(finite.sum() + a.net_cost.max(axis=0).sum())) + 1e-30

    def value(self, split: Split) -> PhaseLoads:
        a, loads = self.arrays, np.zeros(len(split))
        pools = np.array([placed.pool for placed in split], dtype=np.int32)
        segment_loads(a, a.work, a.net_cost, self.label(split), pools, loads)
        return PhaseLoads(*(float(loads.max()),) * 3)

    @property
    def least_bytes(self) -> Floats:
        """(n,) bytes every device needs at least for an item."""
        a = self.arrays
        return np.asarray(a.fixed + (1 if a.recompute else a.in_flight[1:].min()) * a.active)

    def annealable(self, stages: int) -> bool:
        """Where memory does not depend on the position, or what enters, and the table of stages and nets is small."""
        if self.arrays.limited and (self.arrays.recompute or self.backwards):
            return False
        return 2 <= stages <= MOST_COUNTS // max(1, len(self.nets))

    def rules(self) -> list[CapacityRule]:
        """Work and transfers; bytes may force items off the devices whose memory is limited."""
        a = self.arrays
        return [CapacityRule(a.work, a.net_cost, 0, np.zeros(len(a.memory)), self.least_bytes, a.memory)]

    def slice(self, order: Ints, limits: PhaseLoads, table: SliceTable, stop: Longs) -> bool:
        at_most = np.array([limits.both, np.inf])
        return bool(slice_order(self.arrays, None, None, order, at_most, self.codes, table, stop))


def plain_view(problem: ThroughputProblem, *, backwards: bool | None = None) -> PlainView:
    """The view of a problem without its variants; ``backwards`` None for where memory depends on the position."""
    instance = order_twins(absorb(build_instance(problem)))
    return PlainView(problem, instance, instance.positional if backwards is None else backwards)


class ChargedItems(NamedTuple):
    """Charged work of the items of the instance, and which of its nets it counts; see the module."""

    target: float  #: Largest target at which it holds.
    work: Floats  #: (n,) charged work.
    forced: Bools  #: (m,) nets whose cost may be part of it.


class PlainSearcher(Searcher):
    """See ``Searcher``; charged work is for one kind of device, and not used for a ``top`` above its target."""

    kernel = staticmethod(search_plain)
    columns = COLUMNS

    def __init__(self, view: PlainView, top: float, charged: ChargedItems | None = None) -> None:
        super().__init__(view, top)
        a, size = view.arrays, view.least_bytes
        if charged is not None and top <= charged.target and a.work.shape[0] == 1:
            self.capacity = _with_charge(view, self.capacity, charged)
        self.dominance = dominance_is_safe(view)
        cap, work = self.capacity, np.where(np.isfinite(a.work), a.work, 0.0)
        self.sums = (*_closures(view, cap, work, size), up_to(work.sum(axis=1)))
        # Of the weights, of work on every kind, of bytes, and, filled by the kernel, of bytes in later stages.
        self.summed = np.concatenate([cap.item, work, size[None], np.zeros((1, view.items))])

    def start(self, limits: PhaseLoads) -> DownsetSearch[Plain]:
        cap = self.capacity
        # The kernel keeps the memory of what remains in the last place.
        total = np.append(cap.item.sum(axis=1), 0.0)
        own = Plain(raised(limits.both), total, raised(cap.memory), *self.sums)
        store = new_store(len(self.view.codes.digits), 1 << 12, 1 << 12, 1 << 13)
        return self._search(limits, store, new_tally(self.summed, cap.net), own)


def _with_charge(view: PlainView, cap: Capacity, charged: ChargedItems) -> Capacity:
    """The capacity with charged work as the only weights, if that is more than the work."""
    a = view.arrays
    # A step back by more than rounding.
    item = np.maximum(clearly_below(charged.work[view.original]), a.work[0])[None]
    if float(item.sum()) < (1 + WORTH) * float(a.work.sum()):
        return cap
    net = np.where(charged.forced[view.nets], 0.0, a.net_cost[0])[None]
    # One device of the one pool has y = 1, so the scale is the number of devices left.
    scale = np.arange(cap.scale.shape[1], dtype=np.float64)[None]
    return replace(cap, item=item, net=net, choice=np.zeros_like(cap.choice), scale=scale, bonus=np.zeros_like(scale))


def _closures(view: PlainView, cap: Capacity, work: Floats, size: Floats) -> tuple[Floats, Floats, Floats]:
    """Weight and work of what follows every item, and (K, 2, n) work and bytes of what precedes it, or less."""
    up = before_and_after(view.arrays.graph, np.concatenate([cap.item, work]), False)
    down = before_and_after(view.arrays.graph, np.concatenate([work, size[None]]), True)
    rows, safe = cap.item.shape[0], 1 - TOLERANCE
    pairs = np.stack([np.stack([row, down[-1]]) for row in down[:-1]])
    return up[:rows] * safe, up[rows:] * safe, pairs * safe


def dominance_is_safe(view: PlainView) -> bool:
    """Without recomputation always; with it only where no memory limit can bind."""
    a = view.arrays
    if not a.recompute or not a.limited:
        return True
    most = float(a.in_flight.max()) * float(a.net_entering.sum())
    most += float(a.fixed.sum() + a.active.sum() + a.cover_fixed.sum() + a.cover_active.sum())
    return most + float(a.workspace.max(initial=0.0)) <= float(a.memory.min())
