"""What forms take by themselves, by simulation: one unit that does all of requests, or several for prompts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec

from partita.engines.search.monitor import Monitor
from partita.problems.serving.evaluate import keeps
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.lone import Lengths, Lone
from partita.problems.serving.offered import most_offered, prompts_of
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup, UnitLayout
from partita.problems.serving.request_values import Item

#: Requests of a run of one unit, layouts of a kind that are tried, and of how many all sizes.
LONE_REQUESTS, _TRIED, _SIZED = 1_500, 12, 2
#: Tokens of a step that holds decodes up little.
_SHORT = 1024
#: Forms for prompts that are simulated by themselves, on which share of the devices of their kind; how many are named.
_ASKED, _FOR_PROMPTS, _NAMED = 16, 0.6, 4
#: A form that takes less than this share of the best one's requests for its devices is left out.
_PROMISING = 0.7


class Alone:
    """Forms of a problem by what they may take, and what they do."""

    def __init__(self, bound: FleetBound, monitor: Monitor, over: Callable[[], bool]) -> None:
        self.problem, self.bound, self.monitor, self.over = bound.problem, bound, monitor, over
        self.lengths = Lengths.of(bound.drawn)

    def ranked(self, role: str, kind: str) -> list[tuple[float, Item]]:
        """Items with what they take at most, in requests per second: by that for their devices, and where
        attention-data groups step together as if every other prompt came alone.
        """
        found = []
        for place, item in enumerate(self.bound.items):
            if item.role == role and item.form.kind == kind and not item.late:
                most = item.form.apart * min(float(1 / max(one.keeping.mean(), 1e-30)) for one in item.prices)
                expected = most
                if item.form.in_step and role != "decode":
                    lone = Lone(item.form, self.lengths)
                    more = max(0.0, lone.prompt_alone_s() - lone.prompt_s()[0])
                    expected = 1 / (1 / max(most, 1e-30) + more / 2)
                found.append((expected / item.form.devices, -place, most, item))
        return [(most, item) for _, _, most, item in sorted(found, key=lambda one: one[:2], reverse=True)]

    def layouts(self, role: str, kind: str) -> list[tuple[float, Item]]:
        """The best item of each layout, the best first."""
        found: dict[UnitLayout, tuple[float, Item]] = {}
        for most, item in self.ranked(role, kind):
            found.setdefault(item.form.layout, (most, item))
        return list(found.values())

    def two_sizes(self, kind: str) -> list[tuple[float, Item]]:
        """Of the best layouts of units that do both the best item, and the best of those whose steps are short."""
        ranked = self.ranked("both", kind)
        found = []
        for most, item in self.layouts("both", kind)[:_TRIED]:
            found.append((most, item))
            if item.form.rules.tokens > _SHORT:
                layout = item.form.layout
                short = (one for one in ranked if one[1].form.layout == layout and one[1].form.rules.tokens <= _SHORT)
                found += list(itertools.islice(short, 1))
        return found

    def lone_rates(self) -> dict[int, float]:
        """Requests per second of one unit of the most promising forms, by simulation."""
        found: dict[int, float] = {}
        workload = self.problem.workload
        workload = msgspec.structs.replace(workload, rate_per_s=None, requests=min(workload.count, LONE_REQUESTS))
        alone = self.problem.replace(workload=workload, goal="rate", rates=(), unit="s")
        for pool in self.problem.pools:
            self.simulated_alone(alone, self.two_sizes(pool.kind), found)
            # Of the best layouts the other sizes.
            own = [n for n in found if self.problem.form(n).kind == pool.kind]
            own.sort(key=lambda n: -found[n] / self.problem.form(n).devices)
            best = [self.problem.form(n).layout for n in own[:_SIZED]]
            others = [
                (most, item)
                for most, item in self.ranked("both", pool.kind)
                if item.form.layout in best and item.number not in found
            ]
            self.simulated_alone(alone, others[:_TRIED], found)
        return found

    def simulated_alone(
        self, alone: ServingProblem, ranked: Sequence[tuple[float, Item]], found: dict[int, float]
    ) -> None:
        """Add rates of items by themselves, while they may be the best for their devices."""
        best = 0.0
        for most, item in ranked:
            if self.over():
                break
            # It takes no more for its devices at best.
            if most <= best * item.form.devices:
                continue
            units = (UnitGroup(unit=item.number),)
            least = _PROMISING * best * item.form.devices
            if least and not keeps(alone, ServingPlan(units=units, rate_per_s=least)):
                continue
            plan = most_offered(alone, units, most * 0.8, self.monitor)
            if plan is not None and plan.rate_per_s is not None:
                found[item.number] = plan.rate_per_s
                best = max(best, plan.rate_per_s / item.form.devices)

    def asked_rates(self, kind: str) -> list[tuple[float, Item]]:
        """Prompts per second of units that do prompts alone, and wait for each other, by simulation; the best first."""
        found = []
        problem = self.problem
        workload = msgspec.structs.replace(prompts_of(problem.workload), requests=LONE_REQUESTS)
        targets = msgspec.structs.replace(problem.targets, tpot_s=None)
        alone = problem.replace(workload=workload, goal="rate", roles="both", rates=(), unit="s", targets=targets)
        # Where there are other kinds, this one may do nothing else.
        room = int(problem.pool(kind).devices * (_FOR_PROMPTS if len(problem.pools) == 1 else 1.0))
        # How many requests it holds is nothing to a unit that ends with their first tokens.
        forms: dict[tuple[UnitLayout, int], tuple[float, Item]] = {}
        for most, item in self.ranked("prefill", kind):
            forms.setdefault((item.form.layout, item.form.rules.tokens), (most, item))
        for most, item in itertools.islice(forms.values(), _ASKED):
            if self.over():
                break
            count = max(1, room // item.form.devices)
            units = (UnitGroup(unit=item.number, count=count),)
            plan = (
                most_offered(alone, units, count * most * 0.85, self.monitor)
                if not unpacked(self.problem, ServingPlan(units=units))
                else None
            )
            if plan is not None and plan.rate_per_s is not None:
                found.append((plan.rate_per_s / count, item))
        found.sort(key=lambda one: -one[0] / one[1].form.devices)
        return found[:_NAMED]
