"""Fleets: which units, how many, who takes which requests, and at which rate.

Where few fleets are possible and each has finitely many plans, all of them are simulated in the order of what they take
at least. Otherwise units for prompts, which are simulated as several that wait for each other, and units for decoding
are matched by what they take, with units for prompts beside them on other kinds of devices; and the most promising
forms are simulated one unit at a time, which says what a unit really takes, and the best fleets by these numbers as a
whole, with shares in proportion to them. Then follow the rules of ``partita.problems.serving.rules``, and the
neighbours of the best fleet (``partita.problems.serving.climbing``). Where the cheapest fleet is looked for, the rules
begin, and whatever costs less than the best follows, the cheapest first.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.outcome import searched
from partita.problems.serving.alone import LONE_REQUESTS, Alone
from partita.problems.serving.climbing import Climb
from partita.problems.serving.evaluate import evaluate, keeps
from partita.problems.serving.every import EveryFleet
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.mixes import ROOM
from partita.problems.serving.offered import most_offered
from partita.problems.serving.options import Outcome, Solver
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup, UnitLayout
from partita.problems.serving.request_values import Item
from partita.problems.serving.rules import RULES, ByRule, Estimates, Rule, growing, planned
from partita.problems.serving.whole_fleets import least_whole

#: Fleets that are simulated one and all.
_FEW = 4_000
#: Fleets of rules that are offered at once, and at which parts of the rates that are estimated.
_FIRST, _PARTS = 3, (0.7, 0.4)
#: Layouts of units that do both whose best form is tried alone.
_LAYOUTS = 4
#: Pairs of forms for prompts and for decoding that are tried, and fleets of each.
_PAIRS, _MATCHED = 4, 2
#: Of what lone units take, what fleets of them are asked for at first, and by which factor more each time.
_SPARE, _MORE = 0.95, 1.03

#: By which shares the best fleet's rate is raised at first and at last.
_RAISED, _LEAST_RAISED = 0.04, 0.0025


class Fleets(Solver):
    """See the module."""

    name = "fleets"
    summary = "fleets of several forms with shares of requests, simulated in the order of what their units can take"
    argument = "no fleet does more than its units in their best mixes of steps; or every fleet was simulated"

    def supports(self, problem: ServingProblem, options: SearchOptions) -> str | None:
        return (
            "it looks for a rate or for the cheapest devices; use every-deployment" if problem.goal == "time" else None
        )

    def solve(self, problem: ServingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        best: Incumbent[ServingPlan] = Incumbent()
        return searched(best, monitor, lambda: _Search(problem, monitor, best, self.name, options).run())


class _Search:
    def __init__(
        self,
        problem: ServingProblem,
        monitor: Monitor,
        best: Incumbent[ServingPlan],
        name: str,
        options: SearchOptions,
    ) -> None:
        self.problem, self.monitor, self.best, self.name, self.options = problem, monitor, best, name, options
        self.simulated = 0
        workload = msgspec.structs.replace(problem.workload, requests=min(problem.workload.count, LONE_REQUESTS))
        self.short = problem.replace(workload=workload)

    @property
    def over(self) -> bool:
        return self.best.done or self.monitor.stopping

    def run(self) -> None:
        self.first()
        self.bound = FleetBound(self.problem)
        self.alone = Alone(self.bound, self.monitor, lambda: self.over)
        if not self.bound.items:
            self.best.refute(self.name)
            return
        least = self.bound.least()
        if math.isinf(least):
            self.best.refute(self.name)
            return
        self.best.prove(least, self.name)
        self.fleets = EveryFleet(self.bound)
        fleets = list(itertools.islice(self.fleets.all(), _FEW + 1)) if self.finite else None
        if fleets is not None and len(fleets) <= _FEW:
            self.all_of(fleets)
        else:
            self.whole()
            self.some()
        self.best.counters["simulated"] = self.simulated

    def first(self) -> None:
        """A fleet of a rule, where the rate is looked for at one that it keeps, before anything that takes longer."""
        if self.problem.rates:
            return
        estimates = Estimates(self.problem)
        for fleet in itertools.islice(self.by_rule(estimates), _FIRST):
            if self.problem.goal == "cost":
                plans = [planned(self.problem, fleet, self.monitor)]
            else:
                grown = list(growing(self.problem, fleet))[-1:]
                rates = [(units, part * estimates.guess(units)) for units in grown for part in _PARTS]
                plans = [ServingPlan(units=units, rate_per_s=rate) for units, rate in rates if rate > 0]
            if any(plan is not None and keeps(self.problem, plan) and self.offer(plan) for plan in plans):
                return

    def whole(self) -> None:
        """The bound over whole units."""
        least = least_whole(self.bound, lambda: self.monitor.stopping)
        if math.isinf(least):
            self.best.refute(self.name)
        elif least > 0:
            self.best.prove(least, self.name)

    @property
    def finite(self) -> bool:
        """Whether a rate is looked for and every fleet has finitely many plans."""
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

    def offer(self, plan: ServingPlan | None) -> bool:
        """Simulate a plan; whether it is feasible."""
        if plan is None:
            return False
        worth = evaluate(self.problem, plan)
        self.simulated += 1
        if worth.feasible:
            self.best.offer(worth.objective, plan, self.name)
        return worth.feasible

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

    def some(self) -> None:
        estimates = Estimates(self.problem)
        if self.problem.goal == "cost":
            for fleet in self.by_rule(estimates):
                self.offer(planned(self.problem, fleet, self.monitor))
            self.cheapest(self.alone.lone_rates())
            self.cheaper()
            return
        # What rules say is mostly no better then, which a short run shows.
        self.matched()
        self.mixed(self.alone.lone_rates())
        for fleet in self.by_rule(estimates):
            if grown := list(growing(self.problem, fleet)):
                self.tried(grown[-1], estimates.guess(grown[-1]))
        if not self.problem.rates and self.problem.share_parts is None and self.best.answer is not None:
            climb = Climb(self.bound, self.best, self.name, self.options.seed)
            climb.run(lambda: self.over, self.options.threads)
            self.simulated += climb.simulated
        self.raised()

    def by_rule(self, estimates: Estimates) -> Iterator[Rule]:
        """What all rules add."""
        for rule in RULES:
            if isinstance(rule, ByRule) and rule.supports(self.problem, SearchOptions()) is None:
                for one in rule.rules(self.problem, estimates):
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
        return not unpacked(self.problem, ServingPlan(units=tuple(units)))

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

    def cheapest(self, rates: dict[int, float]) -> None:
        """Fleets of units that do both, cheapest first, until they are enough; then without what they can spare."""
        asked = self.bound.count / max(self.bound.longest_s, 1e-30) * _SPARE
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
        looked, longest, refuting = 0, self.bound.longest_s, True
        for cost, rooms in self.fleets.rooms():
            if cost >= self.best.value * (1 - 1e-12):
                break
            if refuting:
                self.best.prove(cost, self.name)
            for counts in self.fleets.of(rooms) if cost >= self.best.bound * (1 - 1e-9) else ():
                looked += 1
                if self.over or looked > _FEW:
                    return
                if 0 < longest < self.bound.least_of(counts) * self.bound.count * (1 - ROOM):
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

    def matched(self) -> None:
        """Units for prompts beside units for decoding, in numbers that match."""
        if self.problem.roles == "both":
            return
        kinds = [pool.kind for pool in self.problem.pools]
        askers = {kind: self.alone.asked_rates(kind) for kind in kinds}
        second = [one for kind in kinds for one in self.alone.layouts("decode", kind)[:_PAIRS]]
        found: list[tuple[float, int, tuple[int, int], tuple[UnitGroup, ...]]] = []
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
                        found.append((rate, -devices, (asker.number, maker.number), (*asking, decoding)))
        found.sort(key=lambda one: one[:2], reverse=True)
        tried: Counter[tuple[int, int]] = Counter()
        seen: list[set[UnitGroup]] = []
        for rate, _, pair, units in found:
            if self.over or sum(tried.values()) >= _PAIRS * _MATCHED:
                return
            if tried[pair] < _MATCHED and set(units) not in seen and self.fits(units):
                tried[pair] += 1
                seen.append(set(units))
                self.tried(units, rate)

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
