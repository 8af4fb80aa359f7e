"""What machines side by side cost: the area bound with whole machines at every layer, and links between them.

Source: own. Suppose that f tokens per second flow. At every layer the machines that hold it pass f together. Give every
machine a weight v, spread evenly over its layers: with k layers it brings v/k to each. Let v >= k wherever the machine
passes f alone with k layers, and let any two or more machines, of any kinds and numbers of layers, that together pass f
bring at least 1. Then every layer gets 1, so that Σ v >= L. The area bound has weights of parts of machines: a machine
that passes a tenth less than f costs a tenth more there, and half a layer of a partner here.

*Bundles.* Without overlap a machine has one flow in all its layers, so that one that is alone at some layer is alone at
all of its own. The plan is a row of machines that are alone and of *bundles*, layers in a row at which several are side
by side. At the first layer of a bundle some machines begin that pass f together; the one of them with the fewest
layers, κ, holds κ layers beside all the others. If any such machines bring w, the bundle gets at least κ·(w − 1) more
than its layers need: at least λ, the least of this over all sets. Likewise the layers of any of its machines get more;
so where all is to get no more than a number, machines that are too dear for that are left out of the sets, which may
make others too dear. With overlap, layers at which several machines are
side by side take the part of bundles, and λ is the least of w − 1.

*Links.* Of two machines that are alone one after the other, all of f goes over the link between them. So between
machines that are alone in different components of the links that carry f there is a bundle. If machines are alone in
the components Q, and nowhere else, there are |Q| − 1 bundles or more, and at least one where the plan is no chain
within one component; so Σ v >= L + λ·max(1, |Q| − 1), where machines outside of Q need no v >= k.

So f is refuted where no component holds all layers in a chain, and for every Q some weights have less. They come from a
linear program whose rows, the sets of machines that pass f, are made as they are needed; what they bring at least is
found by trying sets (depth first, with the best rate for its weight as a bound), so that nothing depends on the
program's tolerances. What is refuted is refuted for all larger flows: bisection.
"""

from __future__ import annotations

import itertools
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
from partita.problems.layer_placement.bounds.sides import PricedMachine, Side, cheapest
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: Programs for one flow, and components up to which all sets of them are looked at.
_PROGRAMS, _COMPONENTS = 60, 5


class SideBySide(BoundMethod[LayerPlacementProblem]):
    """See the module."""

    name = "side by side"
    summary = "whole machines side by side at every layer, and between components of wide links; ignores who is where"
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


class _Class(NamedTuple):
    """Machines of one kind that may be alone, or may not: how many, and the most layers that each holds alone."""

    kind: int
    single: bool
    members: int
    alone: int


