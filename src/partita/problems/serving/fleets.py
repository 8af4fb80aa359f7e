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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.problems.serving.capacities import RequestPrices, UnitCapacity, drawn_of, kinds_of
from partita.problems.serving.evaluate import most_late
from partita.problems.serving.packing import blocks_of
from partita.problems.serving.problem import Role, ServingProblem, ServingUnit
from partita.problems.serving.work import fitting

_ROOM = 1e-9
#: Parts of a request's value that its prompt may have.
_PARTS = np.linspace(0.05, 0.95, 19)
#: Units of each role whose prices are tried as values.
_REFERENCES = 4


@dataclass(frozen=True)
class Item:
    """A form in a role."""

    number: int
    role: Role
    form: ServingUnit
    prices: list[RequestPrices]
    late: bool  #: Whether no request keeps the TTFT target here, even alone.
    gap_s: float  #: Seconds between two tokens of a request at least.


@dataclass(frozen=True)
class Values:
    """(K,) Of requests by kind: of a prompt, of decodes that keep the target, and of others; then of all together."""

    prompt: Floats
    keeping: Floats
    other: Floats
    prompt_late: bool  #: Whether requests that miss the TTFT target have a value, too.
    total: float

    def capacity(self, item: Item) -> float:
        """The most value that a unit makes in a second."""
        if item.late and item.role != "decode" and not self.prompt_late:
            return 0.0
        before, after = item.role != "decode", item.role != "prefill"
        keeping = before * self.prompt + after * self.keeping
        other = before * self.prompt + after * self.other
        rates = [max(_most(keeping, one.keeping), _most(other, one.other)) for one in item.prices]
        return min(rates) * item.form.apart * (1 + _ROOM)


def _most(value: Floats, time: Floats) -> float:
    asked = value > 0
    if not asked.any():
        return 0.0
    if (time[asked] <= 0).any():
        return math.inf
    return float((value[asked] / time[asked]).max())


