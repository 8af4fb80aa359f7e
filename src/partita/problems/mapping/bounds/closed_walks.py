"""Whether there is a round of columns within a target: a closed walk that fills islands.

Source: own. Assume a mapping within a target. Each of its columns, one replica of every stage, has a *layout*
(``partita.problems.mapping.bounds.layouts``), an island for every stage. Two columns are beside each other in all rings
at once, so the layouts of both have to let every stage's ring lead from the one to the other. The R columns of the
mapping are a *round* of layouts beside each other that returns to the first, and together they take as many devices of
every island as there are.

That is a closed walk in a graph with resources, and is refuted as such. At *prices* of devices, positive or negative,
a round takes at least what the cheapest one takes, which dynamic programming finds; if that is more than all devices
of all islands together, there is none (Lagrangian relaxation). The same says it of each layout, and of each place in
the round, so that most drop out on the way. Prices are the shortest vector in the hull of what the cheapest rounds so
far take too much or too little of every island (Wolfe, "Finding the nearest point in a polytope", 1976): they part
these from nothing too much and nothing too little, or come to zero, where averages of rounds fill all islands.

Then it branches: a round has some column on the island that the fewest layouts use. Each of these is tried as the first
one, and then those beside it. In the end every layout is refuted as the first one, or a round is found: columns from
which a mapping is made. Where neither is so after as many steps along the graph as are allowed, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs, bit_rows
from partita.engines.kernels.mapping.rounds import columns_beside, drop_columns, least_round, walks_on
from partita.engines.search.result import Status
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds.layouts import Layouts, layouts_within
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: Layouts, and pairs of these beside each other, at most; and steps along these pairs for one target.
MOST_LAYOUTS, _PAIRS, STEPS = 12_000, 6_000_000, 4_000_000_000
#: Prices tried for all rounds, and for those with some columns fixed; and how short prices are, squared and as a share
#: of the shortest difference so far, at which it branches, after so many of them.
_ROOT, _PRICES, _SHORT, _FEW = 60, 40, 1e-4, 6
#: Columns that are fixed at most.
_DEEPEST = 250
#: What sums in another order may differ by, as a share.
_SLACK = 1e-9

Columns = npt.NDArray[np.int64]


class Round(NamedTuple):
    """Whether there is a round: ``infeasible``, ``feasible`` with (R, S) islands of its columns, or ``unknown``."""

    status: Status
    islands: Columns | None = None
    looked: bool = True  #: Whether layouts are few enough to look for one.


def round_within(
    instance: MappingInstance,
    islands: list[Island],
    target: float,
    stopping: Callable[[], bool],
    steps: int = STEPS,
) -> Round:
    """A round that a mapping within a target may be; ``infeasible`` if there is no such mapping.

    There are devices enough, and as many replicas of every stage, more than one. ``steps`` is the most steps along
    pairs of layouts, ``stopping`` is polled.
    """
    limit = up_to(target)
    layouts = layouts_within(instance, islands, limit, MOST_LAYOUTS)
    if layouts is None or stopping():
        return Round(Status.UNKNOWN, looked=False)
    if len(layouts.islands) == 0:
        return Round(Status.INFEASIBLE)
    search = _Rounds(instance, islands, layouts, limit, stopping, steps)
    try:
        found = search.run()
    except _EndedError:
        return Round(Status.UNKNOWN)
    if found is None:
        return Round(Status.INFEASIBLE)
    return Round(Status.FEASIBLE, layouts.islands[found])


class _EndedError(Exception):
    """There is no more time, or there were as many steps as are allowed."""


class _Rounds:
    """The graph of the layouts within a limit, and what is left of it."""

    def __init__(
        self,
        instance: MappingInstance,
        islands: list[Island],
        layouts: Layouts,
        limit: float,
        stopping: Callable[[], bool],
        steps: int,
    ) -> None:
        self.replicas, self.stopping, self.left = instance.replicas, stopping, steps
        self.exact = instance.devices == instance.count
        count = len(layouts.islands)
        self.room = np.array([len(island.members) for island in islands], dtype=np.int32)
        self.uses = np.array([(layouts.islands == i).sum(axis=1) for i in range(len(islands))]).T.astype(np.int32)
        self.kept: Bools = np.all(self.uses <= self.room, axis=1)
        self.ptr: Longs = np.zeros(count + 1, dtype=np.int64)
        beside: Ints = np.empty(_PAIRS, dtype=np.int32)
        own, leads = _sides(instance, islands, layouts, limit)
        stop = np.array([stopping()], dtype=np.int64)
        pairs = columns_beside(bit_rows(own), bit_rows(leads), self.uses, self.room, stop, self.ptr, beside)
        self.beside = beside[:pairs].copy() if pairs >= 0 else None
        # Islands of all sizes count.
        self.scale = 1.0 / np.sqrt(np.maximum(1, self.room))
        shape = (self.replicas + 1, count)
        self.there, self.back, self.before = np.empty(shape), np.empty(shape), np.empty(shape, dtype=np.int32)

    def run(self) -> list[int] | None:
        """The layouts of a round in turn; None if there is none."""
        if self.beside is None:
            raise _EndedError
        prices = self._drop()
        while True:
            used = (self.uses[self.kept] > 0).sum(axis=0)
            if not self.kept.any() or (self.exact and not used.all()):
                return None
            first = self.kept.copy()
            if self.exact:
                first &= self.uses[:, int(np.argmin(used))] > 0
            c = int(np.flatnonzero(first)[0])
            places = np.repeat(self.kept[None], self.replicas + 1, axis=0)
            found = self._between([c], places, prices)
            if found is not None:
                return found
            self.kept[c] = False

    def _tick(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0 or self.stopping():
            raise _EndedError

    def _drop(self) -> Floats:
        """Drop layouts that no round has by what half a round on either side takes; the last prices."""
        assert self.beside is not None
        half, rest = self.replicas // 2, (self.replicas - 1) // 2
        least = np.zeros((half + 1, len(self.kept)))
        following = np.zeros(least.shape, dtype=np.int32)
        prices = np.zeros(len(self.room))
        walks: list[list[int]] = []
        for number in range(_ROOT):
            self._tick(half * (len(self.beside) + len(self.kept)))
            costs = self.uses @ prices
            walks_on(self.ptr, self.beside, costs, self.kept, least, following)
            through = np.where(self.kept, costs + least[half] + least[rest], math.inf)
            dropped = self.kept & (through > self._goal(prices, self.room))
            if dropped.any():
                self.kept &= ~dropped
                self.beside = self.beside[: drop_columns(self.ptr, self.beside, self.kept)].copy()
            used = (self.uses[self.kept] > 0).sum(axis=0)
            if not used.all() and (self.exact or not self.kept.any()):
                return prices
            some = self.kept & (self.uses[:, int(np.argmin(used))] > 0) if self.exact else self.kept
            c = int(np.argmin(np.where(some, through, math.inf)))
            walk = [c]
            for steps in (half, rest):
                at = c
                for step in range(steps, 0, -1):
                    at = int(following[step, at])
                    walk.append(at)
            walks = [known for known in walks if self.kept[known].all()] + [walk]
            following_prices, short = self._prices(walks, self.room)
            if short and number >= _FEW:
                return prices
            prices = following_prices
        return prices

    def _between(self, fixed: list[int], places: Bools, prices: Floats) -> list[int] | None:
        """A round with some columns fixed, in turn; ``places`` is how many steps after the last others may be."""
        assert self.beside is not None
        if len(fixed) > _DEEPEST:
            raise _EndedError
        steps = len(places) - 1
        room = self.room - self.uses[fixed].sum(axis=0)
        if steps == 1:
            # Only those were tried that are beside both ends.
            return fixed if (not room.any() if self.exact else (room >= 0).all()) else None
        places[1:steps] &= (self.uses <= room).all(axis=1)
        walks: list[list[int]] = []
        shares: dict[int, int] = {}
        for number in range(_PRICES):
            self._tick(2 * (int((places[1:] @ np.diff(self.ptr)).sum()) + places.size))
            goal = self._goal(prices, room)
            least = least_round(
                *(self.ptr, self.beside, self.uses @ prices, goal, fixed[-1], fixed[0], places),
                *(self.there[: steps + 1], self.back[: steps + 1], self.before[: steps + 1]),
            )
            if least > goal:
                return None
            walk, at = [], fixed[0]
            for step in range(steps, 1, -1):
                at = int(self.before[step, at])
                walk.append(at)
            walk.reverse()
            over = self.uses[walk].sum(axis=0) - room
            if not over.any() if self.exact else (over <= 0).all():
                return [*fixed, *walk]
            walks = [known for known in walks if places[np.arange(1, steps), known].all()] + [walk]
            prices, short = self._prices(walks, room)
            if short and number >= _FEW:
                break
        for known in walks:
            shares[known[0]] = shares.get(known[0], 0) + 1
            shares[-1 - known[-1]] = shares.get(-1 - known[-1], 0) + 1
        after, ahead = np.flatnonzero(places[1]).tolist(), np.flatnonzero(places[-2]).tolist()
        if len(after) <= len(ahead):
            for c in sorted(after, key=lambda c: -shares.get(c, 0)):
                found = self._between([*fixed, c], places[1:].copy(), prices)
                if found is not None:
                    return found
        else:
            for c in sorted(ahead, key=lambda c: -shares.get(-1 - c, 0)):
                found = self._between([c, *fixed], places[:-1].copy(), prices)
                if found is not None:
                    return found
        return None

    def _goal(self, prices: Floats, room: Ints) -> float:
        """What no round may take more than, with room for rounding."""
        return float(prices @ room + _SLACK * (np.abs(prices) @ self.room))

    def _prices(self, walks: list[list[int]], room: Ints) -> tuple[Floats, bool]:
        """Prices at which some rounds take more than all that is there, and whether there are hardly any."""
        over = np.array([self.uses[walk].sum(axis=0) - room for walk in walks]) * self.scale
        point = shortest(over)
        short = bool(point @ point <= _SHORT * (over * over).sum(axis=1).min())
        prices = point * self.scale
        return (prices if self.exact else np.maximum(prices, 0.0)), short


def _sides(instance: MappingInstance, islands: list[Island], layouts: Layouts, limit: float) -> tuple[Bools, Bools]:
    """(N, S · I) Where each layout has its stages, and where layouts beside it may have them."""
    pace, count = Passages(instance, islands).pace, len(layouts.islands)
    most = limit * (1 + _SLACK)
    own = np.zeros((count, instance.stages, len(islands)), dtype=bool)
    leads = np.ones(own.shape, dtype=bool)
    rows = np.arange(count)
    for s in range(instance.stages):
        here = layouts.islands[:, s]
        own[rows, s, here] = True
        if instance.partners[s]:
            ring = float(instance.ring[s]) * pace[here]
            leads[:, s] = layouts.away[:, s][:, None] + ring <= most
            leads[rows, s, here] = layouts.inside[:, s] <= most
    return own.reshape(count, -1), leads.reshape(count, -1)


def shortest(points: Floats) -> Floats:
    """Nearly the shortest vector in the hull of some points, by steps from the worst of those it is of to the best."""
    products = points @ points.T
    shares = np.zeros(len(points))
    shares[int(np.argmin(np.diag(products)))] = 1.0
    for _ in range(20 * len(points)):
        along = products @ shares
        best = int(np.argmin(along))
        worst = int(np.argmax(np.where(shares > 0, along, -math.inf)))
        gain, width = along[worst] - along[best], products[best, best] + products[worst, worst]
        width -= 2.0 * products[best, worst]
        if gain <= 1e-6 * max(float(shares @ along), 1e-12) or width <= 0:
            break
        step = min(float(shares[worst]), gain / width)
        shares[best] += step
        shares[worst] -= step
    return np.asarray(shares @ points)