class Rows:
    """Refutes flows; sets of machines that were rows for one are tried again for the next."""

    def __init__(self, instance: LayerInstance, stopping: Callable[[], bool]) -> None:
        self.instance, self.stopping = instance, stopping
        self.tables = [instance.rate[members[0]] for members in instance.kinds]
        self.kind = [0] * instance.count
        for kind, members in enumerate(instance.kinds):
            for place in members:
                self.kind[place] = kind
        #: Kinds, whether they may be alone, and numbers of layers of machines side by side.
        self.known: list[Side] = []

    def falling(self, low: float, high: float, closeness: float = TOLERANCE) -> Iterator[float]:
        """Refuted flows between one that is possible (0 for none known) and one that is not, each below the last."""
        first = low * (1.0 + TOLERANCE)
        # What is known to be possible is likely to be the most.
        if 0 < first < high and self.refuted(first):
            yield first
            return
        # Where tokens flow at all, so many do.
        tables = (self.instance.rate, self.instance.first_rate, self.instance.last_rate, self.instance.link)
        few = min(float(one[one > 0].min(initial=math.inf)) for one in tables) / 2
        while high - low > closeness * high and high > few and not self.stopping():
            middle = (low + high) / 2
            if self.refuted(middle):
                high = middle
                yield high
            else:
                low = middle

    def refuted(self, flow: float) -> bool:
        """Whether it is proven that no plan has such a flow."""
        alone = self.instance.alone(flow)
        parts = self.instance.components(flow, np.flatnonzero(alone).tolist())
        if any(self._chain(flow, part, int(alone[part].sum())) for part in parts):
            return False
        everywhere = set(itertools.chain.from_iterable(parts))
        if self._outweighed(flow, everywhere, 1):
            return True
        if not 1 < len(parts) <= _COMPONENTS:
            return False
        # The hardest to refute first.
        return all(
            self._outweighed(flow, set(itertools.chain.from_iterable(chosen)), max(1, size - 1))
            for size in range(len(parts), -1, -1)
            for chosen in itertools.combinations(parts, size)
        )

    def _chain(self, flow: float, part: list[int], held: int) -> bool:
        """Whether the machines of a component could hold all layers, one after the other, with links at both ends."""
        count, link = self.instance.count, self.instance.link
        ends = (link[count, part] >= flow).any() and (link[part, count + 1] >= flow).any()
        return bool(ends) and held >= self.instance.layers

    def _outweighed(self, flow: float, single: set[int], bundles: int) -> bool:
        """Whether some weights show that the machines do not hold all layers, if these may be alone."""
        layers = self.instance.layers
        classes = self._classes(flow, single)
        for _ in range(_PROGRAMS):
            if self.stopping():
                return False
            weights = self._weights(flow, classes, bundles)
            if weights is None:
                return False
            items = self._items(classes, weights)
            least, more, sides = self._least(flow, items)
            total = math.fsum(one.members * v for one, v in zip(classes, weights, strict=True)) * (1 + SUMMED)
            # Weights that bring too little are made larger: then they are weights, if not the best.
            enough = layers + bundles * more * (1 - SUMMED) if least >= 1 else layers * least
            if total < enough:
                return True
            fresh = [side for side in sides if side not in self.known]
            if not fresh:
                return least >= 1 and self._dear(flow, items, (total - layers) / bundles)
            self.known += fresh
        return False

    def _dear(self, flow: float, items: list[PricedMachine], spare: float) -> bool:
        """Whether every bundle gets more than ``spare`` beyond its layers.

        In a bundle that does not, no machine's own layers get more; without the machines of which they do, those of
        others may, too.
        """
        while not (self.instance.problem.overlap or self.stopping()):
            kept = [
                item
                for item in items
                if item.what[2] * (cheapest(items, flow, [item])[0] - 1.0) * (1 - SUMMED) <= spare
            ]
            if self._least(flow, kept)[1] * (1 - SUMMED) > spare:
                return True
            if len(kept) == len(items):
                return False
            items = kept
        return False

    def _classes(self, flow: float, single: set[int]) -> list[_Class]:
        found = []
        for kind, members in enumerate(self.instance.kinds):
            inside = sum(place in single for place in members)
            alone = int(np.flatnonzero(self.tables[kind] >= flow).max(initial=0))
            found += [_Class(kind, True, inside, alone)] if inside else []
            found += [_Class(kind, False, len(members) - inside, 0)] if inside < len(members) else []
        return found

    def _weights(self, flow: float, classes: list[_Class], bundles: int) -> list[float] | None:
        """The best weights for the sets that are known; None where there are none, or no time."""
        layers = float(self.instance.layers)
        program = MixedProgram()
        value = {
            (one.kind, one.single): program.add_continuous(float(one.alone), layers, float(one.members))
            for one in classes
        }
        more = program.add_continuous(0.0, layers, -float(bundles))
        for side in self.known:
            if all((kind, single) in value for kind, single, _ in side) and self._passes(side, flow):
                terms = [(value[kind, single], 1.0 / k) for kind, single, k in side]
                program.add_row(terms, lower=1.0)
                shared = 1 if self.instance.problem.overlap else min(k for _, _, k in side)
                program.add_row([*((v, c * shared) for v, c in terms), (more, -1.0)], lower=float(shared))
        found = solve_program(program, "highs", time_limit_s=10.0)
        if found.values is None:
            return None
        return [max(float(one.alone), float(v)) for one, v in zip(classes, found.values, strict=False)]

    def _passes(self, side: Side, flow: float) -> bool:
        return flow - sum(float(self.tables[kind][k]) for kind, _, k in side) <= SUMMED * flow

    def _items(self, classes: list[_Class], weights: list[float]) -> list[PricedMachine]:
        """Machines of every class with every number of layers, the best rate for the weight first."""
        found = [
            PricedMachine((one.kind, one.single, k), float(rate), weight / k)
            for one, weight in zip(classes, weights, strict=True)
            for k, rate in enumerate(self.tables[one.kind])
            if rate > 0
        ]
        return sorted(found, key=lambda item: (item.weight / item.rate, item.what))

    def _least(self, flow: float, items: list[PricedMachine]) -> tuple[float, float, list[Side]]:
        """What machines side by side bring at least, what a bundle gets at least beyond its layers, and who does."""
        least, more, sides = math.inf, math.inf, []
        sizes = sorted({item.what[2] for item in items}) if not self.instance.problem.overlap else [0]
        for size in sizes:
            among = [item for item in items if item.what[2] >= size]
            first = [item for item in among if item.what[2] == size] if size else None
            brought, side = cheapest(among, flow, first)
            least = min(least, brought)
            gained = max(1, size) * (brought - 1.0)
            if side is not None:
                sides.append((gained, side))
            more = min(more, gained)
        sides.sort(key=lambda pair: pair[0])
        return least, min(max(0.0, more), float(self.instance.layers)), [side for _, side in sides[:4]]
