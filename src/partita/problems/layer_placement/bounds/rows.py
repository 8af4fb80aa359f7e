"""What machines side by side cost: the area bound with whole machines at every layer, and links between them.

Source: own. Suppose that f tokens per second flow. At every layer the machines that hold it pass f together. Give every
machine a weight v, spread evenly over its layers: with k layers it brings v/k to each. If

* v >= k wherever the machine passes f alone with k layers, and
* any two or more machines, of any kinds and numbers of layers, that together pass f bring at least 1 + π,

then a layer gets 1 from a machine alone and 1 + π from several, and so Σ v >= L; if somewhere machines are side by side
at all, Σ v >= L + π. The area bound is the same with weights of parts of machines: a machine that passes a tenth less
than f costs a tenth more there, and half a layer of a partner here.

If nowhere machines are side by side, the plan is a chain over which all of f goes from machine to machine, and its
machines are joined by links that carry f: then those of one component of these links hold all layers.

So f is refuted where no component holds all layers at f each, and some weights have Σ v < L + π. The weights come from
a linear program whose rows, the sets of machines that pass f, are made as they are needed; that they bring what they
have to is seen from the cheapest such set (depth first, with the best rate for its weight as a bound), so that nothing
depends on the program's tolerances. Refuted flows are refuted for all larger ones: bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from partita.engines.mip.model import MixedProgram
from partita.engines.mip.solve import missing, solve_program
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import SUMMED, TOLERANCE
from partita.problems.kind import BoundMethod
from partita.problems.layer_placement.bounds.area import most_by_area, seconds_per_token
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: Sets of machines tried for one cheapest one, and programs for one flow.
_TRIED, _PROGRAMS = 20_000, 60

#: Kinds and numbers of layers of machines side by side.
Side = tuple[tuple[int, int], ...]


class SideBySide(BoundMethod[LayerPlacementProblem]):
    """See the module."""

    name = "side by side"
    summary = "whole machines side by side at every layer, and chains within components of links; ignores who is where"
    argument = (
        "machines that pass less need others beside them, and one after the other they only reach those that wide "
        "links join: weighted so, all machines together do not hold all layers"
    )

    def supports(self, problem: LayerPlacementProblem) -> str | None:
        return missing("highs")

    def bound(self, problem: LayerPlacementProblem, monitor: Monitor) -> Bound:
        instance = LayerInstance(problem)
        high = most_by_area(instance)
        rows = Rows(instance, lambda: monitor.stopping)
        for flow in rows.falling(0.0, high):
            high = flow
        return Bound(seconds_per_token(high), self.name, self.scope, monitor.elapsed_s)


class _Item(NamedTuple):
    """A machine of a kind with so many layers, what it passes, and its weight at each of them."""

    kind: int
    layers: int
    rate: float
    weight: float


class Rows:
    """Refutes flows; sets of machines that were rows for one are tried again for the next."""

    def __init__(self, instance: LayerInstance, stopping: Callable[[], bool]) -> None:
        self.instance, self.stopping = instance, stopping
        self.counts = [len(members) for members in instance.kinds]
        self.tables = [instance.rate[members[0]] for members in instance.kinds]
        self.known: list[Side] = []

    def falling(self, low: float, high: float, closeness: float = TOLERANCE) -> Iterator[float]:
        """Refuted flows between one that is possible (0 for none known) and one that is not, each below the last."""
        first = low * (1.0 + TOLERANCE)
        # What is known to be possible is likely to be the most.
        if 0 < first < high and self.refuted(first):
            yield first
            return
        while high - low > closeness * high and not self.stopping():
            middle = (low + high) / 2
            if self.refuted(middle):
                high = middle
                yield high
            else:
                low = middle

    def refuted(self, flow: float) -> bool:
        """Whether it is proven that no plan has such a flow."""
        return not self._chain(flow) and self._outweighed(flow)

    def _chain(self, flow: float) -> bool:
        """Whether machines that are joined by links as wide could hold all layers, one after the other."""
        instance, count = self.instance, self.instance.count
        alone = instance.alone(flow)
        wide = instance.link[:count, :count] >= flow
        wide = (wide | wide.T) & (alone > 0)[:, None] & (alone > 0)[None, :]
        left = set(np.flatnonzero(alone).tolist())
        while left:
            part, pending = set(), [left.pop()]
            while pending:
                place = pending.pop()
                part.add(place)
                for other in np.flatnonzero(wide[place]).tolist():
                    if other in left:
                        left.remove(other)
                        pending.append(other)
            members = sorted(part)
            fed = bool((instance.link[count, members] >= flow).any())
            taken = bool((instance.link[members, count + 1] >= flow).any())
            if fed and taken and int(alone[members].sum()) >= instance.layers:
                return True
        return False

    def _outweighed(self, flow: float) -> bool:
        """Whether some weights show that machines side by side do not hold all layers."""
        layers = self.instance.layers
        alone = [int(np.flatnonzero(table >= flow).max(initial=0)) for table in self.tables]
        for _ in range(_PROGRAMS):
            if self.stopping():
                return False
            weights = self._weights(flow, alone)
            if weights is None:
                return False
            least, side = self._cheapest(flow, weights)
            total = math.fsum(n * v for n, v in zip(self.counts, weights, strict=True)) * (1 + SUMMED)
            # Weights that bring too little are made larger: then they are weights, if not the best.
            if total < layers + (least - 1.0) * (1 - SUMMED) if least >= 1 else total < layers * least:
                return True
            if side is None or side in self.known:
                return False
            self.known.append(side)
        return False

    def _weights(self, flow: float, alone: list[int]) -> list[float] | None:
        """The best weights for the sets that are known; None where they are not enough to refute the flow."""
        layers = float(self.instance.layers)
        program = MixedProgram()
        kinds = zip(alone, self.counts, strict=True)
        value = [program.add_continuous(float(least), layers, float(n)) for least, n in kinds]
        more = program.add_continuous(0.0, layers, -1.0)
        for side in self.known:
            if flow - sum(self.tables[kind][k] for kind, k in side) <= SUMMED * flow:
                program.add_row([*((value[kind], 1.0 / k) for kind, k in side), (more, -1.0)], lower=1.0)
        found = solve_program(program, "highs", time_limit_s=10.0)
        if found.values is None or found.objective >= layers:
            return None
        return [max(float(least), float(v)) for least, v in zip(alone, found.values, strict=False)]

    def _cheapest(self, flow: float, weights: list[float]) -> tuple[float, Side | None]:
        """What two or more machines that pass the flow bring at least, and which do; infinite where none do."""
        items = self._items(weights)
        if not items:
            return math.inf, None
        best, found, tried, opened = math.inf, None, 0, math.inf
        floor = min(item.weight for item in items)
        # What is still to be passed and what is spent so far; only items from a place on, so that no set comes twice.
        stack: list[tuple[float, float, int, Side]] = [(flow, 0.0, 0, ())]
        while stack:
            need, spent, first, side = stack.pop()
            tried += 1
            if tried > _TRIED:
                # Sets below this one are not known: they cost at least so much.
                opened = min(opened, spent + self._rest(items, first, need, len(side), floor))
                continue
            for place in range(len(items) - 1, first - 1, -1):
                item = items[place]
                now, cost = need - item.rate, spent + item.weight
                chosen = (*side, (item.kind, item.layers))
                if now <= SUMMED * flow and len(chosen) >= 2:
                    if cost < best:
                        best, found = cost, chosen
                elif cost + self._rest(items, place, now, len(chosen), floor) < best - 1e-12:
                    stack.append((now, cost, place, chosen))
        return min(best, opened) * (1 - SUMMED), found

    @staticmethod
    def _rest(items: list[_Item], first: int, need: float, chosen: int, floor: float) -> float:
        """The least that is still to be spent: at the best rate for its weight, and on a second machine."""
        by_rate = max(0.0, need) * items[first].weight / items[first].rate if first < len(items) else math.inf
        return max(by_rate, floor if chosen < 2 else 0.0)

    def _items(self, weights: list[float]) -> list[_Item]:
        """Machines that pass something, the best rate for the weight first; of one kind those that are best at all."""
        found: list[_Item] = []
        for kind, (table, weight) in enumerate(zip(self.tables, weights, strict=True)):
            most = 0.0
            for k in range(len(table) - 1, 0, -1):
                # With more layers a machine weighs less: with fewer it must pass more.
                if table[k] > most:
                    most = float(table[k])
                    found.append(_Item(kind, k, most, weight / k))
        return sorted(found, key=lambda item: (item.weight / item.rate, item.kind, item.layers))