class FleetBound:
    """The units that may be, and what fleets of them do at most."""

    def __init__(self, problem: ServingProblem) -> None:
        self.problem = problem
        self.drawn = drawn_of(problem)
        self.kinds = kinds_of(problem, self.drawn)
        roles: dict[str, tuple[Role, ...]] = {
            "both": ("both",),
            "split": ("prefill", "decode"),
            "any": ("both", "prefill", "decode"),
        }
        self.items: list[Item] = []
        for number, form in enumerate(problem.units):
            if fitting(problem, form) is None:
                unit = UnitCapacity(problem, form, self.drawn, self.kinds)
                facts = unit.late, unit.least_gap_s
                self.items += [Item(number, role, form, unit.prices(role), *facts) for role in roles[problem.roles]]
        self.values = [one for one in self._values() if one.total > 0]
        found = [[one.capacity(item) for item in self.items] for one in self.values]
        self.capacities = np.array(found).reshape(len(self.values), len(self.items))

    @property
    def count(self) -> int:
        """Requests."""
        return len(self.drawn.prompt_tokens)

    def _values(self) -> Iterator[Values]:
        base: dict[Role, list[RequestPrices]] = {}
        for role in ("both", "prefill", "decode"):
            own = [item for item in self.items if item.role == role]
            own.sort(key=lambda item: float(item.prices[0].keeping.sum()) * item.form.devices / item.form.apart)
            base[role] = [one for item in own[:_REFERENCES] for one in item.prices]
        none = np.zeros(len(self.kinds.count))
        split = self.problem.roles != "both"
        for one in base["both"]:
            yield from self._valued(none, one.keeping, one.other)
            for part in _PARTS if split else ():
                prompt = part * np.minimum(one.keeping, one.other)
                yield from self._valued(prompt, one.keeping - prompt, one.other - prompt)
        for asked in base["prefill"][:2]:
            for one in base["decode"]:
                for part in _PARTS if one.keeping.sum() > 0 else ():
                    scale = (1 - part) / part * asked.keeping.sum() / one.keeping.sum()
                    yield from self._valued(asked.keeping, scale * one.keeping, scale * one.other)

    def _valued(self, prompt: Floats, keeping: Floats, other: Floats) -> Iterator[Values]:
        """The values, and the same of requests alone that keep the TTFT target."""
        targets, counts = self.problem.targets, self.kinds.count
        keeping = np.maximum(keeping, other)
        whole = float((counts * (prompt + keeping)).sum())
        several = self.kinds.output > 1
        lacking = 0.0
        if targets.tpot_s is not None:
            lacking = _largest((keeping - other)[several], counts[several], targets.percentile)
        total = (whole - lacking) * (1 - _ROOM)
        yield Values(prompt, keeping, other, True, total)
        if targets.ttft_s is not None and any(item.late for item in self.items):
            missed = _largest(prompt + keeping, counts, targets.percentile)
            yield Values(prompt, keeping, other, False, total - missed * (1 + _ROOM))

    @property
    def too_fast(self) -> Item | None:
        """The item of the shortest time between two tokens, where not even that is within the TPOT target."""
        limit = self.problem.targets.tpot_s
        makers = [item for item in self.items if item.role != "prefill"]
        if limit is None or not makers or not (self.kinds.output > 1).any():
            return None
        fastest = min(makers, key=lambda item: item.gap_s)
        return fastest if fastest.gap_s > limit else None

    def least(self) -> float:
        """Seconds per request that every fleet takes at least; infinite where there is none."""
        if not self.items or self.too_fast is not None:
            return math.inf
        found = 0.0
        for values, capacities in zip(self.values, self.capacities, strict=True):
            most = sum(self._curve(pool.kind, capacities)[-1] for pool in self.problem.pools)
            found = max(found, values.total / most / self.count if most > 0 else math.inf)
        return found

    def least_of(self, counts: Sequence[int]) -> float:
        """The same of the fleet with so many units of each item."""
        used = np.flatnonzero(counts)
        most = self.capacities[:, used] @ np.array(counts, np.float64)[used]
        totals = np.array([values.total for values in self.values])
        with np.errstate(divide="ignore"):
            return float((totals / most).max(initial=0.0)) / self.count

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
        for values, capacities in zip(self.values, self.capacities, strict=True):
            choices = [(0.0, 0.0)]
            for pool in self.problem.pools:
                price = 1.0 if pool.price_per_hour is None else pool.price_per_hour
                curve = self._curve(pool.kind, capacities)
                choices = _pareto([(c + price * n, v + more) for c, v in choices for n, more in enumerate(curve)])
            asked = values.total / self.longest_s * (1 - _ROOM) if self.longest_s > 0 else math.inf
            found = max(found, min((cost for cost, made in choices if made >= asked), default=math.inf))
        return found * (1 - _ROOM)

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
        return [min(value, most * (1 + _ROOM)) for value in whole]


def knapsack(worth: dict[int, float], room: int) -> list[float]:
    """The most worth of things by their sizes, any number of each, for all rooms from 0."""
    found = [0.0] * (room + 1)
    for size in range(1, room + 1):
        found[size] = max(
            [found[size - 1]] + [found[size - own] + value for own, value in worth.items() if own <= size]
        )
    return found


def _largest(values: Floats, counts: Longs, percentile: float) -> float:
    """The sum of the largest values of those requests that may miss a target: above the quantile's lower neighbour."""
    many = int(counts.sum())
    if not many:
        return 0.0
    # A quantile that falls on a request up to rounding is allowed either neighbour.
    left, found = many - (math.floor((many - 1) * percentile - 1e-6) + 1), 0.0
    for place in np.argsort(-values):
        taken = min(left, int(counts[place]))
        found += taken * max(0.0, float(values[place]))
        left -= taken
    return found


def _pareto(choices: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Choices of cost and worth that no other beats in both."""
    found: list[tuple[float, float]] = []
    for cost, worth in sorted(choices, key=lambda one: (one[0], -one[1])):
        if not found or worth > found[-1][1]:
            found.append((cost, worth))
    return found
