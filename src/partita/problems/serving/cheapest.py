"""The cheapest fleet for a rate, or the one of fewest devices.

The rules of ``partita.problems.serving.rules`` begin. Units for prompts and for decoding, matched by what they take by
themselves, and units that do both are tried, the cheapest first, until they are enough. From the best of these the
search climbs to cheaper ones (``partita.problems.serving.climbing``). Last, whatever costs less is simulated, the
cheapest first: where all of it can be, the best fleet is proven.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from partita.problems.serving.evaluate import cost_of, keeps
from partita.problems.serving.fleet_search import FEW, FleetSearch
from partita.problems.serving.problem import ServingPlan
from partita.problems.serving.rules import Rule, planned

#: Of what units take by themselves, what fleets of them are asked for at first, and by which factor more each time.
_SPARE, _MORE = 0.95, 1.03


class CheapestFleet(FleetSearch):
    """See the module."""

    def first(self, fleet: Rule) -> bool:
        return self.offer(planned(self.problem, fleet, self.monitor))

    def search(self) -> None:
        self.whole()
        for fleet in self.rules:
            self.offer(planned(self.problem, fleet, self.monitor))
        self.matched()
        self.filled_up(self.alone.lone_rates())
        if not self.few:
            self.climb()
        self.cheaper()

    @property
    def few(self) -> bool:
        """Whether so few fleets cost less than the best that all are looked at."""
        cheaper = (counts for _, rooms in self.open_rooms() for counts in self.fleets.of(rooms))
        return len(list(itertools.islice(cheaper, FEW + 1))) <= FEW

    def open_rooms(self) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Costs and devices of each pool that the bound leaves, and that cost less than the best by then."""
        for cost, rooms in self.fleets.rooms():
            if cost >= self.best.value * (1 - 1e-12):
                return
            if cost >= self.best.bound * (1 - 1e-9):
                yield cost, rooms

    @property
    def asked(self) -> float:
        """Requests per second that the cheapest fleet is estimated to take, at least."""
        return self.bound.count / max(self.bound.longest_s, 1e-30) * _SPARE

    def matched(self) -> None:
        """Units for prompts beside units for decoding, the cheapest first, until they are enough."""
        asked = self.asked
        fleets = [(ServingPlan(units=one.units), one.rate) for one in self.matches()]
        priced = [(cost_of(self.problem, plan), -rate, plan) for plan, rate in fleets]
        for cost, less, plan in sorted(priced, key=lambda one: one[:2]):
            if self.over or cost >= self.best.value:
                return
            if -less >= asked and self.fits(plan.units):
                if keeps(self.problem, plan) and self.offer(plan):
                    return
                asked *= _MORE

    def filled_up(self, rates: dict[int, float]) -> None:
        """Fleets of units that do both, cheapest first, until they are enough."""
        asked = self.asked
        kinds = [pool.kind for pool in self.problem.pools]
        for cost, rooms in self.fleets.rooms():
            if self.over or cost >= self.best.value:
                return
            counts = self.filled(rates, dict(zip(kinds, rooms, strict=True)))
            if sum(rates[n] * count for n, count in counts.items()) >= asked:
                for units in self.shared(counts, rates):
                    if self.fits(units) and self.offer(ServingPlan(units=units)):
                        return
                asked *= _MORE

    def cheaper(self) -> None:
        """Simulate what costs less than the best, the cheapest first: what costs less than all that is left is refuted.

        That ends at a fleet that may keep the targets with other shares than those that are tried.
        """
        looked, refuting = 0, True
        for cost, rooms in self.open_rooms():
            if refuting:
                self.best.prove(cost, self.name)
            for counts in self.fleets.of(rooms):
                looked += 1
                if self.over or looked > FEW:
                    return
                if not self.bound.keeps_up(counts):
                    continue
                fleet = self.fleets.groups(counts)
                several = self.problem.share_parts != 0 and sum(group.role != "decode" for group in fleet) > 1
                tried = [fleet]
                if several and self.problem.share_parts is None:
                    tried.append(self.bound.in_proportion(fleet))
                plans = [ServingPlan(units=units) for units in tried]
                if any(keeps(self.problem, plan) and self.offer(plan) for plan in plans):
                    break
                refuting = refuting and not several
        if refuting and self.best.answer is None:
            self.best.refute(self.name)
        elif refuting:
            self.best.prove(self.best.value, self.name)
