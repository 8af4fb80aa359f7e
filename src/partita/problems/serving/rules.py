"""Fleets that people make by hand.

Each rule says which bundles of units it adds, in which order; as many of each are added as there are devices for, or,
where the cheapest fleet for a rate is looked for, as are enough in the simulator. Rates of units are estimated as in
``partita.problems.serving.lone``.

Sources: NVIDIA, *aiconfigurator* documentation: disaggregated serving, rate matching of prefill and decode workers;
Borzunov et al., "Distributed Inference and Fine-tuning of Large Language Models Over The Internet" (NeurIPS 2023,
Petals) and Ryabinin et al., "SWARM Parallelism" (ICML 2023): servers join one by one where most is missing.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.lone import Lengths, Lone
from partita.problems.serving.offered import most_offered
from partita.problems.serving.options import Outcome, Solver
from partita.problems.serving.packing import unpacked
from partita.problems.serving.problem import Role, ServingPlan, ServingProblem, ServingTargets, UnitGroup
from partita.problems.serving.work import fitting

#: Units that are added together: form, role, how many.
Bundle = tuple[tuple[int, Role, int], ...]
#: Bundles in the order in which they are added.
Rule = Sequence[Bundle]

#: What is left of the estimated rates of units for prompts and for decoding (aiconfigurator).
_PREFILL_SHARE, _DECODE_SHARE = 0.9, 0.92
#: Units of each role that are matched at most.
_MOST_MATCHED = 16
#: Forms of a kind that a rule simulates.
_TRIED = 2
#: No promises.
NONE = ServingTargets()


class Estimates:
    """The forms that fit, with what each does by itself."""

    def __init__(self, problem: ServingProblem) -> None:
        workload = problem.workload if problem.goal != "rate" else problem.workload.at_rate(1.0)
        self.problem, lengths = problem, Lengths.of(workload.drawn())
        self.lone = {
            number: Lone(form, lengths) for number, form in enumerate(problem.units) if fitting(problem, form) is None
        }

    def of_kind(self, kind: str) -> list[int]:
        """Forms on a kind of device."""
        return [number for number in self.lone if self.problem.units[number].kind == kind]

    def usual(self, kind: str, key: Callable[[int], tuple[float, ...]]) -> int | None:
        """The form of a kind that comes first, and among equals the one with an engine's usual sizes: the largest."""
        forms = self.of_kind(kind)
        rules = self.problem.units
        largest = {number: (-rules[number].rules.tokens, -rules[number].rules.requests) for number in forms}
        return min(forms, key=lambda number: (*key(number), *largest[number]), default=None)

    def ranked(self, numbers: Iterable[int]) -> list[int]:
        """Forms by what they take per device, the most first, and among equals those with an engine's usual sizes."""
        rules = [form.rules for form in self.problem.units]
        return sorted(numbers, key=lambda n: (-self.per_device(n), -rules[n].requests, -rules[n].tokens))

    def per_device(self, number: int) -> float:
        """Requests per second and device, doing both."""
        return self.lone[number].rate(self.problem.targets) / self.problem.units[number].devices

    def together(self, groups: Sequence[UnitGroup], targets: ServingTargets) -> float:
        """Requests per second that units are estimated to take, where prompts and decoding wait for each other."""
        both = prompts = decodes = 0.0
        for group in groups:
            lone = self.lone[group.unit]
            if group.role == "both":
                both += group.count * lone.rate(targets)
            elif group.role == "prefill":
                prompts += group.count * lone.prompt_rate(targets.ttft_s)
            else:
                decodes += group.count * lone.decode_rate(targets.tpot_s)
        return both + min(prompts, decodes)

    def guess(self, groups: Sequence[UnitGroup]) -> float:
        """The same for the problem's targets; what is estimated to keep none may still do so at a low rate."""
        return self.together(groups, self.problem.targets) or self.together(groups, NONE) / 10


