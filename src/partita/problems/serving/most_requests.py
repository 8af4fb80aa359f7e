"""The most requests per second.

Where few fleets are possible and each has finitely many plans, all of them are simulated in the order of what they take
at least. Otherwise units for prompts, which are simulated as several that wait for each other, and units for decoding
are matched by what they take, with units for prompts beside them on other kinds of devices; and the most promising
forms are simulated one unit at a time, which says what a unit really takes, and the best fleets by these numbers as a
whole, with shares in proportion to them. Then follow the rules of ``partita.problems.serving.rules``, and the
neighbours of the best fleet (``partita.problems.serving.climbing``).
"""

from __future__ import annotations

import itertools
from collections import Counter

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.serving.alone import LONE_REQUESTS
from partita.problems.serving.evaluate import keeps
from partita.problems.serving.fleet_search import FEW, PAIRS, FleetSearch
from partita.problems.serving.offered import most_offered
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup, UnitLayout
from partita.problems.serving.rules import Rule, growing

#: At which parts of the rates that are estimated a rule's fleet is offered first.
_PARTS = 0.7, 0.4
#: Layouts of units that do both whose best form is tried alone.
_LAYOUTS = 4
#: Fleets of each pair of forms for prompts and for decoding that are tried.
_MATCHED = 2
#: By which shares the best fleet's rate is raised at first and at last.
_RAISED, _LEAST_RAISED = 0.04, 0.0025


class MostRequests(FleetSearch):
    """See the module."""

    def __init__(
        self, problem: ServingProblem, monitor: Monitor, best: Incumbent[ServingPlan], name: str, options: SearchOptions
    ) -> None:
        super().__init__(problem, monitor, best, name, options)
        self.short = problem.replace(workload=problem.workload.shortened(LONE_REQUESTS))

    def first(self, fleet: Rule) -> bool:
        grown = [] if self.problem.rates else list(growing(self.problem, fleet))[-1:]
        rates = [(units, part * self.estimates.guess(units)) for units in grown for part in _PARTS]
        plans = [ServingPlan(units=units, rate_per_s=rate) for units, rate in rates if rate > 0]
        return any(keeps(self.problem, plan) and self.offer(plan) for plan in plans)

    def search(self) -> None:
        fleets = list(itertools.islice(self.fleets.all(), FEW + 1)) if self.finite else None
        if fleets is not None and len(fleets) <= FEW:
            self.all_of(fleets)
            return
        self.whole()
        # What rules say is mostly no better than these, which a short run shows.
        self.matched()
        self.mixed(self.alone.lone_rates())
        for fleet in self.by_rule():
            if grown := list(growing(self.problem, fleet)):
                self.tried(grown[-1], self.estimates.guess(grown[-1]))
        self.climb()
        self.raised()

    @property
    def finite(self) -> bool:
        """Whether every fleet has finitely many plans."""
        return bool(self.problem.rates) and self.problem.share_parts == 0 and len(self.problem.intervals) == 1

    def all_of(self, fleets: list[tuple[int, ...]]) -> None:
        """Simulate all of them, those first that take least at best; whatever is left then is no better."""
        ranked = sorted((self.bound.least_of(counts), counts) for counts in fleets)
        for least, counts in ranked:
            if self.best.answer is not None or least > 0:
                self.best.prove(min(least * (1 - 1e-12), self.best.value), self.name)
            if self.over:
                return
            for rate in reversed(self.problem.rates):
                self.offer(ServingPlan(units=self.fleets.groups(counts), rate_per_s=rate))
        if self.best.answer is None:
            self.best.refute(self.name)
        else:
            self.best.prove(self.best.value, self.name)

    def tried(self, units: tuple[UnitGroup, ...], guess: float) -> None:
        """Offer units at the most requests per second, unless a short run says that they are no better than the best.

        Where few rates may be offered, all of them are looked at.
        """
        best = self.best.answer
        if best is not None and best.rate_per_s is not None and not self.problem.rates:
            if not keeps(self.short, ServingPlan(units=units, rate_per_s=best.rate_per_s)):
                return
            guess = max(guess, best.rate_per_s)
        self.offer(most_offered(self.problem, units, guess, self.monitor))

    def mixed(self, rates: dict[int, float]) -> None:
        """Fleets of units that do both: the best by lone rates, and of the best layouts the best form of each alone."""
        if not rates or self.problem.roles == "split":
            return
        rooms = {pool.kind: pool.devices for pool in self.problem.pools}
        fleets = [self.filled(rates, rooms)]
        best: dict[tuple[str, UnitLayout], int] = {}
        for number in sorted(rates, key=lambda one: -rates[one] / self.problem.form(one).devices):
            best.setdefault((self.problem.form(number).kind, self.problem.form(number).layout), number)
        for (kind, _), number in itertools.islice(best.items(), _LAYOUTS):
            others = {n: r for n, r in rates.items() if n == number or self.problem.form(n).kind != kind}
            fleets.append(self.filled(others, rooms))
        seen: list[Counter[int]] = []
        for counts in fleets:
            if counts in seen or not counts:
                continue
            seen.append(counts)
            guess = sum(rates[n] * count for n, count in counts.items())
            for units in self.shared(counts, rates):
                if self.over:
                    return
                if self.fits(units):
                    self.tried(units, guess)

    def matched(self) -> None:
        """Units for prompts beside units for decoding, those first that take most."""
        found = sorted(self.matches(), key=lambda one: (-one.rate, one.devices))
        tried: Counter[tuple[int, int]] = Counter()
        seen: list[set[UnitGroup]] = []
        for one in found:
            if self.over or sum(tried.values()) >= PAIRS * _MATCHED:
                return
            if tried[one.pair] < _MATCHED and set(one.units) not in seen and self.fits(one.units):
                tried[one.pair] += 1
                seen.append(set(one.units))
                self.tried(one.units, one.rate)

    def raised(self) -> None:
        """The best fleet at higher rates, in whole runs."""
        if self.problem.rates or self.best.answer is None:
            return
        step = _RAISED
        while step >= _LEAST_RAISED and not self.over:
            plan = self.best.answer
            assert plan.rate_per_s is not None
            if not self.offer(ServingPlan(units=plan.units, rate_per_s=plan.rate_per_s * (1 + step))):
                step /= 2
