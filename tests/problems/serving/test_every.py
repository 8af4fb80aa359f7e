"""All fleets there are, beside a list by products."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from partita.problems.serving.every import EveryFleet
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, UnitGroup
from partita.problems.serving.samples import LOOP
from problems.serving.brute_force import fleets
from problems.serving.samples import random_fleet


def alike(units: tuple[UnitGroup, ...]) -> tuple[UnitGroup, ...]:
    return tuple(sorted(units, key=lambda group: (group.unit, group.role)))


def test_every_fleet_is_listed_once_and_the_cheapest_first() -> None:
    listed = 0
    for problem in map(random_fleet, range(40)):
        every = EveryFleet(FleetBound(problem))
        found = [alike(every.groups(counts)) for counts in every.all()]
        assert len(set(found)) == len(found)
        rated = problem.replace(rates=problem.rates[:1])
        assert set(found) == {alike(plan.units) for plan in fleets(rated) if not unpacked(problem, plan)}
        prices = {pool.kind: pool.cost_per_device for pool in problem.pools}
        costs = [
            sum(prices[form.kind] * form.devices * group.count for group, form in zip(units, forms, strict=True))
            for units in found
            for forms in [[problem.units[group.unit] for group in units]]
        ]
        assert all(one <= other + 1e-9 for one, other in itertools.pairwise(costs))
        listed += len(found)
    assert listed > 150


def test_a_long_menu_is_no_obstacle() -> None:
    problem = LOOP.replace(units=LOOP.units[:1] * 3_000)
    items = [SimpleNamespace(number=number, role="both", form=problem.units[0]) for number in range(3_000)]
    every = EveryFleet(cast("Any", SimpleNamespace(problem=problem, items=items)))
    last = msgspec.structs.replace(UnitGroup(unit=2_999), count=4)
    found = {every.groups(counts) for counts in itertools.islice(every.of((1,)), 3_000)}
    assert len(found) == 3_000
    assert not unpacked(problem, ServingPlan(units=(last,)))
    assert next(every.of((4,)))[0] == 1
