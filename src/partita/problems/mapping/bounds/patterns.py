"""Which devices a stage can be on, if replicas around it have to be placed, too, within a target.

Source: own. A *pattern* is one replica of every stage, or two or three that follow each other in the rings. Whatever a
mapping within a target is, it places the pattern so that each replica of it is within the target when its partners
outside are given the fastest links to devices that the pattern leaves free. So a stage is on no device around which no
place for the pattern is found: cycles of exchanges that links do not have (a grid has no triangles of fast links), and
fast links that two replicas want at once.

Last, *runs* of up to ``RUN`` columns, one after the other: under low targets one column says where the next one has to
be, straight on, and a ring longer than the grid has to turn somewhere. Where a device has a place for a run, or may
have one, others are not asked.

Patterns are placed by ``kernels.mapping.placing``; where too many devices would have to be tried, the device
stays. By symmetry of the rings the same is true of every replica.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.kernels.mapping.placing import FOUND, NONE, place_pattern
from partita.problems.mapping.instance import MappingInstance

#: Replicas of every stage in a pattern, in turn, as places in the ring; the first one is at the device in question.
_PATTERNS = ((0,), (0, 1), (0, 1, -1))
#: Replicas of a pattern at most, devices tried for one device, and for all devices of one pattern.
_LARGEST, _CHECKS, _ALL = 24, 3_000, 400_000
#: Columns of a run, and its replicas, at most; devices tried for one device; those placed last that are looked at with
#: every new one; and devices that have a place for a run, or may have one, after which no others are asked.
RUN, _RUN_LARGEST, _RUN_CHECKS, _RECENT, _VAIN = 40, 200, 80_000, 16, 1


class _Pattern(NamedTuple):
    """Replicas to place, as columns, and in which order around a replica of every stage that is asked."""

    places: tuple[int, ...]
    orders: dict[int, tuple[Ints, Ints, Floats]]
    checks: int
    recent: int
    vain: int  #: Devices with a place, or that may have one, after which no others are asked.


class ReplicaPatterns:
    """The patterns of a problem with devices enough."""

    def __init__(self, instance: MappingInstance) -> None:
        self.instance = instance
        self.arrays = instance.falling
        self.patterns: list[_Pattern] = []
        rings = bool(instance.ring.any())
        for places in _PATTERNS:
            wide = len({place % instance.replicas for place in places}) == len(places)
            if wide and len(places) * instance.stages <= _LARGEST and (rings or len(places) == 1):
                orders = {s: self._order(s, places) for s in range(instance.stages)}
                self.patterns.append(_Pattern(places, orders, _CHECKS, _LARGEST, instance.count * instance.devices))
        length = min(instance.replicas, RUN, _RUN_LARGEST // instance.stages)
        if rings and length > len(_PATTERNS[-1]):
            # Both ends grow in turn.
            run = tuple((place + 1) // 2 * (1 if place % 2 else -1) for place in range(length))
            spine = int(np.argmax(instance.ring))
            orders = {spine: self._order(spine, run, whole=True)}
            self.patterns.append(_Pattern(run, orders, _RUN_CHECKS, _RECENT, _VAIN))
        self.device = np.full(instance.count, -1, dtype=np.int32)
        self.taken = np.zeros(instance.devices, dtype=np.int32)

    def _order(self, s: int, places: tuple[int, ...], *, whole: bool = False) -> tuple[Ints, Ints, Floats]:
        """Replicas from one on, along the exchanges of the most bytes; only those that are tied to it.

        With ``whole``, one column after the other.
        """
        a, replicas = self.instance.arrays, self.instance.replicas
        turn = {place % replicas: number if whole else 0 for number, place in enumerate(places)}
        order, beside, moved = [(s, 0)], [0], [0.0]
        options: list[tuple[int, float, int, int, int]] = []
        done: set[tuple[int, int]] = set()
        while True:
            t, r = order[-1]
            done.add((t, r))
            ends = [(u, r, size) for u, size in self.instance.exchanges(t)]
            ends += [(u, q, float(a.ring[t])) for u, q in self.instance.beside(t, r)]
            options += [(turn[q], -size, len(order) - 1, u, q) for u, q, size in ends if q in turn]
            options = [option for option in options if option[3:] not in done]
            if not options:
                break
            _, size, number, u, q = min(options)
            order.append((u, q))
            beside.append(number)
            moved.append(-size)
        numbers = [t * replicas + r for t, r in order]
        return np.array(numbers, dtype=np.int32), np.array(beside, dtype=np.int32), np.array(moved)

    def filter(self, domain: Bools, limit: float, stopping: Callable[[], bool]) -> bool:
        """Take devices out of domains around which some pattern has no place; whether every stage still has devices."""
        stop = np.zeros(1, dtype=np.int64)
        place = partial(place_pattern, self.arrays, self.instance.near)
        for places, orders, checks, recent, vain in self.patterns:
            known: npt.NDArray[np.bool_] = np.zeros_like(domain)
            left, most = _ALL, vain
            for s, (order, beside, moved) in orders.items():
                for d in np.flatnonzero(domain[s]):
                    if stopping():
                        return True
                    if known[s, d] or left <= 0 or most <= 0:
                        continue
                    answer = place(
                        *(order, beside, moved, domain.astype(np.int32), int(d), limit, checks, recent),
                        *(stop, self.device, self.taken),
                    )
                    if answer == NONE:
                        domain[s, d] = False
                        continue
                    most -= 1
                    if answer == FOUND:
                        # Others in the middle of the same pattern have their place, too.
                        for x in order.tolist():
                            t, r = divmod(x, self.instance.replicas)
                            if r == 0 or len(places) == 2:
                                known[t, self.device[x]] = True
                        self.device[order] = -1
                    else:
                        left -= checks
                if not domain[s].any():
                    return False
        return True
