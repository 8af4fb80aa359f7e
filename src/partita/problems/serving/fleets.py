"""What no fleet on the machines can beat: values of requests against capacities of units.

Let every request have a value for its prompt and one for its decodes, the latter by whether it keeps the TPOT target;
and let a unit's *capacity* be the most value that it can make in a second of its time, by the prices of
``partita.problems.serving.capacities``. A run of T seconds makes no more than T times the capacity of the fleet, and
must make the value of all requests, less what those may lack that need not keep the targets. So T is at least their
quotient for all values; whichever are tried, each is a proof. The fleet of most capacity is a knapsack: over all
devices of a kind, and over its machines one by one, where each stage of a unit has its part of the unit's capacity;
the lower of both holds. Source: Dantzig (1957), knapsack; the values are multipliers of a linear program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.result import Bound
from partita.ground.fronts import front
from partita.problems.serving.capacities import UnitCapacity, drawn_of, kinds_of
from partita.problems.serving.evaluate import most_late
from partita.problems.serving.mixes import ROOM, StepMultipliers
from partita.problems.serving.packing import blocks_of
from partita.problems.serving.problem import Role, ServingPlan, ServingProblem, UnitGroup, UnitLayout
from partita.problems.serving.request_values import Item, values_of
from partita.problems.serving.work import fitting

#: Rows of values that fleets of whole units are found for.
_ROWS = 100


class FleetBound:
    """The units that may be, and what fleets of them do at most.

    Where ``stop`` says so before all units are priced, it is ``cut_short`` and says nothing.
    """

    def __init__(self, problem: ServingProblem, stop: Callable[[], bool] = lambda: False) -> None:
        self.problem, self.cut_short = problem, False
        self.drawn = drawn_of(problem)
        self.kinds = kinds_of(problem, self.drawn)
        roles: dict[str, tuple[Role, ...]] = {
            "both": ("both",),
            "split": ("prefill", "decode"),
            "any": ("both", "prefill", "decode"),
        }
        self.items: list[Item] = []
        known: dict[tuple[str, UnitLayout], dict[tuple[Role, float, int], StepMultipliers]] = {}
        # Of equal layouts the one with the largest steps says what prices are good.
        order = sorted(range(len(problem.units)), key=lambda number: -problem.units[number].rules.tokens)
        for number in order:
            form = problem.units[number]
            if stop():
                self.cut_short = True
                return
            if fitting(problem, form) is None:
                unit = UnitCapacity(problem, form, self.drawn, self.kinds)
                own = known.setdefault((form.kind, form.layout), {})
                for role in roles[problem.roles]:
                    first_s = float(unit.first_token_s.min()) * (1 - ROOM)
                    prices = unit.prices(role, own)
                    self.items.append(Item(number, role, form, prices, first_s, unit.late, unit.least_gap_s))
        self.items.sort(key=lambda item: item.number)
        self.values = values_of(problem, self.kinds, self.items)
        #: (V, items) Of each row of values what a unit makes of it in a second.
        self.capacities = self.values.capacities(self.items)

    @property
    def count(self) -> int:
        """Requests."""
        return len(self.drawn.prompt_tokens)

    @property
    def decoding_s(self) -> float:
        """Seconds that every request still takes at least when its prompt leaves a unit for prompts."""
        gaps = [item.gap_s for item in self.items if item.role == "decode"]
        return min(gaps, default=0.0) * int(self.kinds.output.min() - 1)

    @property
    def too_fast(self) -> Item | None:
        """The item of the shortest time between two tokens, where not even that is within the TPOT target."""
        limit = self.problem.targets.tpot_s
        makers = [item for item in self.items if item.role != "prefill"]
        if limit is None or not makers or not (self.kinds.output > 1).any():
            return None
        fastest = min(makers, key=lambda item: item.gap_s)
        return fastest if fastest.gap_s > limit else None

    @property
    def too_late(self) -> Item | None:
        """The item of the soonest first token, where not even that is within the TTFT target."""
        takers = [item for item in self.items if item.role != "decode"]
        return min(takers, key=lambda item: item.first_s) if takers and all(item.late for item in takers) else None

    def least(self) -> float:
        """The objective of every fleet at least, seconds per request or costs of what keeps up; infinite for none."""
        return self.least_cost() if self.problem.goal == "cost" else self.least_time()

    def least_time(self) -> float:
        """Seconds per request that every fleet takes at least; infinite where there is none."""
        if not self.items or self.too_fast is not None:
            return math.inf
        found = 0.0
        for total, capacities in self._promising():
            most = sum(self._curve(pool.kind, capacities)[-1] for pool in self.problem.pools)
            found = max(found, total / most / self.count if most > 0 else math.inf)
        return found

    def _promising(self) -> Iterator[tuple[float, Floats]]:
        """Totals and capacities of the rows that say most where fleets may have parts of units."""
        with np.errstate(divide="ignore"):
            order = np.argsort(-self.values.total / self.in_parts(self.capacities), kind="stable")[:_ROWS]
        for place in order.tolist():
            yield float(self.values.total[place]), self.capacities[place]

    def in_parts(self, capacities: Floats) -> Floats:
        """(V,) The most of fleets that may have parts of units, by (V, items) capacities of units."""
        most = np.zeros(len(capacities))
        for pool in self.problem.pools:
            own = np.array([item.form.kind == pool.kind for item in self.items])
            if own.any():
                sizes = np.array([item.form.devices for item in self.items])[own]
                most += pool.devices * (capacities[:, own] / sizes).max(-1)
        return most

    def least_of(self, counts: Sequence[int]) -> float:
        """The same of the fleet with so many units of each item."""
        used = np.flatnonzero(counts)
        most = self.capacities[:, used] @ np.array(counts, np.float64)[used]
        with np.errstate(divide="ignore"):
            return float((self.values.total / most).max(initial=0.0)) / self.count

    def in_proportion(self, units: Sequence[UnitGroup]) -> tuple[UnitGroup, ...]:
        """The groups with shares of each class of requests in proportion to what they take, by their prices."""
        items = {(item.number, item.role): item for item in self.items}
        classes = max(1, len(self.problem.classes))

        def stated(group: UnitGroup) -> UnitGroup:
            if group.role == "decode":
                return group
            item = items[group.unit, group.role]
            most = group.count * item.form.apart / max(float(item.prices[0].keeping.mean()), 1e-30)
            return msgspec.structs.replace(group, shares=(most,) * classes)

        return tuple(stated(group) for group in units)

    def keeps_up(self, counts: Sequence[int]) -> bool:
        """Whether the fleet with so many units of each item may take all requests in time."""
        return not 0 < self.longest_s < self.least_of(counts) * self.count * (1 - ROOM)

    @property
    def longest_s(self) -> float:
        """Seconds from the first arrival to the last token, of a fleet that keeps up."""
        arrival = self.drawn.arrival_s
        return float(arrival.max() - arrival[0]) + most_late(self.problem, arrival, self.drawn.output_tokens)

    def least_cost(self) -> float:
        """What every fleet costs at least that keeps up; infinite where none does."""
        if self.too_fast is not None:
            return math.inf
        found = 0.0
        for total, capacities in self._promising():
            choices = [(0.0, 0.0)]
            for pool in self.problem.pools:
                price, curve = pool.cost_per_device, self._curve(pool.kind, capacities)
                choices = [(c + price * n, v + more) for c, v in choices for n, more in enumerate(curve)]
                choices = [choices[place] for place in front(*np.transpose(choices) * [[1.0], [-1.0]]).tolist()]
            asked = total / self.longest_s * (1 - ROOM) if self.longest_s > 0 else math.inf
            found = max(found, min((cost for cost, made in choices if made >= asked), default=math.inf))
        return found * (1 - ROOM)

    def _curve(self, kind: str, capacities: Floats) -> list[float]:
        """The most capacity of 0, 1, … devices of a pool."""
        pool = self.problem.pool(kind)
        units: dict[int, float] = {}
        stages: dict[int, float] = {}
        for item, capacity in zip(self.items, capacities.tolist(), strict=True):
            if item.form.kind == kind:
                units[item.form.devices] = max(units.get(item.form.devices, 0.0), capacity)
                for size, count in blocks_of(item.form, pool.machines).items():
                    stages[size] = max(stages.get(size, 0.0), capacity / count)
        whole = knapsack(units, pool.devices)
        machine = knapsack(stages, max(pool.machines, default=0))
        most = math.fsum(machine[size] for size in pool.machines)
        return [min(value, most * (1 + ROOM)) for value in whole]


@dataclass(frozen=True)
class GapParts:
    """Of a plan whose rate was looked for: what its units take at least, and the two parts of its gap."""

    without_queues_s: float  #: Seconds per request that its units take at least, whoever waits for whom.
    queues: float  #: The share of the objective that is above that: what queues and targets cost its units.
    units: float | None  #: The share that other units could save at most; None without a bound.


def gap_parts(problem: ServingProblem, plan: ServingPlan, objective: float, bound: Bound | None) -> GapParts | None:
    """How much of the gap is queueing, and how much the choice of units; None where nothing is known of them."""
    if problem.goal != "rate" or not objective > 0:
        return None
    forms = tuple(dict.fromkeys(group.unit for group in plan.units))
    own = FleetBound(problem.replace(units=tuple(problem.units[number] for number in forms)))
    counts = [
        sum(g.count for g in plan.units if forms.index(g.unit) == item.number and g.role == item.role)
        for item in own.items
    ]
    # A bound of all fleets is one of these units as well.
    least = min(max(own.least_of(counts), 0.0 if bound is None else bound.value), objective)
    if not 0 < least < math.inf:
        return None
    units = None if bound is None else (least - bound.value) / objective
    return GapParts(without_queues_s=least, queues=(objective - least) / objective, units=units)


def knapsack(worth: dict[int, float], room: int) -> list[float]:
    """The most worth of things by their sizes, any number of each, for all rooms from 0."""
    found = [0.0] * (room + 1)
    for size in range(1, room + 1):
        found[size] = max(
            [found[size - 1]] + [found[size - own] + value for own, value in worth.items() if own <= size]
        )
    return found
