"""The decision "is there an acyclic split with every load at most T?", resumable, and why its pruning is safe.

A state is an ideal I (items of the stages placed so far) and the devices used; R is what remains.

*Fewest devices.* Of two states with one ideal, the one that uses no more devices of any kind is at least as good: it
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
the communication, either the cost of nets whose fate is open or certain plus v's own, or what enters from I plus the
most that can cross any ideal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.kernels.throughput.arrays import Floats, Longs
from partita.problems.throughput.solvers.plain_view import PlainView
from partita.problems.throughput.solvers.remaining_capacity import Capacity, capacity
from partita.problems.throughput.solvers.view import Limits, Placed, Split

__all__ = ["FULL", "ChargedItems", "Decision", "Searcher"]

#: Status of a decision that ran out of memory for its states; the others are those of ``kernels.throughput.search``.
FULL = 9

#: Relative slack of the comparison with T: more than rounding, less than any claim.
SLACK = 1e-11

#: Items up to which sums over everything before or after an item are computed exactly (n² bits).
LARGEST_CLOSURE = 15_000


#: Charged work must add up to so much more than work to take its place.
WORTH = 1e-3


@dataclass(frozen=True)
class ChargedItems:
    """Charged work of the items of the instance, and which of its nets it counts; see the module.

    Attributes
    ----------
    target
        Largest target at which it holds.
    work
        (n,) charged work.
    forced
        (m,) nets whose cost may be part of it.
    """

    target: float
    work: Floats
    forced: npt.NDArray[np.bool_]


class Searcher:
    """What all decisions about one problem share.

    Parameters
    ----------
    view
        The problem in one direction.
    top
        No target will be larger.
    cross_limit
        (K,) upper bound on the cost of nets that cross any ideal, infinite if unknown.
    max_bytes
        Most memory for the states of one decision.
    charged
        Charged work for problems with one kind of device; not used for a ``top`` above its target.
    """

    def __init__(
        self,
        view: PlainView,
        top: float,
        cross_limit: Floats | None = None,
        max_bytes: float = 1.2e9,
        charged: ChargedItems | None = None,
    ) -> None:
        self.view = view
        self.top = top
        self.capacity: Capacity = capacity(view, top)
        if charged is not None and top <= charged.target and view.arrays.work.shape[0] == 1:
            self.capacity = _with_charge(view, self.capacity, charged)
        kinds = view.arrays.work.shape[0]
        self.cross_limit = np.full(kinds, np.inf) if cross_limit is None else cross_limit
        self.max_bytes = max_bytes
        self.dominance = dominance_is_safe(view)
        self.sums = _closures(view, self.capacity)
        words = np.random.default_rng(20240229).integers(0, 2**63, size=2 * view.items, dtype=np.uint64)
        self.zobrist = words[::2] ^ (words[1::2] << np.uint64(1))


def _with_charge(view: PlainView, cap: Capacity, charged: ChargedItems) -> Capacity:
    """The capacity with charged work as the only weights, if that is more than the work."""
    a = view.arrays
    # A step back by more than rounding.
    item = np.maximum(charged.work[view.original] * (1 - 1e-9), a.work[0])[None]
    if float(item.sum()) < (1 + WORTH) * float(a.work.sum()):
        return cap
    net = np.where(charged.forced[view.nets], 0.0, a.net_cost[0])[None]
    # One device of the one pool has y = 1, so the scale is the number of devices left.
    scale = np.arange(cap.scale.shape[1], dtype=np.float64)[None]
    return replace(cap, item=item, net=net, choice=np.zeros_like(cap.choice), scale=scale, bonus=np.zeros_like(scale))


def _closures(view: PlainView, cap: Capacity) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Weight and work of what follows, and work of what precedes, every item (lower bounds on large graphs)."""
    from partita.kernels.throughput.closures import chain_sums, closure_sums

    a, n = view.arrays, view.items
    work = np.where(np.isfinite(a.work), a.work, 0.0)
    kernel = closure_sums if n <= LARGEST_CLOSURE else chain_sums
    after = np.concatenate([cap.item, work])
    size = view.least_bytes
    before = np.concatenate([work, size[None]])
    up, down = np.zeros_like(after), np.zeros_like(before)
    kernel(a.succ_ptr, a.succ, after, False, up)
    kernel(a.pred_ptr, a.pred, before, True, down)
    rows, safe = cap.item.shape[0], 1 - 1e-9
    return up[:rows] * safe, up[rows:] * safe, down * safe, work.sum(axis=1) * (1 + 1e-9), size


def dominance_is_safe(view: PlainView) -> bool:
    """Without recomputation always; with it only where no memory limit can bind."""
    a = view.arrays
    if not a.limits[1] or not a.limits[0]:
        return True
    most = float(a.in_flight.max()) * float(a.net_entering.sum())
    most += float(a.fixed.sum() + a.active.sum() + a.cover_fixed.sum() + a.cover_active.sum())
    return most + float(a.workspace.max(initial=0.0)) <= float(a.memory.min())


