"""Sets of items that one device can hold, and the charges that none of them carries much of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats
from partita.engines.kernels.throughput.blocks import cut_nets
from partita.engines.mip.growing import GrowingProgram
from partita.engines.mip.model import MixedProgram
from partita.ground.rounding import NOT_ZERO, up_to
from partita.problems.throughput.free.program import kinds_of, knapsack
from partita.problems.throughput.free.search import FreeIncumbent

#: Seconds for one master program.
MASTER_S = 10.0


class DeviceSet(NamedTuple):
    """A set of items that a device of a kind can hold, with its load."""

    kind: int
    items: Bools
    load: float


class DeviceSets:
    """The known sets; kinds without transfers have none, a knapsack's relaxation stands for them."""

    def __init__(self, best: FreeIncumbent, stop: Callable[[], bool]) -> None:
        self.arrays, self.items, self.stop = best.free.arrays, best.free.items, stop
        self.kinds, self.moving = kinds_of(self.arrays)
        self.knapsacks = [k for k in self.kinds if k not in self.moving]
        self.number = {k: int((self.arrays.kind_of == k).sum()) for k in self.kinds}
        self.known: list[DeviceSet] = []
        self._keys: set[tuple[int, bytes]] = set()
        #: The last program, for which target it is, and how many sets it has.
        self._program: GrowingProgram | None = None
        self._target, self._taken = math.nan, 0
        if best.answer is not None:
            load = best.free.state(best.answer).load
            for d, kind in enumerate(self.arrays.kind_of.tolist()):
                self.add(kind, best.answer == d, float(load[d]))

    def add(self, kind: int, items: Bools, load: float) -> bool:
        """Remember a set; whether it is new."""
        key = (kind, items.tobytes())
        if key in self._keys or not items.any():
            return False
        self._keys.add(key)
        self.known.append(DeviceSet(kind, items, load))
        return True

    def fitting(self, target: float) -> list[DeviceSet]:
        """The sets whose load is at most the target, of kinds that pay for transfers."""
        return [c for c in self.known if c.kind in self.moving and c.load <= up_to(target)]

    def within(self, kind: int, target: float) -> list[Bools]:
        """The sets of a kind whose load is at most the target."""
        return [c.items for c in self.known if c.kind == kind and c.load <= up_to(target)]

    def carried(self, kind: int, charge: Floats, target: float) -> float:
        """The most charge of a known set of a kind within the target."""
        own = self.within(kind, target)
        return float((np.array(own) @ charge).max()) if own else 0.0

    def weight(self, charge: Floats, target: float) -> float:
        """Σ n_k·(most charge of a known set of kind k)."""
        total = self.knapsack_weight(charge, target)
        for kind in self.moving:
            total += self.number[kind] * self.carried(kind, charge, target)
        return max(total, NOT_ZERO)

    def knapsack_weight(self, charge: Floats, target: float) -> float:
        """The same of the kinds without transfers alone; no set carries more."""
        return sum(self.number[k] * knapsack(charge, self.arrays.work[:, k], target) for k in self.knapsacks)

    def load(self, kind: int, items: Bools) -> float:
        """Work and cut nets of a set on a device of a kind."""
        cut = cut_nets(self.arrays.net, items)
        return float(self.arrays.work[items, kind].sum() + self.arrays.net_cost[cut, kind].sum())

    def master(self, target: float, within: tuple[Floats, Floats] | None = None) -> tuple[float, Floats] | None:
        """Largest Σ y with Σ n_k·π_k = 1 against the known sets, and y; at most 1 if they cover everything.

        All charges may be held ``within`` bounds, lower and upper ones; None if there are none so.
        """
        if self._program is None or self._target != target:
            self._program, self._target, self._taken = GrowingProgram(self._relaxed(target)), target, 0
        program = self._program.program
        for column in self.known[self._taken :]:
            if column.kind in self.moving and column.load <= up_to(target):
                row = [(v, 1.0) for v in np.flatnonzero(column.items).tolist()]
                program.add_row([*row, (self.items + self.kinds.index(column.kind), -1.0)], upper=0.0)
        self._taken = len(self.known)
        values = self._program.solve(within=within, time_limit_s=MASTER_S, stop=self.stop)
        if values is None:
            return None
        dual = np.maximum(values[: self.items], 0.0)
        return float(dual.sum()), dual

    def _relaxed(self, target: float) -> MixedProgram:
        """The program without sets: (n,) charges y, (K,) prices π, and the knapsacks of kinds without transfers."""
        model = MixedProgram()
        y = [model.add_continuous(0.0, 1.0, -1.0) for _ in range(self.items)]
        prices = {kind: model.add_continuous(0.0, 1.0) for kind in self.kinds}
        model.add_row([(prices[k], float(self.number[k])) for k in self.kinds], lower=1.0, upper=1.0)
        for kind in self.knapsacks:
            # The dual of the relaxed knapsack: π = capacity·µ + Σ ν_v with y_v <= µ·t_v + ν_v; ``rate`` is capacity·µ.
            times = self.arrays.work[:, kind]
            rate = model.add_continuous(0.0, math.inf)
            price = [(prices[kind], -1.0), (rate, 1.0)]
            for v in np.flatnonzero(times <= target):
                extra = model.add_continuous(0.0, 1.0)
                price.append((extra, 1.0))
                model.add_row([(y[v], 1.0), (rate, -float(times[v]) / target), (extra, -1.0)], upper=0.0)
            model.add_row(price, upper=0.0)
        return model
