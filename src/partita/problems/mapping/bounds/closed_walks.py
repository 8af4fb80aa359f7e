"""Whether there is a round of columns within a target: a closed walk that fills islands.

Source: own. Assume a mapping within a target. Each of its columns, one replica of every stage, has a *layout*
(``partita.problems.mapping.bounds.layouts``), an island for every stage. Two columns are beside each other in all rings
at once, so the layouts of both have to let every stage's ring lead from the one to the other. The R columns of the
mapping are a *round* of layouts beside each other that returns to the first, and together they take as many devices of
every island as there are.

That is a closed walk in a graph with resources, and is refuted as such. At *prices* of devices, positive or negative,
a round takes at least what the cheapest one takes, which dynamic programming finds; if that is more than all devices
of all islands together, there is none (Lagrangian relaxation). The same says it of each layout, and of each place in
the round, so that most drop out on the way; others do since one with the same islands can stand for them. Prices are
the shortest vector in the hull of what the cheapest rounds so far take too much or too little of every island (Wolfe,
"Finding the nearest point in a polytope", 1976): they part these from nothing too much and nothing too little, or come
to zero, where averages of rounds fill all islands.

Such an average may be of rounds at either end of a row of islands. So islands far from the first column have to be
visited, which the dynamic program keeps book of. Cheap rounds are annealed, too: columns are exchanged, taken out and
put in as far as the graph lets them, until islands are filled.

Then it branches: a round has some column on the island that the fewest layouts use. Each of these is tried as the first
one. What is left of its rounds is parted in two by whether the column at some place has some island: where the cheapest
rounds that have it differ most from those that have not in what they take too much of. In the end every layout is
refuted as the first one, or a round is found: columns from which a mapping is made. Where neither is so after as many
steps along the graph as are allowed, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.mapping.column_graph import distances, drop_columns, drop_replaceable
from partita.engines.kernels.mapping.rounds import fill_islands, least_walk, walks_on
from partita.engines.kernels.random import generator
from partita.engines.search.result import Status
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds.layout_graph import graph_within
from partita.problems.mapping.bounds.layouts import SLACK
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.instance import MappingInstance

#: Steps along pairs of layouts for one target, and as how many of these new prices count.
STEPS, _PRICED = 4_000_000_000, 100_000
#: Prices tried for all rounds, and for those of a part; and how short prices are, squared and as a share
#: of the shortest difference so far, at which it branches, after so many of them.
_ROOT, _PRICES, _SHORT, _FEW = 60, 40, 1e-4, 6
#: Annealings before prices that need all of the graph, and after these; trials for each replica; temperatures at first,
#: in turn, and at last; and how many steps a trial takes as long as.
_SOON, _LATE, _TRIALS, _HOT, _COLD, _COSTLY = 2, 6, 16_384, (1.0, 10.0), 0.02, 20
#: How often rounds are parted at most.
_DEEPEST = 250
#: Islands far from the first column that a round has to visit, without which averages of rounds at either end fill all
#: islands; and fewest replicas where that is looked at.
_VISITS, _LONG = 2, 12

Columns = npt.NDArray[np.int64]


class Round(NamedTuple):
    """Whether there is a round: ``infeasible``, ``feasible`` with (R, S) islands of its columns, or ``unknown``."""

    status: Status
    islands: Columns | None = None
    looked: bool = True  #: Whether layouts, and pairs of them, are few enough to look for one.
    steps: int = 0  #: How many there were.


def round_within(
    instance: MappingInstance,
    islands: list[Island],
    target: float,
    stopping: Callable[[], bool],
    steps: int = STEPS,
    *,
    proving: bool = True,
) -> Round:
    """A round that a mapping within a target may be; ``infeasible`` if there is no such mapping.

    There are devices enough, and as many replicas of every stage, more than one. ``steps`` is the most steps along
    pairs of layouts, ``stopping`` is polled. Unless it is ``proving``, it ends when annealing has failed.
    """
    graph = graph_within(instance, islands, up_to(target), stopping)
    if graph is None:
        return Round(Status.UNKNOWN, looked=False)
    if len(graph.islands) == 0:
        return Round(Status.INFEASIBLE)
    exact = instance.devices == instance.count
    room: Ints = np.array([len(island.members) for island in islands], dtype=np.int32)
    search = RoundSearch(graph.ptr, graph.beside, graph.uses, room, instance.replicas, stopping, steps, exact=exact)
    try:
        found = search.run(proving=proving)
    except _EndedError:
        return Round(Status.UNKNOWN, steps=steps - search.left)
    if found is None:
        return Round(Status.INFEASIBLE, steps=steps - search.left)
    return Round(Status.FEASIBLE, graph.islands[found], steps=steps - search.left)


class _Left(NamedTuple):
    """What is left of rounds: those that take the least at some prices, their shares, and the last prices.

    ``closed`` says that the last one is a round that fills islands.
    """

    walks: list[list[int]]
    shares: Floats
    prices: Floats
    closed: bool


class _EndedError(Exception):
    """There is no more time, or there were as many steps as are allowed."""


class RoundSearch:
    """A graph of columns, ``ptr`` and ``beside``, and what is left of it.

    Columns take, or ``uses``, (N, I) devices of every island, and there are (I,), or ``room``, of these, which a round
    takes all where ``exact``.
    """

    def __init__(
        self,
        ptr: Longs,
        beside: Ints,
        uses: Ints,
        room: Ints,
        replicas: int,
        stopping: Callable[[], bool],
        steps: int,
        *,
        exact: bool,
    ) -> None:
        self.ptr, self.beside, self.uses, self.room, self.replicas = ptr, beside, uses, room, replicas
        self.stopping, self.left, self.exact = stopping, steps, exact
        self.kept: Bools = np.all(uses <= room, axis=1)
        # Islands of all sizes count.
        self.scale = 1.0 / np.sqrt(np.maximum(1, room))
        self.refuting: Floats | None = None
        self.states = 2 ** (_VISITS if exact and replicas >= _LONG else 0)
        shape = (replicas + 1, len(uses), self.states)
        self.there, self.back, self.walk = np.empty(shape), np.empty(shape), np.empty(shape[0], dtype=np.int32)

    def run(self, *, proving: bool) -> list[int] | None:
        """The columns of a round in turn; None if there is none."""
        prices = self._drop()
        self._drop_replaceable()
        used = (self.uses[self.kept] > 0).sum(axis=0)
        if not self.kept.any() or (self.exact and not used.all()):
            return None
        first = self.kept & (self.uses[:, int(np.argmin(used))] > 0) if self.exact else self.kept.copy()
        self._far_from(first)
        places = np.tile(self.kept[:, None], (self.replicas + 1, 1, self.states))
        one = int(np.flatnonzero(first)[0])
        filled = self._filled(self._from(places, one), prices, range(_SOON if proving else _LATE))
        if filled is not None:
            return filled
        if not proving:
            raise _EndedError
        # All first ones at once, then one by one.
        places[[0, -1]] = False
        places[0, first, self.visits[first]] = places[-1, first, -1] = True
        found = self._narrowed(places, prices)
        if found is None or found.closed:
            return None if found is None else found.walks[-1]
        left = np.flatnonzero(places[0].any(axis=1)).tolist()
        for c in left:
            if c == left[0]:
                filled = self._filled(self._from(places, c), found.prices, range(_SOON, _LATE))
                if filled is not None:
                    return filled
            walk = self._branched(self._from(places, c), found.prices, 0)
            if walk is not None:
                return walk
            places[:, c] = False
        return None

    def _from(self, places: Bools, c: int) -> Bools:
        """Places of rounds that begin with a column."""
        found = places.copy()
        found[[0, -1]] = False
        found[1:-1] &= np.all(self.uses <= self.room - self.uses[c], axis=1)[:, None]
        found[0, c, self.visits[c]] = found[-1, c, -1] = True
        return found

    def _filled(self, places: Bools, prices: Floats, seeds: range) -> list[int] | None:
        """A round that annealing makes of the cheapest one from a column on; None if there is none, or it fails."""
        found = self._narrowed(places, prices, 1) if self.replicas > 2 else None
        if found is None or found.closed:
            return None if found is None else found.walks[-1]
        for seed in seeds:
            self._tick(_COSTLY * _TRIALS * self.replicas)
            walk = np.array(found.walks[0], dtype=np.int32)
            if fill_islands(
                *(self.ptr, self.beside, self.uses, self.room, self.exact, walk, _TRIALS * self.replicas),
                *(_HOT[seed % len(_HOT)], _COLD, generator(seed)),
            ):
                return [int(c) for c in walk]
        return None

    def _far_from(self, first: Bools) -> None:
        """Let rounds with some columns visit islands far from these: the furthest, and then that from both."""
        self.visits: Ints = np.zeros(len(self.kept), dtype=np.int32)
        sources = first.copy()
        for bit in range(int(math.log2(self.states))):
            apart = distances(self.ptr, self.beside, self.kept, sources)
            steps = [int(apart[self.kept & (column > 0)].min(initial=len(apart))) for column in self.uses.T]
            users = self.kept & (self.uses[:, int(np.argmax(steps))] > 0)
            self.visits |= users.astype(np.int32) << bit
            sources |= users

    def _tick(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0 or self.stopping():
            raise _EndedError

    def _drop_replaceable(self) -> None:
        """Drop layouts that others can stand for."""
        group: Ints = np.unique(self.uses, axis=0, return_inverse=True)[1].ravel().astype(np.int32)
        order: Ints = np.argsort(group, kind="stable").astype(np.int32)
        while drop_replaceable(self.ptr, self.beside, group, order, self.kept):
            self.beside = self.beside[: drop_columns(self.ptr, self.beside, self.kept)].copy()

    def _drop(self) -> Floats:
        """Drop layouts that no round has by what half a round on either side takes; the last prices."""
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
            dropped = self.kept & (through > self._goal(prices))
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
            _, following_prices, short = self._prices(walks)
            if short and number >= _FEW:
                return prices
            prices = following_prices
        return prices

    def _branched(self, places: Bools, prices: Floats, depth: int) -> list[int] | None:
        """A round that begins with one column, of what is left after so many parts; None if there is none."""
        if depth > _DEEPEST:
            raise _EndedError
        left = self._narrowed(places, prices)
        if left is None or left.closed:
            return None if left is None else left.walks[-1]
        step, who = self._parted(places, left)
        for those in (who, ~who):
            mine = places.copy()
            mine[step, ~those] = False
            walk = self._branched(mine, left.prices, depth + 1)
            if walk is not None:
                return walk
        return None

    def _parted(self, places: Bools, left: _Left) -> tuple[int, Bools]:
        """A step, and which columns may be there in one part of all rounds: that of most of the cheapest ones.

        The parts are those with an island there and those without: what says most about what rounds take too much.
        """
        over = self._over(left.walks)
        users = (self.uses > 0)[np.array(left.walks)]
        held = np.tensordot(left.shares, users, 1)
        taken = np.tensordot(users.astype(float), left.shares[:, None] * over, (0, 0))
        # Of two parts, how far their averages are apart, squared, and weighted by both shares.
        apart, both = ((taken - held[:, :, None] * (left.shares @ over)) ** 2).sum(axis=2), held * (1 - held)
        said = np.where(both > SLACK, apart / np.maximum(both, SLACK), -1.0)
        step, island = np.unravel_index(int(np.argmax(said)), said.shape)
        if said[step, island] > 0:
            having: Bools = self.uses[:, island] > 0
            return int(step), having if held[step, island] >= 0.5 else ~having
        there = np.any(places, axis=2)
        most = int(np.argmax(there.sum(axis=1)))
        return most, np.arange(len(self.kept)) <= np.median(np.flatnonzero(there[most]))

    def _narrowed(self, places: Bools, prices: Floats, most: int = _PRICES) -> _Left | None:
        """What is left of places at so many prices at most; None if that is nothing."""
        walks: list[list[int]] = []
        for number in range(most):
            some: Bools = np.any(places, axis=2)
            self._tick(_PRICED + 2 * (int((some @ np.diff(self.ptr)).sum()) + places.size))
            goal = self._goal(prices)
            least = least_walk(
                *(self.ptr, self.beside, self.uses @ prices, goal, self.visits, places),
                *(self.there, self.back, self.walk),
            )
            if least > goal or math.isinf(least):
                self.refuting = prices
                return None
            *walk, last = self.walk.tolist()
            over = self.uses[walk].sum(axis=0) - self.room
            if last == walk[0] and (not over.any() if self.exact else (over <= 0).all()):
                return _Left([walk], np.ones(1), prices, True)
            some = np.any(places, axis=2)
            walks = [known for known in walks if some[np.arange(self.replicas), known].all()] + [walk]
            shares, prices, short = self._prices(walks)
            if short and number >= _FEW:
                break
            if number == 0 and self.refuting is not None:
                # What has refuted the last one may refute this one, too.
                prices = self.refuting
        return _Left(walks, shares, prices, False)

    def _goal(self, prices: Floats) -> float:
        """What no round may take more than, with room for rounding."""
        return float(prices @ self.room + SLACK * (np.abs(prices) @ self.room))

    def _over(self, walks: list[list[int]]) -> Floats:
        """What rounds take too much, or too little, of every island."""
        return np.array([self.uses[walk].sum(axis=0) - self.room for walk in walks]) * self.scale

    def _prices(self, walks: list[list[int]]) -> tuple[Floats, Floats, bool]:
        """Shares of some rounds, prices at which all take more than what is there, and whether there are hardly any."""
        over = self._over(walks)
        shares = shortest(over)
        point = shares @ over
        short = bool(point @ point <= _SHORT * (over * over).sum(axis=1).min())
        prices = point * self.scale
        return shares, prices if self.exact else np.maximum(prices, 0.0), short


def shortest(points: Floats) -> Floats:
    """Shares of some points in nearly the shortest vector of their hull, by steps from its worst points to the best."""
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
    return shares
