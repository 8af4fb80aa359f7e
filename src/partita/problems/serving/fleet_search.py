"""What searches for fleets share: estimates of what units take, fleets by rules, matched or filled, and the climb."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.serving.alone import Alone
from partita.problems.serving.climbing import Climb
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.every import EveryFleet
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup
from partita.problems.serving.request_values import Item
from partita.problems.serving.rules import RULES, ByRule, Estimates, Rule
from partita.problems.serving.whole_fleets import least_whole

#: Fleets that are simulated one and all.
FEW = 4_000
#: Layouts for decoding that are tried for prompts of the best.
PAIRS = 4
#: Fleets of rules that are offered at once.
_FIRST = 3


@dataclass(frozen=True)
class Matched:
    """Units for prompts and for decoding in numbers that match."""

    rate: float  #: Requests per second that they are estimated to take.
    devices: int  #: That prompts are computed on.
    pair: tuple[int, int]  #: The forms that were matched.
    units: tuple[UnitGroup, ...]


class FleetSearch(ABC):
    """A search for one goal."""

    def __init__(
        self, problem: ServingProblem, monitor: Monitor, best: Incumbent[ServingPlan], name: str, options: SearchOptions
    ) -> None:
        self.problem, self.monitor, self.best, self.name, self.options = problem, monitor, best, name, options
        self.simulated = 0
        self.estimates = Estimates(problem)
        #: Fleets of rules that were not offered yet.
        self.rules = self.by_rule()

    @property
    def over(self) -> bool:
        """Whether to end."""
        return self.best.done or self.monitor.stopping

    def run(self) -> None:
        """A first plan, the bound of capacities, and what the goal asks for."""
        for fleet in itertools.islice(self.rules, _FIRST):
            if self.first(fleet):
                break
        self.bound = FleetBound(self.problem, lambda: self.over)
        if self.bound.cut_short:
            return
        self.alone = Alone(self.bound, self.monitor, lambda: self.over)
        self.fleets = EveryFleet(self.bound)
        least = self.bound.least() if self.bound.items else math.inf
        if math.isinf(least):
            self.best.refute(self.name)
            return
        self.best.prove(least, self.name)
        self.search()
        self.best.counters["simulated"] = self.simulated

    @abstractmethod
    def first(self, fleet: Rule) -> bool:
        """Offer a fleet of a rule, before anything that takes longer; whether it is feasible."""

    @abstractmethod
    def search(self) -> None:
        """Look for better plans, and prove what can be proven of them."""

    def whole(self) -> None:
        """The bound over whole units."""
        least = least_whole(self.bound, lambda: self.monitor.stopping)
        if math.isinf(least):
            self.best.refute(self.name)
        elif least > 0:
            self.best.prove(least, self.name)

    def offer(self, plan: ServingPlan | None) -> bool:
        """Simulate a plan; whether it is feasible."""
        if plan is None:
            return False
        worth = evaluate(self.problem, plan)
        self.simulated += 1
        if worth.feasible:
            self.best.offer(worth.objective, plan, self.name)
        return worth.feasible

    def climb(self) -> None:
        """From the best fleet to better ones."""
        if not self.problem.rates and self.problem.share_parts is None and self.best.answer is not None:
            climb = Climb(self.bound, self.best, self.name, self.options.seed)
            climb.run(lambda: self.over, self.options.threads)
            self.simulated += climb.simulated

    def by_rule(self) -> Iterator[Rule]:
        """What all rules add."""
        for rule in RULES:
            if isinstance(rule, ByRule) and rule.supports(self.problem, SearchOptions()) is None:
                for one in rule.rules(self.problem, self.estimates):
                    if self.over:
                        return
                    yield one

    def filled(self, rates: dict[int, float], rooms: dict[str, int]) -> Counter[int]:
        """The units of most rate in so many devices of each kind."""
        found: Counter[int] = Counter()
        for kind, room in rooms.items():
            own = [n for n in rates if self.problem.form(n).kind == kind]
            best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
            for size in range(1, room + 1):
                choices = [best[-1]]
                for number in own:
                    devices = self.problem.form(number).devices
                    if devices <= size:
                        before = best[size - devices]
                        choices.append((before[0] + rates[number], (*before[1], number)))
                best.append(max(choices, key=lambda one: one[0]))
            found.update(best[-1][1])
        return found

    def shared(self, counts: Counter[int], rates: dict[int, float]) -> Iterator[tuple[UnitGroup, ...]]:
        """The units; with prompts in some steps only; and with shares in proportion to what they take."""
        units = tuple(UnitGroup(unit=n, count=count) for n, count in counts.items())
        yield units
        if any(self.problem.form(n).in_step for n in counts):
            for interval in self.problem.intervals[1::2]:
                spaced = {n: interval if self.problem.form(n).in_step else 1 for n in counts}
                yield tuple(msgspec.structs.replace(group, interval=spaced[group.unit]) for group in units)
        if len(units) > 1 and self.problem.share_parts is None:
            yield self.proportioned(units, [rates[n] * count for n, count in counts.items()])

    def proportioned(self, units: Sequence[UnitGroup], rates: Sequence[float]) -> tuple[UnitGroup, ...]:
        """Groups with shares of the requests of each class in proportion to rates."""
        whole, classes = sum(rates), max(1, len(self.problem.classes))
        return tuple(
            msgspec.structs.replace(group, shares=(rate / whole,) * classes)
            for group, rate in zip(units, rates, strict=True)
        )

    def fits(self, units: Sequence[UnitGroup]) -> bool:
        """Whether units find room on the machines."""
        return not unpacked(self.problem, ServingPlan(units=tuple(units)))

    def matches(self) -> list[Matched]:
        """Units for prompts beside units for decoding, in numbers that match; in no order."""
        if self.problem.roles == "both":
            return []
        kinds = [pool.kind for pool in self.problem.pools]
        askers = {kind: self.alone.asked_rates(kind) for kind in kinds}
        second = [one for kind in kinds for one in self.alone.layouts("decode", kind)[:PAIRS]]
        found = []
        for (ask, asker), (make, maker) in itertools.product(itertools.chain(*askers.values()), second):
            most = self.problem.devices
            for prompts in range(1, most // asker.form.devices + 1):
                left = most - prompts * asker.form.devices
                for decoders in range(1, left // maker.form.devices + 1):
                    own = UnitGroup(unit=asker.number, role="prefill", count=prompts)
                    decoding = UnitGroup(unit=maker.number, role="decode", count=decoders)
                    for rate, asking in self.helped(prompts * ask, own, decoding, askers):
                        rate = min(rate, decoders * make * 0.95)
                        devices = sum(self.problem.form(one.unit).devices * one.count for one in asking)
                        found.append(Matched(rate, devices, (asker.number, maker.number), (*asking, decoding)))
        return found

    def helped(
        self, rate: float, own: UnitGroup, decoding: UnitGroup, askers: dict[str, list[tuple[float, Item]]]
    ) -> Iterator[tuple[float, tuple[UnitGroup, ...]]]:
        """Units for prompts by themselves; and beside the best of each other kind on what it has left.

        Whoever has the fewest requests takes the next one, or each its share.
        """
        yield rate, (own,)
        rates, groups = [rate], [own]
        for kind, ranked in askers.items():
            if kind == self.problem.form(own.unit).kind or not ranked:
                continue
            (ask, item), maker = ranked[0], self.problem.form(decoding.unit)
            left = self.problem.pool(kind).devices - (maker.devices * decoding.count if maker.kind == kind else 0)
            if (count := left // item.form.devices) > 0:
                rates.append(ask * count)
                groups.append(UnitGroup(unit=item.number, role="prefill", count=count))
        if len(groups) > 1:
            yield sum(rates), tuple(groups)
            if self.problem.share_parts is None:
                yield sum(rates), self.proportioned(groups, rates)