class Decision:
    """One search at one target; ``run`` continues it."""

    def __init__(self, searcher: Searcher, target: float) -> None:
        from partita.kernels.throughput import ideals, search
        from partita.kernels.throughput.search_state import new_scratch, new_store

        self.searcher, self.target = searcher, target
        self.search, self.ideals = search.search, ideals
        view, cap = searcher.view, searcher.capacity
        a = view.arrays
        total = np.append(cap.item.sum(axis=1), 0.0)
        (choice,), (budget,) = cap.choice, cap.budget(Limits(target), 2 * SLACK)
        self.weights = ideals.Weights(
            cap.item, cap.net, total, choice, budget, cap.memory * (1 + 1e-12), cap.radix, *searcher.sums
        )
        self.store = new_store(view.codes)
        self.scratch = new_scratch(a, searcher.zobrist, cap.item.shape[0])
        self.limit_bytes = searcher.max_bytes
        self.arrays = a

    @property
    def nodes(self) -> int:
        """Decisions made so far: the deterministic measure of effort."""
        return int(self.store.counters[self.ideals.NODES])

    @property
    def states(self) -> int:
        """States kept so far."""
        return int(self.store.counters[self.ideals.STATES])

    @property
    def expected(self) -> float:
        """Nodes still needed if the levels to come are as wide as what is open now; infinite in the first state."""
        c, kernel = self.store.counters, self.ideals
        done = int(c[kernel.CURSOR])
        if done == 0:
            return float("inf")
        levels = self.searcher.view.device_count - int(c[kernel.LEVEL])
        return self.nodes / done * max(1, int(c[kernel.STATES]) - done) * levels

    def run(self, node_limit: int, stop: Longs, halt: Longs | None = None) -> int:
        """Search until an answer, ``node_limit`` nodes in all, a raised ``stop[0]`` or ``halt[0]``, or full memory."""
        from partita.kernels.throughput.search import GROW

        view = self.searcher.view
        while True:
            status = int(
                self.search(
                    self.arrays,
                    self.weights,
                    self.store,
                    self.scratch,
                    self.target * (1 + SLACK),
                    self.searcher.cross_limit,
                    self.searcher.dominance,
                    view.stride,
                    view.digits,
                    view.digit_sum,
                    node_limit,
                    stop,
                    stop if halt is None else halt,
                )
            )
            if status != GROW:
                return status
            if not self._grow():
                return FULL

    def _grow(self) -> bool:
        s, kernel = self.store, self.ideals
        ideals, used, states = (int(s.counters[i]) for i in (kernel.IDEALS, kernel.POOL, kernel.STATES))
        size = sum(int(field.nbytes) for field in s)
        if size * 2 > self.limit_bytes:
            return False
        changes: dict[str, Any] = {}

        def longer(name: str, filled: int) -> None:
            old = getattr(s, name)
            new = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
            new[:filled] = old[:filled]
            changes[name] = new

        if states >= s.state_ideal.shape[0]:
            for name in ("state_ideal", "state_code", "state_parent", "state_kind"):
                longer(name, states)
        else:
            words = self.scratch.words.shape[0]
            if used + words > s.pool.shape[0]:
                longer("pool", used)
            if ideals >= s.ideal_hash.shape[0]:
                for name in ("ideal_hash", "ideal_first", "ideal_length", "ideal_offset", "fewest"):
                    longer(name, ideals)
                table = np.zeros(2 * s.table.shape[0], dtype=np.int32)
                kernel.rehash(table, changes["ideal_hash"], ideals)
                changes["table"] = table
        self.store = s._replace(**changes)
        return True

    def split(self) -> Split:
        """The stages of a found split, in search order."""
        s, kernel, n = self.store, self.ideals, self.searcher.view.items
        inside = np.ones(n, dtype=bool)
        stages: Split = []
        state, kind = int(s.counters[kernel.LAST_PARENT]), int(s.counters[kernel.LAST_KIND])
        while state >= 0:
            before = self._bits(int(s.state_ideal[state]))
            stages.append(Placed(kind, 1, np.flatnonzero(inside & ~before).astype(np.int32)))
            inside = before
            kind = int(s.state_kind[state])
            state = int(s.state_parent[state])
        stages.reverse()
        return stages

    def _bits(self, ideal: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        s = self.store
        first, length = int(s.ideal_first[ideal]), int(s.ideal_length[ideal])
        offset = int(s.ideal_offset[ideal])
        words = np.zeros_like(self.scratch.words)
        words[:first] = np.uint64(0xFFFFFFFFFFFFFFFF)
        words[first : first + length] = s.pool[offset : offset + length]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return bits[: self.searcher.view.items].astype(bool)
