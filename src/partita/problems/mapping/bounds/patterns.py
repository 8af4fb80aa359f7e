"""Which devices a stage can be on, if replicas around it have to be placed, too, within a target.

Source: own. A *pattern* is one replica of every stage, or two or three that follow each other in the rings. Whatever a
mapping within a target is, it places the pattern so that each replica of it is within the target when its partners
outside are given the fastest links to devices that the pattern leaves free. So a stage is on no device around which no
place for the pattern is found: cycles of exchanges that links do not have (a grid has no triangles of fast links), and
fast links that two replicas want at once.

Patterns are placed by ``kernels.mapping.placing``; where too many devices would have to be tried, the device
stays. By symmetry of the rings the same is true of every replica.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.kernels.mapping.placing import FOUND, NONE, place_pattern
from partita.problems.mapping.instance import MappingInstance

#: Replicas of every stage in a pattern, in turn, as places in the ring; the first one is at the device in question.
_PATTERNS = ((0,), (0, 1), (0, 1, -1))
#: Replicas of a pattern at most, devices tried for one device, and for all devices of one pattern.
_LARGEST, _CHECKS, _ALL = 24, 3_000, 400_000


class ReplicaPatterns:
    """The patterns of a problem with devices enough."""

    def __init__(self, instance: MappingInstance) -> None:
        self.instance = instance
        self.arrays = instance.falling
        self.patterns: list[tuple[tuple[int, ...], list[tuple[Ints, Ints, Floats]]]] = []
        rings = bool(instance.ring.any())
        for places in _PATTERNS:
            wide = len({place % instance.replicas for place in places}) == len(places)
            if wide and len(places) * instance.stages <= _LARGEST and (rings or len(places) == 1):
                self.patterns.append((places, [self._order(s, places) for s in range(instance.stages)]))
        self.device = np.full(instance.count, -1, dtype=np.int32)
        self.taken = np.zeros(instance.devices, dtype=np.int32)

    def _order(self, s: int, places: tuple[int, ...]) -> tuple[Ints, Ints, Floats]:
        """Replicas from one on, along the exchanges of the most bytes; only those that are tied to it."""
        a, replicas = self.instance.arrays, self.instance.replicas
        members = {(t, place % replicas) for t in range(self.instance.stages) for place in places}
        order, beside, moved = [(s, 0)], [0], [0.0]
        while True:
            options: list[tuple[float, int, int, int]] = []
            for number, (t, r) in enumerate(order):
                ends = [(u, r, size) for u, size in self.instance.exchanges(t)]
                ends += [(u, q, float(a.ring[t])) for u, q in self.instance.beside(t, r)]
                options += [(-size, number, u, q) for u, q, size in ends if (u, q) in members and (u, q) not in order]
            if not options:
                break
            size, number, u, q = min(options)
            order.append((u, q))
            beside.append(number)
            moved.append(-size)
        numbers = [t * replicas + r for t, r in order]
        return np.array(numbers, dtype=np.int32), np.array(beside, dtype=np.int32), np.array(moved)

    def filter(self, domain: Bools, limit: float, stopping: Callable[[], bool]) -> bool:
        """Take devices out of domains around which some pattern has no place; whether every stage still has devices."""
        stop = np.zeros(1, dtype=np.int64)
        place = partial(place_pattern, self.arrays, self.instance.near)
        for places, orders in self.patterns:
            known: npt.NDArray[np.bool_] = np.zeros_like(domain)
            left = _ALL
            for s, (order, beside, moved) in enumerate(orders):
                for d in np.flatnonzero(domain[s]):
                    if stopping():
                        return True
                    if known[s, d] or left <= 0:
                        continue
                    allowed = domain.astype(np.int32)
                    answer = place(order, beside, moved, allowed, int(d), limit, _CHECKS, stop, self.device, self.taken)
                    if answer == NONE:
                        domain[s, d] = False
                    elif answer == FOUND:
                        # Others in the middle of the same pattern have their place, too.
                        for x in order.tolist():
                            t, r = divmod(x, self.instance.replicas)
                            if r == 0 or len(places) == 2:
                                known[t, self.device[x]] = True
                        self.device[order] = -1
                    else:
                        left -= _CHECKS
                if not domain[s].any():
                    return False
        return True
