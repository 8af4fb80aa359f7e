"""Leaving operators out for a bound, so that what is left has separators, and putting them back for a schedule.

Operators that run beside nearly everything (masks, what every decoder layer makes of the encoder's result) leave a
problem without separators (``partita.problems.makespan.separators``). Without them, and with what they stood between
kept in order, every schedule of the whole is one of the *thinned* problem with what was left out struck: nothing that
is left waits for more, and less excludes it. So what is proven of the thinned problem is a bound. The same holds for
flows that become mere precedences.

What is left out is what has *slack*: levels between the earliest and the latest at which it can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.incumbent import Incumbent
from partita.ground.dags import ranks, topological_order
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import left_shifted, starts_of
from partita.problems.makespan.separators import Chain, chain_of

if TYPE_CHECKING:
    from partita.problems.makespan.local_search import State

#: Slacks above which operators and flows are left out, the first that leaves small enough blocks; what that is.
SLACKS, _SIZES = (96, 48, 24, 12, 6), (24, 64, 100)
#: Most operators of a problem, and the largest share of the work that may be left out.
_MOST, _SHARE = 8_000, 0.35
#: Fewest separators, and operators of a block up to which what was left out is put back.
FEWEST, SMALL = 4, 16
#: Groups times devices times operators up to which devices of what is put back are chosen by trying.
_TRIALS = 5_000_000


@dataclass(frozen=True)
class Thinned:
    """A problem without some operators and flows."""

    whole: MakespanInstance  #: The problem.
    kept: tuple[int, ...]  #: Operators of the whole that are left, by their number in the thinned problem.
    instance: MakespanInstance  #: The thinned problem.

    @cached_property
    def chain(self) -> Chain:
        """Its separators."""
        return chain_of(self.instance)

    @cached_property
    def left_out(self) -> tuple[int, ...]:
        """Operators of the whole that are not in it, in topological order."""
        kept = set(self.kept)
        return tuple(v for v in self.whole.order if v not in kept)

    def without(self, plan: MakespanPlan) -> MakespanPlan:
        """A schedule of the whole, without what is left out; it may end earlier."""
        placed = [plan.operators[op.id] for op in self.instance.problem.operators]
        moved = [plan.flows[flow.id].start if flow.id in plan.flows else 0.0 for flow in self.instance.problem.flows]
        return left_shifted(self.instance, [one.device for one in placed], [one.start for one in placed], moved)

    @cached_property
    def out_groups(self) -> tuple[int, ...]:
        """Classes of the whole with a member that is left out."""
        return tuple(sorted({int(self.whole.arrays.group.of[v]) for v in self.left_out}))

    def put_back(
        self,
        plan: MakespanPlan,
        best: Incumbent[MakespanPlan],
        homes: Mapping[int, int] | None = None,
        *,
        limits: bool = True,
    ) -> State | None:
        """A schedule with what is left out, each put where it makes the whole end first; it is offered.

        ``homes`` has devices of classes to begin with. None where memory leaves no room, unless ``limits`` do not
        matter.
        """
        from partita.engines.kernels.makespan.lists import schedule
        from partita.problems.makespan.local_search import offer_state

        whole, a = self.whole, self.whole.arrays
        start, _ = starts_of(self.instance, plan)
        # What is left out comes just before the first of what waits for it.
        at = np.full(whole.count, np.inf)
        at[list(self.kept)] = start
        for v in reversed(self.left_out):
            at[v] = min((at[w] for w, _ in whole.after[v]), default=np.inf)
        place = np.lexsort((ranks(whole.order), at))
        preference = np.empty(whole.count, dtype=np.int64)
        preference[place] = np.arange(whole.count)
        order = np.array(topological_order(whole.count, [(u, v) for u, v, _ in whole.edges], preference), np.int32)
        device = np.zeros(whole.count, dtype=np.int32)
        device[list(self.kept)] = [plan.operators[op.id].device for op in self.instance.problem.operators]
        group = a.group.of
        home = {int(group[v]): int(device[v]) for v in self.kept}
        held = np.bincount(device[list(self.kept)], a.memory[list(self.kept)], whole.devices)
        rest = np.bincount(group[list(self.left_out)], a.memory[list(self.left_out)], len(a.group.ptr) - 1)
        members = whole.problem.classes()
        limit = a.limit if limits else np.full(whole.devices, np.inf)
        # All are somewhere before the first is chosen: beside what waits for them, where that can be.
        mine = {g: [v for v in members[g] if v in set(self.left_out)] for g in {int(group[v]) for v in self.left_out}}
        for g in sorted(mine, key=lambda g: -rest[g]):
            near = [int(device[w]) for v in mine[g] for w, _ in whole.after[v]]
            choices = [home[g]] if g in home else sorted(whole.choices[g], key=lambda d: (-near.count(d), d))
            open_to = [d for d in choices if held[d] + rest[g] <= limit[d]]
            if not open_to:
                return None
            asked = homes.get(g, -1) if homes else -1
            device[mine[g]] = chosen = asked if asked in open_to else open_to[0]
            held[chosen] += rest[g]
        room = whole.room()
        now = float(schedule(a, device, order, True, np.inf, room))
        few = len(mine) * whole.devices * whole.count <= _TRIALS
        single = sorted((g for g in mine if g not in home), key=lambda g: at[mine[g][0]])
        # What is connected moves together at first.
        for part in [*(part for part in self._connected(single) if len(part) > 1), *([g] for g in single)]:
            if best.done or not few:
                break
            for d in range(whole.devices):
                moved = [g for g in part if device[mine[g][0]] != d]
                full = held[d] + sum(rest[g] for g in moved) > limit[d]
                if not moved or full or not all(d in whole.choices[g] for g in moved):
                    continue
                before = device.copy()
                for g in moved:
                    device[mine[g]] = d
                value = float(schedule(a, device, order, True, now, room))
                if value < now:
                    now = value
                    for g in moved:
                        held[before[mine[g][0]]] -= rest[g]
                        held[d] += rest[g]
                else:
                    device = before
        if limits:
            offer_state(whole, best, (device, order), insertion=True)
        return device, order

    def later(self, state: State) -> Floats:
        """(classes left out, D) How much later the whole ends with each on each device than on the best one for it.

        Infinite where it cannot be, memory aside; 0 where there is too much to try.
        """
        from partita.engines.kernels.makespan.lists import schedule

        whole, (device, order), room = self.whole, state, self.whole.room()
        ends = np.zeros((len(self.out_groups), whole.devices))
        members = whole.problem.classes()
        for row, g in zip(ends, self.out_groups, strict=True):
            choices = whole.choices[g]
            row[[d for d in range(whole.devices) if d not in choices]] = np.inf
            if ends.size * whole.count > _TRIALS:
                continue
            for d in choices:
                moved = device.copy()
                moved[members[g]] = d
                row[d] = schedule(whole.arrays, moved, order, True, np.inf, room)
        found: Floats = ends - ends.min(axis=1, initial=np.inf, keepdims=True)
        return found

    def _connected(self, groups: list[int]) -> list[list[int]]:
        """Classes of what is left out, by what edges between them connect."""
        group = self.whole.arrays.group.of
        root = {g: g for g in groups}

        def find(g: int) -> int:
            while root[g] != g:
                g = root[g]
            return g

        for u, v, _ in self.whole.edges:
            ends = int(group[u]), int(group[v])
            if ends[0] in root and ends[1] in root:
                root[find(ends[0])] = find(ends[1])
        parts: dict[int, list[int]] = {}
        for g in groups:
            parts.setdefault(find(g), []).append(g)
        return list(parts.values())


def not_thinned(instance: MakespanInstance) -> Thinned:
    """A problem as it is."""
    return Thinned(instance, tuple(range(instance.count)), instance)


def thin(
    instance: MakespanInstance, *, slacks: Sequence[int] = SLACKS, fewest: int = FEWEST, small: int = SMALL
) -> Thinned | None:
    """What to leave out so that at least so many separators appear, between small blocks; None if that cannot be.

    ``slacks`` are what may stay at most, tried in turn; what leaves blocks of up to ``small`` operators is kept.
    """
    if instance.count > _MOST:
        return None
    looked = _Look(instance, fewest)
    for size in _SIZES:
        for most in slacks:
            found = looked.beyond(most)
            if found is not None and found.largest <= size:
                return looked.made(looked.put_back(found, max(found.largest, small)))
    return None


@dataclass(frozen=True)
class _Choice:
    """Operators that are kept, as bits by their place in the order, flows that are, and the largest block left."""

    kept: int
    flows: frozenset[int]
    largest: int


class _Look:
    """What every operator is comparable with, and its slack; numbers are places in the order."""

    def __init__(self, instance: MakespanInstance, fewest: int) -> None:
        self.instance, self.fewest, n = instance, fewest, instance.count
        place = ranks(instance.order).tolist()
        self.edges = sorted((place[u], place[v], f) for u, v, f in instance.edges)
        self.all = (1 << n) - 1
        above, below = [1 << v for v in range(n)], [1 << v for v in range(n)]
        early, late = [0] * n, [0] * n
        for u, v, _ in sorted(self.edges, key=lambda edge: edge[1]):
            above[v] |= above[u]
            early[v] = max(early[v], early[u] + 1)
        deepest = max(early)
        late = [deepest] * n
        for u, v, _ in reversed(self.edges):
            below[u] |= below[v]
            late[u] = min(late[u], late[v] - 1)
        self.related = [a | b for a, b in zip(above, below, strict=True)]
        self.slack = [b - a for a, b in zip(early, late, strict=True)]
        self.span = {f: early[v] - early[u] - 1 for u, v, f in self.edges if f >= 0}
        self.work = instance.mean_times[instance.order]

    def beyond(self, most: int) -> _Choice | None:
        """All without more than so much slack; None if too much is left out, or too little separates the rest."""
        out = [v for v, slack in enumerate(self.slack) if slack > most]
        flows = frozenset(f for f, span in self.span.items() if span <= most)
        if self.work[out].sum() > _SHARE * self.work.sum():
            return None
        return self._choice(self.all & ~sum(1 << v for v in out), flows)

    def put_back(self, choice: _Choice, most: int) -> _Choice:
        """The same with all that can be kept without making blocks larger than that, the least slack first."""
        for _, v in sorted((self.slack[v], v) for v in range(self.instance.count) if not choice.kept >> v & 1):
            more = self._choice(choice.kept | 1 << v, choice.flows)
            choice = more if more is not None and more.largest <= most else choice
        for _, f in sorted((span, f) for f, span in self.span.items() if f not in choice.flows):
            more = self._choice(choice.kept, choice.flows | {f})
            choice = more if more is not None and more.largest <= most else choice
        return choice

    def _choice(self, kept: int, flows: frozenset[int]) -> _Choice | None:
        """What is kept, if enough separates it."""
        n = self.instance.count
        apart = [bool(kept >> v & 1) and kept & ~self.related[v] == 0 for v in range(n)]
        # Separators that flows bypass: one more from the first place behind the source, one less from the target.
        steps = [0] * (n + 1)
        for u, v, f in self.edges:
            if f in flows and kept >> u & 1 and kept >> v & 1:
                steps[u + 1] += 1
                steps[v] -= 1
        largest = size = count = passing = 0
        for v in range(n):
            passing += steps[v]
            if apart[v] and not passing:
                largest, size, count = max(largest, size), 0, count + 1
            else:
                size += kept >> v & 1
        return _Choice(kept, flows, max(largest, size)) if count >= self.fewest else None

    def made(self, choice: _Choice) -> Thinned:
        """The problem of a choice; what was left out between two operators orders them."""
        instance = self.instance
        problem, ops = instance.problem, instance.problem.operators
        kept = [v for place, v in enumerate(instance.order) if choice.kept >> place & 1]
        stays = set(kept)
        pairs = dict.fromkeys(
            (u, v) for u, v, f in instance.edges if f not in choice.flows and u in stays and v in stays
        )
        # For what is left out, those kept that it comes after, past others that are left out.
        past: dict[int, list[int]] = {}
        for v in instance.order:
            before = dict.fromkeys(w for u, _ in instance.before[v] for w in ([u] if u in stays else past[u]))
            if v not in stays:
                past[v] = list(before)
            else:
                direct = {u for u, _ in instance.before[v]}
                pairs |= dict.fromkeys((u, v) for u in before if u not in direct)
        kept.sort()
        thinned = problem.replace(
            operators=tuple(ops[v] for v in kept),
            flows=tuple(
                problem.flows[f] for u, v, f in instance.edges if f in choice.flows and u in stays and v in stays
            ),
            precedence=tuple((ops[u].id, ops[v].id) for u, v in pairs),
            notes=(),
        )
        return Thinned(instance, tuple(kept), build_instance(thinned))
