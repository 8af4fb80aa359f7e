"""Exact search by whole columns, where devices are few: every place of a column within a target, and rings of these.

A *column* is one replica of every stage. With replica after replica, what makes a target impossible shows late: rings
tie replicas of different columns, exchanges those of one. Few devices have some thousands of columns within a target;
which two can be on different devices, and which can follow each other in all rings at once, are sets. A ring of R
columns is then searched depth-first, where every column that is chosen leaves each position only what fits to it
(forward checking: Haralick and Elliott, "Increasing tree search efficiency for constraint satisfaction problems",
1980); a device that has to be used, and is in nothing that is left, ends a branch, too.

Symmetric mappings are looked at once, as in ``partita.problems.mapping.exact``: rings begin with a column that has the
first device of all, in the order in which few columns have them, and go on to the lower of both beside it.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Words
from partita.engines.kernels.mapping.columns import WORD, Rings, column_pairs, columns_within, ring_of_columns
from partita.engines.kernels.mapping.placing import FOUND, GAVE_UP, NONE
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import GAP
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.neighbours import best_loads
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import by_exchanges
from partita.problems.mapping.problem import Placement

NAME = "whole columns"
#: Columns within a target at most; devices tried for them, and columns tried for rings.
_COLUMNS, _TRIED, CHECKS = 16_384, 4_000_000, 3_000_000
#: Width of the interval, as a share of its upper end, at which bisection ends.
_PRECISION = 1e-2


def settle_columns(instance: MappingInstance, best: Incumbent[Placement], checks: int = CHECKS) -> None:
    """Search until the best mapping is proven to be that, or told to stop, or targets take too long.

    There has to be a mapping in ``best``. Nothing happens where columns are too many, or there is only one.
    """
    if not instance.even or instance.replicas == 1 or instance.devices > WORD:
        return
    columns = WholeColumns(instance)

    def ask(target: float) -> int:
        device = np.empty(instance.count, dtype=np.int32)
        answer = columns.ask(target, checks, best, device)
        best.counters["targets"] = best.counters.get("targets", 0) + 1
        if answer == FOUND:
            instance.offer(best, device, NAME)
        elif answer == NONE:
            best.prove(lowered(instance, target), NAME)
        return answer

    # What is found is found soon, and often all that is just better than the best can be refuted at once.
    answer = FOUND
    while answer == FOUND and not best.done:
        answer = ask(best.value * (1 - GAP))
    unknown = best.value
    while answer == GAVE_UP and not best.done and unknown - best.bound > _PRECISION * unknown:
        target, before = (best.bound + unknown) / 2, best.bound
        if ask(target) != NONE:
            unknown = min(target, best.value)
        elif best.bound <= before:
            return


class WholeColumns:
    """The columns of a problem with devices enough, as many replicas of every stage, and at most ``WORD`` devices."""

    def __init__(self, instance: MappingInstance) -> None:
        self.instance = instance
        self.arrays = instance.falling
        self.least = best_loads(instance)
        self.order = np.array(by_exchanges(instance), dtype=np.int32)

    def ask(self, target: float, checks: int, best: Incumbent[Placement], device: Ints) -> int:
        """Whether there is a mapping within a target: ``FOUND``, with it in ``device``, ``NONE`` or ``GAVE_UP``."""
        instance, shape = self.instance, (_COLUMNS, self.instance.stages)
        columns, base = np.empty(shape, dtype=np.int32), np.empty(shape)
        allowed = (self.least <= target).astype(np.int32)
        count = columns_within(
            self.arrays, instance.near, self.order, allowed, target, _TRIED, best.stop, columns, base
        )
        if count < 0:
            return GAVE_UP
        rings, columns = self._rings(columns[:count], base[:count], target)
        chosen = np.empty(instance.replicas, dtype=np.int32)
        answer = int(ring_of_columns(rings, checks, best.stop, chosen))
        if answer == FOUND:
            device[:] = columns[chosen].T.ravel()
        return answer

    def _rings(self, columns: Ints, base: Floats, target: float) -> tuple[Rings, Ints]:
        """Which columns can be together, in the order of their first devices; and these columns."""
        count, devices = len(columns), self.instance.devices
        rank = np.argsort(np.argsort(np.bincount(columns.ravel(), minlength=devices), kind="stable"))
        first = rank[columns].min(axis=1).astype(np.int32)
        order = np.argsort(first, kind="stable")
        columns, base, first = np.ascontiguousarray(columns[order]), np.ascontiguousarray(base[order]), first[order]
        apart, beside = (np.zeros((count, -(-count // 64)), dtype=np.uint64) for _ in range(2))
        column_pairs(self.arrays, columns, base, target, apart, beside)
        used = devices if devices == self.instance.count else 0
        having: Words = np.zeros((used, apart.shape[1]), dtype=np.uint64)
        for d in range(used):
            here = np.zeros(64 * apart.shape[1], dtype=np.uint8)
            here[:count] = (columns == d).any(axis=1)
            having[d] = np.packbits(here, bitorder="little").view(np.uint64)
        return Rings(first, apart, beside, having, bool(self.instance.ring.any())), columns
