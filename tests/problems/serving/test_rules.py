"""Fleets that people make by hand."""

from __future__ import annotations

import pytest

from partita.engines.search.monitor import Monitor
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.kind import SearchOptions
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.offered import most_offered
from partita.problems.serving.problem import (
    DevicePool,
    EngineRules,
    ServingPlan,
    ServingProblem,
    ServingTargets,
    ServingUnit,
    UnitGroup,
    UnitLayout,
)
from partita.problems.serving.rules import (
    RULES,
    Estimates,
    growing,
    halved_split,
    one_kind,
    rate_matching,
    smallest_units,
)
from partita.problems.serving.samples import sample_prices


def form(kind: str, tensor: int, stages: int = 1) -> ServingUnit:
    return ServingUnit(
        kind=kind,
        layout=UnitLayout(tensor=tensor, pipeline=stages),
        rules=EngineRules(requests=16, tokens=256),
        prices=sample_prices(tensor, stages),
    )


FLEET = ServingProblem(
    name="two pools",
    workload=RequestWorkload(prompt_tokens=100, output_tokens=20, requests=300),
    units=(form("a", 1), form("a", 2), form("a", 1, 2), form("b", 2)),
    pools=(DevicePool(kind="a", machines=(4,)), DevicePool(kind="b", machines=(2, 2))),
    goal="rate",
    roles="any",
    targets=ServingTargets(ttft_s=0.5, tpot_s=0.05),
)
AT_RATE = FLEET.replace(
    goal="cost", workload=RequestWorkload(prompt_tokens=100, output_tokens=20, requests=300, rate_per_s=10.0)
)


def units(groups: tuple[UnitGroup, ...]) -> list[tuple[int, str, int]]:
    return [(group.unit, group.role, group.count) for group in groups]


def test_rules_fill_every_pool() -> None:
    estimates = Estimates(FLEET)
    *_, last = growing(FLEET, next(smallest_units(FLEET, estimates)))
    assert units(last) == [(0, "both", 4), (3, "both", 2)]
    *_, last = growing(FLEET, next(halved_split(FLEET, estimates)))
    assert units(last) == [(0, "prefill", 2), (0, "decode", 2), (3, "prefill", 1), (3, "decode", 1)]
    kinds = {FLEET.units[n].kind for rule in one_kind(FLEET, estimates) for bundle in rule for n, _, _ in bundle}
    assert kinds == {"a", "b"}


def test_matched_rates_are_near_each_other() -> None:
    estimates = Estimates(FLEET)
    found = [bundle for rule in rate_matching(FLEET, estimates) for bundle in rule]
    assert found
    for (first, _, x), (second, _, y) in found:
        asked = x * estimates.lone[first].prompt_rate(FLEET.targets.ttft_s)
        made = y * estimates.lone[second].decode_rate(FLEET.targets.tpot_s)
        # One unit fewer for decoding would be too few, or there is just one.
        assert y == 1 or made * (y - 2) / y < asked


@pytest.mark.parametrize("problem", [FLEET, AT_RATE], ids=["rate", "cost"])
@pytest.mark.parametrize("baseline", RULES, ids=lambda one: one.name)
def test_every_rule_makes_a_fleet(problem: ServingProblem, baseline: object) -> None:
    options = SearchOptions()
    assert baseline.supports(problem, options) is None  # type: ignore[attr-defined]
    outcome = baseline.solve(problem, options, Monitor(30))  # type: ignore[attr-defined]
    assert outcome.plan is not None, outcome.reason
    worth = evaluate(problem, outcome.plan)
    assert (outcome.plan.rate_per_s is None) == (problem.goal == "cost")
    assert worth.devices <= problem.devices
    if problem.goal == "rate":
        assert worth.feasible


def test_a_rule_stops_where_units_are_enough() -> None:
    greedy = next(one for one in RULES if one.name == "greedy-covering")
    few = greedy.solve(AT_RATE, SearchOptions(), Monitor(30)).plan
    more = AT_RATE.replace(workload=RequestWorkload(prompt_tokens=100, output_tokens=20, requests=300, rate_per_s=40.0))
    many = greedy.solve(more, SearchOptions(), Monitor(30)).plan
    assert few is not None
    assert many is not None
    assert evaluate(AT_RATE, few).devices < evaluate(more, many).devices


def test_roles_that_are_not_asked_for_are_refused() -> None:
    split = next(one for one in RULES if one.name == "rate-matching")
    joint = next(one for one in RULES if one.name == "one-kind")
    assert "use --roles any" in str(split.supports(FLEET.replace(roles="both"), SearchOptions()))
    assert "use --roles any" in str(joint.supports(FLEET.replace(roles="split"), SearchOptions()))


def test_the_highest_rate_that_keeps_the_targets_is_found() -> None:
    plan = most_offered(FLEET, (UnitGroup(unit=0, count=4),), 1.0, Monitor(30))
    assert plan is not None
    assert plan.rate_per_s is not None
    assert evaluate(FLEET, plan).feasible
    faster = ServingPlan(units=plan.units, rate_per_s=1.1 * plan.rate_per_s)
    assert not evaluate(FLEET, faster).feasible
    # Of rates that are stated, the highest that keeps them.
    stated = FLEET.replace(rates=(1.0, 0.5 * plan.rate_per_s, 3 * plan.rate_per_s))
    assert most_offered(stated, plan.units, 1.0, Monitor(30)) == ServingPlan(
        units=plan.units, rate_per_s=0.5 * plan.rate_per_s
    )
