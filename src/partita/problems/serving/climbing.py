"""Fleets that differ a little from the best one, for the most requests per second or the least cost.

A neighbour has other sizes of one form, another layout on the same devices, units of one form exchanged for some of
another, one more group on what is left over, another role, or other shares; where the cheapest is looked for, also
fewer units. One run decides whether it is any better, at the given rate or at one that is a little higher than the best
one: a short one first, which most end early.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from partita.engines.search.incumbent import Incumbent
from partita.problems.serving.evaluate import cost_of, evaluate, keeps
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import Role, ServingPlan, ServingProblem, UnitGroup
from partita.problems.serving.request_values import Item

#: Requests of short runs, by which factor the rate has to be higher, and neighbours in a row that are no better.
_SHORT, _HIGHER, _PATIENCE = 2_500, 1.0025, 400
#: Neighbours that are looked at together, whatever the number of threads: same seed, same answer.
_TOGETHER = 2
#: By which shares the rate of a better fleet is raised at first and at last.
_RAISED, _LEAST_RAISED = 0.08, 0.0025
#: How often a neighbour's neighbour is looked at instead, and so on; factors of shares.
_FURTHER, _SHARES = 0.4, (0.7, 0.85, 0.95, 1.05, 1.2, 1.4)
#: The most promising layouts are asked for more often: places are such a power of an even draw.
_BIAS = 2.0

Units = tuple[UnitGroup, ...]


class Climb:
    """Neighbours of the best fleet, one after the other."""

    def __init__(self, bound: FleetBound, best: Incumbent[ServingPlan], by: str, seed: int) -> None:
        self.problem, self.bound, self.best, self.by = bound.problem, bound, best, by
        self.short = self.problem.replace(workload=self.problem.workload.shortened(_SHORT))
        self.draws = random.Random(seed)
        self.places = {(item.number, item.role): place for place, item in enumerate(bound.items)}
        #: By kind and role the layouts, the most promising first, each with its items.
        self.forms = {
            (pool.kind, role): self._ranked(pool.kind, role)
            for pool in self.problem.pools
            for role in dict.fromkeys(item.role for item in bound.items)
        }
        self.seen: set[Units] = set()
        self.simulated = 0

    def _ranked(self, kind: str, role: Role) -> list[list[Item]]:
        own = [item for item in self.bound.items if item.form.kind == kind and item.role == role]
        worth = {id(item): item.form.apart / max(item.prices[0].keeping.mean(), 1e-30) for item in own}
        own.sort(key=lambda item: (item.late and role != "decode", -worth[id(item)] / item.form.devices, item.number))
        found: dict[object, list[Item]] = {}
        for item in own:
            found.setdefault(item.form.layout, []).append(item)
        return list(found.values())

    def run(self, over: Callable[[], bool], threads: int = 1) -> None:
        """Climb until nothing better is found for long, or ``over`` says so."""
        if self.best.answer is None:
            return
        units, failed = self.ordered(self.best.answer.units), 0
        self.seen.add(units)
        with ThreadPoolExecutor(min(threads, _TOGETHER)) as pool:
            while failed < _PATIENCE and not over():
                drawn = [self.neighbour(units) for _ in range(_TOGETHER)]
                neighbours = [one for one in drawn if one is not None]
                if not neighbours:
                    # Nothing is left around it.
                    return
                for neighbour, promising in zip(neighbours, pool.map(self.promising, neighbours), strict=True):
                    self.simulated += 1
                    failed += 1
                    if promising and self.better(neighbour, over):
                        units, failed = neighbour, 0

    def promising(self, units: Units) -> bool:
        """Whether a short run keeps the targets, at a rate a little above the best where that is looked for."""
        return keeps(self.short, ServingPlan(units=units, rate_per_s=None if self.costs else self.rate))

    @property
    def rate(self) -> float:
        """Requests per second that a better fleet takes at least."""
        assert self.best.answer is not None
        assert self.best.answer.rate_per_s is not None
        return self.best.answer.rate_per_s * _HIGHER

    @property
    def costs(self) -> bool:
        """Whether the cheapest fleet is looked for."""
        return self.problem.goal == "cost"

    def neighbour(self, units: Units) -> Units | None:
        """A fleet that was not looked at yet, may be better and finds room; None if none was found."""
        for _ in range(200):
            found = self.changed(units)
            while found is not None and self.draws.random() < _FURTHER:
                found = self.changed(found)
            if found is None or found in self.seen:
                continue
            self.seen.add(found)
            if self.may_be_better(found):
                return found
        return None

    def may_be_better(self, units: Units) -> bool:
        """Whether units have roles for all of a request and room, and no bound says that they are no better."""
        roles = {group.role for group in units}
        if ("prefill" in roles) != ("decode" in roles) or unpacked(self.problem, ServingPlan(units=units)):
            return False
        counts = [0] * len(self.bound.items)
        for group in units:
            counts[self.places[group.unit, group.role]] += group.count
        if self.costs:
            cheaper = cost_of(self.problem, ServingPlan(units=units)) < self.best.value * (1 - 1e-12)
            return cheaper and self.bound.keeps_up(counts)
        return self.bound.least_of(counts) < self.best.value

    def better(self, units: Units, over: Callable[[], bool]) -> bool:
        """Whether units cost less than the best or take more requests per second, at the highest rate found."""
        if self.costs:
            worth = evaluate(self.problem, ServingPlan(units=units))
            return worth.feasible and self.best.offer(worth.objective, ServingPlan(units=units), self.by)
        rate = self.rate
        high = self.raised(self.short, units, rate, _RAISED, over)
        # What short runs keep is mostly a little too high.
        for tried in dict.fromkeys((high, (2 * high + rate) / 3, (high + 2 * rate) / 3, rate)):
            if over():
                return False
            if keeps(self.problem, ServingPlan(units=units, rate_per_s=tried)):
                tried = self.raised(self.problem, units, tried, _RAISED / 8, over)
                plan = ServingPlan(units=units, rate_per_s=tried)
                return self.best.offer(evaluate(self.problem, plan).objective, plan, self.by)
        return False

    def raised(
        self, problem: ServingProblem, units: Units, rate: float, step: float, over: Callable[[], bool]
    ) -> float:
        """The highest rate that was found to keep the targets, from one that does, in smaller and smaller steps."""
        while step >= _LEAST_RAISED and not over():
            if keeps(problem, ServingPlan(units=units, rate_per_s=rate * (1 + step))):
                rate *= 1 + step
            else:
                step /= 2
        return rate

    def ordered(self, units: Sequence[UnitGroup]) -> Units:
        """Groups that are alike as one, in order; shares only where several take requests."""
        counts: dict[tuple[str, int, int], UnitGroup] = {}
        for one in units:
            group = one if self.spaced(one) else msgspec.structs.replace(one, interval=1)
            key = group.role, group.unit, group.interval
            own = counts.get(key)
            if group.count > 0:
                more = 0 if own is None else own.count
                counts[key] = msgspec.structs.replace(own or group, count=group.count + more)
        found = [counts[key] for key in sorted(counts)]
        taking = [group for group in found if group.role != "decode"]
        shared = len(taking) > 1 and all(group.shares is not None for group in taking)
        return tuple(
            group if shared and group.role != "decode" else msgspec.structs.replace(group, shares=None)
            for group in found
        )

    def left(self, units: Sequence[UnitGroup], kind: str) -> int:
        """Devices of a kind that nobody has, and that would not make a fleet as dear as the best."""
        forms = ((self.problem.units[group.unit], group.count) for group in units)
        used = sum(form.devices * count for form, count in forms if form.kind == kind)
        pool = self.problem.pool(kind)
        left = pool.devices - used
        if not self.costs or not pool.cost_per_device:
            return left
        spare = (self.best.value - cost_of(self.problem, ServingPlan(units=tuple(units)))) / pool.cost_per_device
        return min(left, math.ceil(spare - 1e-9) - 1)

    def drawn(self, kind: str, role: Role, room: int) -> Item | None:
        """An item of at most so many devices."""
        fitting = [own for own in self.forms[kind, role] if own[0].form.devices <= room]
        if not fitting:
            return None
        return self.draws.choice(fitting[int(len(fitting) * self.draws.random() ** _BIAS)])

    def changed(self, units: Units) -> Units | None:
        """One change at random."""
        change = self.draws.choices(
            (self.resized, self.relaid, self.exchanged, self.added, self.reshared, self.respaced, self.fewer),
            (25, 20, 35, 12, 8, 10 if len(self.problem.intervals) > 1 else 0, 20 if self.costs else 0),
        )[0]
        place = self.draws.randrange(len(units))
        found = change(list(units), place)
        return (self.ordered(found) or None) if found is not None else None

    def resized(self, units: list[UnitGroup], place: int) -> list[UnitGroup] | None:
        """Other sizes of the same layout."""
        group = units[place]
        form = self.problem.units[group.unit]
        own = next(own for own in self.forms[form.kind, group.role] if own[0].form.layout == form.layout)
        units[place] = msgspec.structs.replace(group, unit=self.draws.choice(own).number)
        return units

    def relaid(self, units: list[UnitGroup], place: int) -> list[UnitGroup] | None:
        """Another layout on the devices of a group and what is left over."""
        group = units[place]
        form = self.problem.units[group.unit]
        room = self.left(units, form.kind) + form.devices * group.count
        item = self.drawn(form.kind, group.role, room)
        if item is None:
            return None
        count = room // item.form.devices
        units[place] = msgspec.structs.replace(group, unit=item.number, count=count)
        return units

    def exchanged(self, units: list[UnitGroup], place: int) -> list[UnitGroup] | None:
        """Some units of a group less, and as many of another, mostly of one that is there."""
        group = units[place]
        kind = self.problem.units[group.unit].kind
        fewer = self.draws.randint(1, min(4, group.count))
        units[place] = msgspec.structs.replace(group, count=group.count - fewer)
        others = [one for one in units if one is not units[place] and self.problem.units[one.unit].kind == kind]
        if others and self.draws.random() < 0.6:
            other = self.draws.choice(others)
            devices = self.problem.units[other.unit].devices
            number, role = other.unit, other.role
        else:
            role = self.draws.choice([role for own, role in self.forms if own == kind])
            item = self.drawn(kind, role, self.left(units, kind))
            if item is None:
                return None
            number, devices = item.number, item.form.devices
        most = self.left(units, kind) // devices
        if most < 1:
            return None
        count = most if self.draws.random() < 0.6 else self.draws.randint(1, most)
        units.append(UnitGroup(unit=number, role=role, count=count, shares=group.shares))
        return units

    def fewer(self, units: list[UnitGroup], place: int) -> list[UnitGroup]:
        """A unit of a group less."""
        units[place] = msgspec.structs.replace(units[place], count=units[place].count - 1)
        return units

    def added(self, units: list[UnitGroup], place: int) -> list[UnitGroup] | None:
        """Units on what is left over."""
        del place
        kind, role = self.draws.choice(list(self.forms))
        item = self.drawn(kind, role, self.left(units, kind))
        if item is None:
            return None
        count = self.draws.randint(1, self.left(units, kind) // item.form.devices)
        units.append(UnitGroup(unit=item.number, role=role, count=count))
        return units

    def spaced(self, group: UnitGroup) -> bool:
        """Whether an interval changes what a group does."""
        return group.role == "both" and self.problem.units[group.unit].in_step

    def respaced(self, units: list[UnitGroup], place: int) -> list[UnitGroup] | None:
        """Another interval from prompts to prompts."""
        if not self.spaced(units[place]):
            return None
        units[place] = msgspec.structs.replace(units[place], interval=self.draws.choice(self.problem.intervals))
        return units

    def reshared(self, units: list[UnitGroup], place: int) -> list[UnitGroup] | None:
        """Other shares of a group, first of all in proportion to what units take; or none."""
        taking = [one for one in units if one.role != "decode"]
        if len(taking) < 2 or self.problem.share_parts is not None:
            return None
        if all(one.shares is None for one in taking):
            return list(self.bound.in_proportion(units))
        if self.draws.random() < 0.2:
            return [msgspec.structs.replace(group, shares=None) for group in units]
        group = units[place]
        if group.shares is None:
            return None
        shares = tuple(share * self.draws.choice(_SHARES) for share in group.shares)
        units[place] = msgspec.structs.replace(group, shares=shares)
        return units
