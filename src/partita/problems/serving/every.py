"""All fleets there are, the cheapest first: numbers of units of every form and role."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, UnitGroup


class EveryFleet:
    """Fleets of the items of a bound."""

    def __init__(self, bound: FleetBound) -> None:
        self.bound, self.problem, self.items = bound, bound.problem, bound.items
        #: By kind, of every item and those behind it: bit n says that some of them have n devices together.
        self._sums: dict[str, list[int]] = {pool.kind: [1] for pool in self.problem.pools}
        for item in reversed(self.items):
            for pool in self.problem.pools:
                sums = self._sums[pool.kind]
                found = sums[-1]
                if item.form.kind == pool.kind:
                    for _ in range(pool.devices // item.form.devices):
                        found |= found << item.form.devices
                sums.append(found & ((2 << pool.devices) - 1))
        for sums in self._sums.values():
            sums.reverse()

    def rooms(self) -> list[tuple[float, tuple[int, ...]]]:
        """What so many devices of each pool cost, and these numbers, the cheapest first."""
        prices = [pool.cost_per_device for pool in self.problem.pools]
        numbers = itertools.product(*(range(pool.devices + 1) for pool in self.problem.pools))
        return sorted((sum(price * n for price, n in zip(prices, rooms, strict=True)), rooms) for rooms in numbers)

    def all(self) -> Iterator[tuple[int, ...]]:
        """Numbers of units of each item that find room and can serve."""
        for _, rooms in self.rooms():
            yield from self.of(rooms)

    def of(self, rooms: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Those that have just so many devices of each pool."""
        counts, chosen = [0] * len(self.items), list[int]()
        free = {pool.kind: room for pool, room in zip(self.problem.pools, rooms, strict=True)}

        def grow(first: int) -> Iterator[tuple[int, ...]]:
            if not any(free.values()):
                roles = {self.items[place].role for place in chosen}
                if roles and ("prefill" in roles) == ("decode" in roles):
                    yield tuple(counts)
                return
            for place in range(first, len(self.items)):
                if any(not self._sums[kind][place] >> room & 1 for kind, room in free.items()):
                    return
                form = self.items[place].form
                chosen.append(place)
                while free[form.kind] >= form.devices:
                    counts[place] += 1
                    free[form.kind] -= form.devices
                    if unpacked(self.problem, ServingPlan(units=self._groups(chosen, counts))):
                        break
                    yield from grow(place + 1)
                free[form.kind] += counts[place] * form.devices
                counts[place] = 0
                chosen.pop()

        return grow(0)

    def groups(self, counts: Sequence[int]) -> tuple[UnitGroup, ...]:
        """The fleet itself, without shares."""
        return self._groups([place for place, count in enumerate(counts) if count], counts)

    def _groups(self, chosen: Sequence[int], counts: Sequence[int]) -> tuple[UnitGroup, ...]:
        items = ((self.items[place], counts[place]) for place in chosen)
        return tuple(UnitGroup(unit=item.number, role=item.role, count=count) for item, count in items)
