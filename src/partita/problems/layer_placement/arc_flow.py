"""A mixed-integer program over positions between layers: who holds which layers, and what flows where.

Source: own; positions instead of the big numbers in the rows of Helix's program (§4.4), as in arc-flow formulations of
cutting stock (Valério de Carvalho, 1999). x[i, a, k] says that machine i holds the k layers from position a on,
y[i, a, k, p] what enters it there at position p: only at p = a, or, with overlap, anywhere from a to before a + k.

* Σ_p y[i, a, k, p] <= min(rate_i(k), U)·x[i, a, k] and Σ x[i, ·, ·] <= 1, where U is a bound on the flow;
* what enters i at p comes over its links there, u[j, i, p]; what leaves it at p, over links likewise; a link carries
  no more than it can in all positions together.

Without the links (``blind``) machines that pass the same are one *kind* with whole numbers of machines in x: what
enters kinds at a position is what leaves kinds there. Every plan is a point of both programs, and a point of the first
is a plan. All flows are counted in units of U, and the objective is large beside tolerances.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks, MixedProgram, ProgramResult
from partita.engines.mip.solve import solve_program
from partita.ground.rounding import raised
from partita.problems.layer_placement.instance import LayerInstance

#: The objective of a flow of U.
_SCALE = 1e4

#: A position, a number of layers.
_Held = tuple[int, int]


class ArcFlow:
    """The program of an instance, no plan of which flows more than ``most``; ``blind`` leaves links out."""

    def __init__(self, instance: LayerInstance, most: float, *, blind: bool) -> None:
        self.instance, self.most, self.blind = instance, raised(most), blind
        self.overlap = instance.problem.overlap
        self.kinds = instance.kinds if blind else [[place] for place in range(instance.count)]
        self.program = MixedProgram()
        #: Of kind, position and number of layers: the number of machines, and what flows.
        self.held: list[dict[_Held, int]] = [{} for _ in self.kinds]
        self.flow: list[dict[_Held, int]] = [{} for _ in self.kinds]
        #: What leaves and enters kinds at positions.
        self.leaving: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.entering: dict[tuple[int, int], list[int]] = defaultdict(list)
        for kind, members in enumerate(self.kinds):
            self._machines(kind, members)
        if blind:
            self._positions()
        else:
            self._links()

    @staticmethod
    def size(instance: LayerInstance, *, blind: bool) -> int:
        """About how many variables there are."""
        tables = [instance.rate[members[0]] for members in instance.kinds] if blind else list(instance.rate)
        intervals = sum(int((table > 0).sum()) for table in tables) * instance.layers * (2 if blind else 3)
        if instance.problem.overlap:
            intervals *= instance.rate.shape[1]
        return intervals + (0 if blind else int((instance.link > 0).sum()) * (instance.layers + 1))

    def _machines(self, kind: int, members: list[int]) -> None:
        program, layers, table = self.program, self.instance.layers, self.instance.rate[members[0]]
        for k in np.flatnonzero(table > 0).tolist():
            for a in range(layers - k + 1):
                rate = self.instance.rates(members[0], first=a == 0, last=a + k == layers)[k]
                share = min(1.0, rate / self.most * (1 + 1e-12))
                x = program.add_count(min(len(members), layers))
                self.held[kind][a, k] = x
                entries = [
                    program.add_continuous(0.0, min(1.0, share * len(members)))
                    for _ in (range(a, a + k) if self.overlap else (a,))
                ]
                for p, y in enumerate(entries, a):
                    self.entering[kind, p].append(y)
                self.leaving[kind, a + k] += entries
                program.add_row([*((y, 1.0) for y in entries), (x, -share)], upper=0.0)
        program.add_row([(x, 1.0) for x in self.held[kind].values()], upper=float(len(members)))

    def _positions(self) -> None:
        """What leaves at a position enters there; all that flows is what enters at the first."""
        for p in range(self.instance.layers + 1):
            entering = [y for kind in range(len(self.kinds)) for y in self.entering.get((kind, p), ())]
            leaving = [y for kind in range(len(self.kinds)) for y in self.leaving.get((kind, p), ())]
            if p == 0:
                for y in entering:
                    self.program.cost[y] = -_SCALE
            elif p < self.instance.layers:
                self.program.add_row([*((y, 1.0) for y in entering), *((y, -1.0) for y in leaving)], 0.0, 0.0)

    def _links(self) -> None:
        program, count, layers = self.program, self.instance.count, self.instance.layers
        come: dict[tuple[int, int], list[int]] = defaultdict(list)
        go: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, j in np.argwhere(self.instance.link > 0).tolist():
            share = min(1.0, self.instance.link[i, j] / self.most * (1 + 1e-12))
            spots = (0,) if i == count else (layers,) if j == count + 1 else range(1, layers)
            over = []
            for p in spots:
                if (i < count and not self.leaving.get((i, p))) or (j < count and not self.entering.get((j, p))):
                    continue
                u = program.add_continuous(0.0, share, -_SCALE if i == count and j < count else 0.0)
                over.append(u)
                go[i, p].append(u)
                come[j, p].append(u)
            if len(over) > 1:
                program.add_row([(u, 1.0) for u in over], upper=share)
        for kind in range(count):
            for p in range(layers + 1):
                for inside, outside in ((self.entering, come), (self.leaving, go)):
                    terms = [*((y, 1.0) for y in inside.get((kind, p), ())), *((u, -1.0) for u in outside[kind, p])]
                    if terms:
                        program.add_row(terms, 0.0, 0.0)

    def solve(
        self,
        seconds: float,
        stop: Callable[[], bool],
        bound: Callable[[float], object],
        found: Callable[[dict[int, tuple[int, int]]], object],
        seed: int = 0,
    ) -> ProgramResult:
        """Run HiGHS; ``bound`` is called with bounds on the flow, ``found`` with intervals by machine."""

        def proven(value: float) -> None:
            if value < 0:
                bound(raised(min(1.0, -value / _SCALE) * self.most))

        result = solve_program(
            self.program,
            "highs",
            time_limit_s=None if math.isinf(seconds) else seconds,
            seed=seed,
            callbacks=Callbacks(
                stop=stop, on_bound=proven, on_incumbent=lambda values, objective: found(self.intervals(values))
            ),
        )
        proven(result.bound)
        if result.values is not None:
            found(self.intervals(result.values))
        return result

    def intervals(self, values: Floats) -> dict[int, tuple[int, int]]:
        """The layers of machines at a point; of a kind the machines in turn."""
        return {
            place: layers
            for kind, members in enumerate(self.kinds)
            for place, layers in zip(members, self._of_kind(kind, values), strict=False)
        }

    def _of_kind(self, kind: int, values: Floats) -> Iterator[tuple[int, int]]:
        for (a, k), x in self.held[kind].items():
            for _ in range(round(values[x])):
                yield a, a + k
