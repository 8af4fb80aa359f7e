"""What is said of a fleet beside its run: the parts of its gap, and what it does with other arrivals."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
import pytest

import partita as pt
from partita.engines.search.monitor import Monitor
from partita.nouns.workload.workload import RequestTrace, RequestWorkload
from partita.problems.serving import changes
from partita.problems.serving.changes import other_arrivals
from partita.problems.serving.evaluate import evaluate, keeps
from partita.problems.serving.fleets import gap_parts
from partita.problems.serving.offered import most_offered
from partita.problems.serving.problem import ServingPlan, ServingTargets, UnitGroup
from partita.problems.serving.samples import LOOP
from problems.serving.samples import random_fleet


def test_a_gap_has_two_parts() -> None:
    parted = 0
    for seed in range(16):
        problem = random_fleet(seed)
        result = pt.solve(problem)
        if result.plan is None or result.objective is None:
            continue
        # The bound of every fleet, as where a proof by simulating them all is out of reach.
        proven = pt.bound(problem, method="fleets")
        parts, bound = gap_parts(problem, result.plan, result.objective, proven), proven.value
        if problem.goal != "rate":
            assert parts is None
            continue
        if parts is None:
            continue
        assert parts.queues >= 0
        assert bound <= parts.without_queues_s * (1 + 1e-9) <= result.objective * (1 + 2e-9)
        assert parts.units is not None
        assert parts.queues + parts.units == pytest.approx((result.objective - bound) / result.objective, abs=1e-9)
        parted += parts.queues > 0
    assert parted >= 3


@pytest.mark.parametrize("rate", [None, 1.0])
def test_without_a_limit_on_waiting_units_take_what_they_serve(
    rate: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_changed", lambda priced, asked, plan: [])
    workload = RequestWorkload(prompt_tokens=300, output_tokens=4, requests=300, rate_per_s=rate)
    unit = "s" if rate is None else "devices"
    problem = LOOP.replace(workload=workload, goal="cost" if rate else "rate", unit=unit)
    result = pt.solve(problem, time_limit_s=0.5)
    assert result.evaluation is not None
    if rate is None:
        assert "all requests come at once, as nothing says how long they may wait" in str(result)
        return
    told = [one for one in changes.change_sentences(cast("Any", None), result, Monitor(60)) if "the same units" in one]
    taken = re.search(r"would take ([0-9.]+) requests/s", told[0])
    assert taken is not None
    assert result.plan is not None
    free = problem.replace(goal="rate", unit="s", workload=msgspec.structs.replace(workload, rate_per_s=None))
    together = evaluate(free, ServingPlan(units=result.plan.units, rate_per_s=1e9))
    assert rate < float(taken[1]) <= together.requests_per_s * 1.001


def test_a_rate_that_other_arrivals_are_kept_at_is_named() -> None:
    workload = RequestWorkload(prompt_tokens=300, output_tokens=4, requests=600)
    problem = LOOP.replace(workload=workload, goal="rate", targets=ServingTargets(ttft_s=0.5))
    units = (UnitGroup(unit=0),)
    plan = most_offered(problem, units, 10.0, Monitor(60))
    assert plan is not None
    assert plan.rate_per_s is not None
    kept = []
    for more in (1.0, 0.5):
        rate = plan.rate_per_s * more
        found = list(other_arrivals(problem, plan, rate, Monitor(60)))
        kept.append(re.search(r"targets are kept (\d) times", found[0]))
        if len(found) > 1:
            named = re.search(r"kept if ([0-9.]+) requests/s come", found[1])
            assert named is not None
            slower = ServingPlan(units=units, rate_per_s=float(named[1]) * 0.999)
            draws = [msgspec.structs.replace(workload, seed=workload.seed + seed) for seed in range(4)]
            assert all(keeps(problem.replace(workload=one), slower) for one in draws)
            assert slower.rate_per_s is not None
            assert slower.rate_per_s < rate
    counts = [int(one[1]) for one in kept if one is not None]
    assert counts[0] < 3 == counts[1]


def test_changes_are_told_from_the_rate_of_the_plan_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = RequestWorkload(prompt_tokens=300, output_tokens=40, requests=800)
    problem = LOOP.replace(workload=workload, goal="rate", targets=ServingTargets(ttft_s=0.5))
    result = pt.solve(problem)
    assert result.plan is not None
    assert result.evaluation is not None
    one = (msgspec.structs.replace(result.plan.units[0], count=1),)
    monkeypatch.setattr(changes, "_changed", lambda priced, asked, plan: [("with one", asked, one)])
    # A run so short that much of it is what the last requests still take.
    monkeypatch.setattr(changes, "_REQUESTS", 200)
    sentences = list(changes.change_sentences(cast("Any", None), result, Monitor(60)))
    told = re.search(r"with one, they would take ([0-9.]+) requests/s \(([+-][0-9]+)%\)", sentences[-1])
    assert told is not None
    assert float(told[1]) == pytest.approx(result.evaluation.requests_per_s * (1 + float(told[2]) / 100), rel=0.01)


def test_recorded_arrivals_are_not_drawn_anew_and_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_REQUESTS", 20)
    monkeypatch.setattr(changes, "_changed", lambda priced, asked, plan: [])
    # The first half comes four times as fast as the second.
    times = tuple(0.05 * place for place in range(100)) + tuple(5.0 + 0.2 * place for place in range(100))
    trace = RequestTrace(arrival_s=times, prompt_tokens=(300,) * 200, output_tokens=(8,) * 200)
    rate = RequestWorkload(trace=trace).drawn().arrival_s[-1]
    workload = RequestWorkload(trace=trace, rate_per_s=199 / float(rate))
    problem = LOOP.replace(workload=workload, goal="cost", targets=ServingTargets(ttft_s=0.5), unit="devices")
    events: list[pt.Event] = []
    result = pt.solve(problem, progress=events.append)
    assert {event.unit for event in events} == {"devices"}
    sentences = list(changes.change_sentences(cast("Any", None), result, Monitor(60)))
    assert not any("other arrivals" in sentence for sentence in sentences)
    told = re.search(r"the same units would take ([0-9.]+) requests/s; ([0-9.]+) are asked for", sentences[-1])
    assert told is not None
    assert float(told[1]) >= float(told[2]) * 0.98
