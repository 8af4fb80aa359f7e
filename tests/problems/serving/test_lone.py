"""Estimates of what one unit does."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from instances.serving import random_prices
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.lone import Lengths, Lone
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
from partita.problems.serving.samples import sample_prices

LENGTHS = Lengths(100, 20)


def lone(tensor: int = 1, stages: int = 1, *, requests: int = 16, tokens: int = 256) -> Lone:
    form = ServingUnit(
        kind="gpu",
        layout=UnitLayout(tensor=tensor, pipeline=stages),
        rules=EngineRules(requests=requests, tokens=tokens),
        prices=sample_prices(tensor, stages),
    )
    return Lone(form, LENGTHS)


def test_a_prompt_takes_its_chunks() -> None:
    one = lone()
    prices = one.form.prices
    assert one.prompt_s() == pytest.approx((prices.step_time_s(0, [(100, 0)], []),) * 2)
    parts = sum(prices.step_time_s(0, [chunk], []) for chunk in ((60, 0), (40, 60)))
    assert lone(tokens=60).prompt_s()[0] == pytest.approx(parts)


@pytest.mark.parametrize("tokens", [4, 16, 256])
def test_a_prompt_alone_takes_what_it_takes_in_a_run(tokens: int) -> None:
    """Beside a group without requests, which is filled up to its chunks or not."""
    draws, uneven = random.Random(1), 0
    for _ in range(40):
        prices = random_prices(draws, groups=2)
        prices = msgspec.structs.replace(prices, cache_budget_bytes=(1e6,), host_s=0.0, host_request_s=0.0)
        rules = EngineRules(requests=16, tokens=tokens)
        form = ServingUnit(kind="gpu", layout=UnitLayout(attention_data=2), rules=rules, prices=prices)
        workload = RequestWorkload(prompt_tokens=100, output_tokens=1, concurrency=1, requests=1)
        problem = ServingProblem(workload=workload, units=(form,), pools=(DevicePool(kind="gpu", machines=(2,)),))
        found = evaluate(problem, ServingPlan(units=(UnitGroup(unit=0),)))
        one = Lone(form, Lengths(100, 1))
        assert one.prompt_alone_s() == pytest.approx(found.duration_s)
        uneven += prices.uneven
    assert uneven >= 10


def test_stages_share_a_prompt_out_and_requests_wait_for_all_of_them() -> None:
    busy, latency = lone(stages=2).prompt_s()
    assert latency == pytest.approx(2 * busy + 0.0001)


def test_a_unit_that_does_both_spends_its_time_on_both() -> None:
    one, targets = lone(), ServingTargets()
    batch = one.room
    assert batch == 16
    rate = one.rate(targets)
    assert rate * (one.prompt_s()[0] + LENGTHS.output * one.step_s(batch) / batch) == pytest.approx(1.0)
    # Little's law: so many are in it, each for its tokens.
    waits = one.step_s(batch) + batch * one.prompt_s()[0] / LENGTHS.output
    assert rate * LENGTHS.output * waits == pytest.approx(batch)


def test_looser_limits_let_more_in() -> None:
    one = lone()
    rates = [one.rate(ServingTargets(tpot_s=limit)) for limit in (0.001, 0.02, 0.04, 0.08, 10.0)]
    assert rates[0] == 0.0
    assert all(a <= b for a, b in itertools.pairwise(rates))
    assert rates[-1] == one.rate(ServingTargets())
    assert one.decode_rate(0.001) == 0.0
    assert one.decode_rate(None) > one.rate(ServingTargets())


def test_a_prompt_that_takes_too_long_alone_keeps_no_target() -> None:
    one = lone()
    busy, latency = one.prompt_s()
    assert one.prompt_rate(0.99 * latency) == 0.0 == one.rate(ServingTargets(ttft_s=0.99 * latency))
    assert one.prompt_rate(1.01 * latency) == pytest.approx(1 / busy)


def test_seats_and_the_cache_limit_how_many_run() -> None:
    assert lone(requests=4).room == 4
    assert lone(requests=1000).room == 4096 // LENGTHS.held