def smallest_units(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """In every pool the smallest form that holds the model."""

    def size(number: int) -> tuple[float, ...]:
        form = problem.units[number]
        return form.devices, form.layout.pipeline

    yield _of_each_pool(problem, estimates, size)


def widest_tensor(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """In every pool the largest tensor-parallel degree."""

    def width(number: int) -> tuple[float, ...]:
        form = problem.units[number]
        return -form.layout.tensor, form.devices

    yield _of_each_pool(problem, estimates, width)


def deepest_pipeline(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """In every pool the most stages, of equally many layers each."""

    def depth(number: int) -> tuple[float, ...]:
        form = problem.units[number]
        return -form.layout.pipeline, form.devices

    yield _of_each_pool(problem, estimates, depth)


def one_kind(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """Of each kind by itself the forms that are estimated to take most requests per device."""
    for pool in problem.pools:
        for number in estimates.ranked(estimates.of_kind(pool.kind))[:_TRIED]:
            yield [((number, "both", 1),)]


def greedy_covering(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """Unit after unit, each the one that is estimated to add most for its devices."""
    yield [((number, "both", 1),) for number in estimates.ranked(estimates.lone) if estimates.per_device(number) > 0]


def halved_split(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """In every pool as many of the smallest units for prompts as for decoding."""
    rule = next(smallest_units(problem, estimates))
    yield [((number, "prefill", 1), (number, "decode", 1)) for ((number, _, _),) in rule]


def rate_matching(problem: ServingProblem, estimates: Estimates) -> Iterator[Rule]:
    """Units for prompts and for decoding in the numbers whose estimated rates match best: most requests of all devices.

    Once by what prompts take, and once with what they wait for each other.
    """
    targets, units = problem.targets, problem.units
    decodes = {n: _DECODE_SHARE * lone.decode_rate(targets.tpot_s) for n, lone in estimates.lone.items()}
    for asked in (
        {n: lone.waiting_rate(targets.ttft_s) for n, lone in estimates.lone.items()},
        {n: _PREFILL_SHARE * lone.prompt_rate(targets.ttft_s) for n, lone in estimates.lone.items()},
    ):
        first, second = _best_forms(problem, estimates, asked), _best_forms(problem, estimates, decodes)
        matched: list[tuple[float, Bundle]] = []
        for one, two in itertools.product(first, second):
            for x in range(1, min(_MOST_MATCHED, problem.devices // units[one].devices) + 1):
                # As many units for decoding as keep up, and one fewer.
                enough = math.ceil(x * asked[one] / decodes[two])
                for y in {max(1, enough - 1), enough}:
                    bundle: Bundle = ((one, "prefill", x), (two, "decode", y))
                    if room_for(problem, bundle, Counter()):
                        matched.append((min(x * asked[one], y * decodes[two]), bundle))
        for _, bundle in sorted(matched, key=lambda found: found[0], reverse=True)[:_TRIED]:
            yield [bundle]


def _best_forms(problem: ServingProblem, estimates: Estimates, rates: dict[int, float]) -> list[int]:
    """Of each kind the forms of most rate per device, of different degrees."""
    units, found = problem.units, []
    for pool in problem.pools:
        own = [n for n in estimates.of_kind(pool.kind) if rates[n] > 0]
        own.sort(key=lambda n: (-rates[n] / units[n].devices, -units[n].rules.requests, -units[n].rules.tokens))
        layouts = dict.fromkeys(units[n].layout for n in own)
        found += [next(n for n in own if units[n].layout == layout) for layout in list(layouts)[:_TRIED]]
    return found


def _of_each_pool(
    problem: ServingProblem, estimates: Estimates, key: Callable[[int], tuple[float, ...]]
) -> list[Bundle]:
    found = [estimates.usual(pool.kind, key) for pool in problem.pools]
    return [((number, "both", 1),) for number in found if number is not None]


class ByRule(Solver):
    """The units that a rule adds, as many as there is room for or as are enough."""

    name = summary = ""

    def __init__(
        self,
        name: str,
        summary: str,
        rules: Callable[[ServingProblem, Estimates], Iterator[Rule]],
        *,
        split: bool = False,
    ) -> None:
        self.name, self.summary, self.rules, self.split = name, summary, rules, split

    def supports(self, problem: ServingProblem, options: SearchOptions) -> str | None:
        if self.split and problem.roles == "both":
            return "it has units for prompts and for decoding, and here units do all of a request; use --roles any"
        if not self.split and problem.roles == "split":
            return "its units do all of a request, and here prompts and decoding are apart; use --roles any"
        return None

    def solve(self, problem: ServingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        reasons = [fitting(problem, form) for form in problem.units]
        if all(reasons):
            return Outcome(None, reason=f"no form fits: {reasons[-1]}")
        best: tuple[bool, float] = (False, -math.inf)
        plan: ServingPlan | None = None
        for rule in self.rules(problem, Estimates(problem)):
            if monitor.stopping and plan is not None:
                break
            found = planned(problem, rule, monitor)
            if found is None:
                continue
            worth = evaluate(problem, found)
            if plan is None or (worth.feasible, -worth.objective) > best:
                best, plan = (worth.feasible, -worth.objective), found
        return Outcome(plan, reason="" if plan is not None else "no units that it would take keep the targets")


def planned(problem: ServingProblem, rule: Rule, monitor: Monitor) -> ServingPlan | None:
    """The fleet of a rule; None where it takes no units, or these keep the targets at no rate."""
    fleets = list(growing(problem, rule))
    if not fleets:
        return None
    if problem.goal == "rate":
        return most_offered(problem, fleets[-1], Estimates(problem).guess(fleets[-1]), monitor)
    if problem.goal == "time":
        return ServingPlan(units=fleets[-1])
    # The smallest of them that is enough, if those behind it are enough, too.
    low, high = 0, len(fleets) - 1
    while low < high and not monitor.stopping:
        middle = (low + high) // 2
        enough = evaluate(problem, ServingPlan(units=fleets[middle])).feasible
        low, high = (low, middle) if enough else (middle + 1, high)
    return ServingPlan(units=fleets[high])


def growing(problem: ServingProblem, rule: Rule) -> Iterator[tuple[UnitGroup, ...]]:
    """Fleets that grow by a bundle each time, while there is room."""
    counts: Counter[tuple[int, Role]] = Counter()
    for bundle in rule:
        while room_for(problem, bundle, counts):
            for number, role, count in bundle:
                counts[number, role] += count
            yield tuple(UnitGroup(unit=n, role=role, count=count) for (n, role), count in counts.items())
        if problem.goal == "time" and counts:
            # Without a goal a deployment is of one form, or of one for each role.
            return


def room_for(problem: ServingProblem, bundle: Bundle, counts: Counter[tuple[int, Role]]) -> bool:
    """Whether machines have room for a bundle beside what is there."""
    groups = [UnitGroup(unit=n, role=role, count=count) for (n, role), count in counts.items()]
    groups += [UnitGroup(unit=n, role=role, count=count) for n, role, count in bundle]
    return not unpacked(problem, ServingPlan(units=tuple(groups)))


#: Those that are mostly best come first.
RULES: tuple[Solver, ...] = (
    ByRule(
        "rate-matching",
        "units for prompts and for decoding in numbers that match their estimated rates; ignores other mixes",
        rate_matching,
        split=True,
    ),
    ByRule(
        "greedy-covering",
        "unit after unit, each the one that adds most for its devices, by estimates; ignores queues and what is left",
        greedy_covering,
    ),
    ByRule("one-kind", "the best form of one kind of device, by estimates; ignores the other kinds", one_kind),
    ByRule(
        "widest-tensor",
        "in every pool the largest tensor-parallel degree; ignores what exchanges cost",
        widest_tensor,
    ),
    ByRule(
        "smallest-units",
        "in every pool as many units as possible, each just large enough for the model; ignores latency",
        smallest_units,
    ),
    ByRule(
        "halved-split",
        "in every pool as many of the smallest units for prompts as for decoding; ignores what either takes",
        halved_split,
        split=True,
    ),
    ByRule(
        "deepest-pipeline",
        "in every pool the most stages of equally many layers; ignores how long requests are on their way",
        deepest_pipeline,
    ),
)
