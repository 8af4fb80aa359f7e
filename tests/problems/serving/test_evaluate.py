"""What deployments are worth, on cases that can be worked out by hand, and against the plain engine."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from partita.costs.serving.prices import StepPrices
from partita.ground.errors import InputError
from partita.nouns.workload.workload import RequestTrace, RequestWorkload
from partita.problems.serving.evaluate import LIMITS, evaluate
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
from partita.problems.serving.samples import LOOP, SPLIT
from problems.serving.brute_force import served

ONE = ServingPlan(units=(UnitGroup(unit=0),))


def prices(**fields: Any) -> StepPrices:
    """A step takes a second, and one more for every token; the cache has room for 100 tokens."""
    stated: dict[str, Any] = {
        "tokens": (1, 2),
        "dense_s": ((1.0, 2.0),),
        "dense_mixed_s": ((1.0, 2.0),),
        "windows": (0,),
        "prompt_s": ((0.0,),),
        "decode_s": ((0.0,),),
        "chunk_s": (0.0,),
        "request_s": (0.0,),
        "step_s": (1.0,),
        "mixed_step_s": (1.0,),
        "weight_bytes": (0,),
        "cache_bytes_per_token": ((1.0,),),
        "cache_budget_bytes": (100.0,),
    }
    return StepPrices(**{**stated, **fields})


def problem(workload: RequestWorkload, rules: EngineRules | None = None, **fields: Any) -> ServingProblem:
    rules = EngineRules(requests=4, tokens=8, block_tokens=1) if rules is None else rules
    unit = ServingUnit(kind="gpu", rules=rules, prices=prices(**fields))
    return ServingProblem(name="hand", workload=workload, units=(unit,), pools=(DevicePool(kind="gpu", machines=(2,)),))


def test_one_request_alone() -> None:
    """A prompt of 12 tokens is two chunks of 8 and 4: 9 s and 5 s; each further token takes 2 s."""
    found = evaluate(problem(RequestWorkload(prompt_tokens=12, output_tokens=4, concurrency=1, requests=1)), ONE)
    assert found.feasible
    assert found.ttft_s.mean == 14.0
    assert found.tpot_s.mean == 2.0
    assert found.latency_s.p99 == 20.0
    assert found.objective == found.duration_s == 20.0
    assert found.tokens_per_s == 0.2
    assert found.tokens_per_s_per_device == 0.2
    assert found.in_flight == 1.0
    assert found.cache_tokens == 100
    (use,) = found.uses
    assert (use.steps, use.prompt_tokens, use.decode_tokens, use.busy) == (5, 12, 3, 1.0)
    assert use.cache == 0.15


def test_decodes_go_first_and_prompts_fill_the_step() -> None:
    """The second request comes during the first one's second token; its prompt shares a step with the third."""
    trace = RequestTrace(arrival_s=(0.0, 6.0), prompt_tokens=(4, 4), output_tokens=(3, 1))
    found = evaluate(problem(RequestWorkload(trace=trace)), ONE)
    # 5 s for the first prompt, 2 s for its second token, then a step of 1 + 4 tokens.
    assert found.duration_s == 13.0
    assert found.ttft_s.mean == (5.0 + 7.0) / 2
    assert found.tpot_s.mean == 4.0
    assert found.gap_s.mean == 4.0
    assert found.gap_s.p50 == pytest.approx(2.0, rel=0.01)
    assert found.gap_s.p99 == pytest.approx(6.0, rel=0.01)


def test_prompts_go_first_where_steps_do_not_mix() -> None:
    rules = EngineRules(requests=4, tokens=8, block_tokens=1, mixed=False)
    trace = RequestTrace(arrival_s=(0.0, 6.0), prompt_tokens=(4, 4), output_tokens=(3, 1))
    found = evaluate(problem(RequestWorkload(trace=trace), rules), ONE)
    # At 7 s the second prompt runs alone, for 5 s, and the first one's third token waits: 2 s more.
    assert found.duration_s == 14.0


def test_a_full_cache_puts_the_last_one_back() -> None:
    """Two requests of 6 + 5 tokens in a cache of 16: the second starts again once the first is done."""
    trace = RequestTrace(arrival_s=(0.0, 0.0), prompt_tokens=(6, 6), output_tokens=(6, 6))
    rules = EngineRules(requests=4, tokens=16, block_tokens=1)
    worth = problem(RequestWorkload(trace=trace), rules, cache_budget_bytes=(16.0,))
    found = evaluate(worth, ONE)
    assert found.preemptions == 1
    assert found.uses[0].cache == 1.0
    assert found.limits["cache"] > 0
    # Nobody is put back who was promised room for all of its tokens.
    careful = msgspec.structs.replace(worth.units[0], rules=msgspec.structs.replace(rules, reserve="whole"))
    assert evaluate(worth.replace(units=(careful,)), ONE).preemptions == 0


def test_what_was_put_back_may_find_its_cache_again() -> None:
    """Pages that nobody was given meanwhile need no computing."""
    trace = RequestTrace(arrival_s=(0.0, 0.0), prompt_tokens=(6, 6), output_tokens=(6, 6))
    rules = EngineRules(requests=4, tokens=16, block_tokens=1)
    again = problem(RequestWorkload(trace=trace), rules, cache_budget_bytes=(16.0,))
    kept = again.replace(
        units=(msgspec.structs.replace(again.units[0], rules=msgspec.structs.replace(rules, keeps=True)),)
    )
    anew, found = evaluate(again, ONE), evaluate(kept, ONE)
    assert (anew.preemptions, found.preemptions) == (1, 1)
    assert 12 <= found.uses[0].prompt_tokens < anew.uses[0].prompt_tokens
    assert found.duration_s < anew.duration_s


def in_step(**fields: Any) -> ServingProblem:
    """A unit of two attention-data groups that step together, for the most requests per second."""
    rules = EngineRules(requests=4, tokens=8, block_tokens=1)
    unit = ServingUnit(kind="gpu", rules=rules, prices=prices(attention_data=2), layout=UnitLayout(attention_data=2))
    workload = RequestWorkload(prompt_tokens=8, output_tokens=9, requests=40)
    pools = (DevicePool(kind="gpu", machines=(2,)),)
    return ServingProblem(workload=workload, units=(unit,), pools=pools, goal="rate", **fields)


def spaced(interval: int, rate: float = 0.03) -> ServingPlan:
    return ServingPlan(units=(UnitGroup(unit=0, interval=interval),), rate_per_s=rate)


def test_spaced_prompts_hold_up_decodes_less_often() -> None:
    worth = {interval: evaluate(in_step(intervals=(1, 4)), spaced(interval)) for interval in (1, 4)}
    assert worth[4].tpot_s.mean < worth[1].tpot_s.mean
    assert worth[4].ttft_s.mean > worth[1].ttft_s.mean
    # Where nobody decodes, prompts wait for nothing.
    alone = {interval: evaluate(in_step(intervals=(1, 4)), spaced(interval, 1e-4)) for interval in (1, 4)}
    assert alone[1].ttft_s == alone[4].ttft_s


def test_intervals_are_those_of_the_problem() -> None:
    (said,) = evaluate(in_step(), spaced(4)).violations
    assert "4 steps, and it is none of those" in said
    with pytest.raises(InputError, match="an interval of 4 steps is stated of attention-data 2 for prefill"):
        evaluate(in_step(), ServingPlan(units=(UnitGroup(unit=0, role="prefill", interval=4),)))
    with pytest.raises(InputError, match="interval of 2 steps is stated of one device for both"):
        evaluate(LOOP, ServingPlan(units=(UnitGroup(unit=0, interval=2),)))
    with pytest.raises(InputError, match="must begin with 1 and ascend"):
        in_step(intervals=(4, 1))
    with pytest.raises(InputError, match="chosen where the rate is looked for"):
        LOOP.replace(intervals=(1, 4))


def test_shared_prefixes_are_computed_once() -> None:
    workload = RequestWorkload(prompt_tokens=12, output_tokens=2, concurrency=1, requests=5, prefix_tokens=8)
    found = evaluate(problem(workload), ONE)
    assert found.uses[0].prompt_tokens == 12 + 4 * 4
    plain = evaluate(problem(msgspec.structs.replace(workload, prefix_tokens=0)), ONE)
    assert plain.uses[0].prompt_tokens == 5 * 12
    assert found.ttft_s.mean < plain.ttft_s.mean


def test_several_units_share_the_requests() -> None:
    workload = RequestWorkload(prompt_tokens=4, output_tokens=4, concurrency=2, requests=10)
    one, two = (evaluate(problem(workload), ServingPlan(units=(UnitGroup(unit=0, count=n),))) for n in (1, 2))
    assert two.devices == 2
    assert two.duration_s < one.duration_s
    assert two.uses[0].steps == 10 * 4


def test_groups_of_a_dense_model_are_units_of_their_own() -> None:
    """Prices of one group, and a layout of two: as two units."""
    workload = RequestWorkload(prompt_tokens=4, output_tokens=4, concurrency=2, requests=10)
    stated = problem(workload)
    unit = msgspec.structs.replace(stated.units[0], layout=UnitLayout(attention_data=2))
    apart = evaluate(stated.replace(units=(unit,)), ONE)
    two = evaluate(stated, ServingPlan(units=(UnitGroup(unit=0, count=2),)))
    assert (apart.duration_s, apart.cache_tokens) == (two.duration_s, two.cache_tokens)


def test_split_units_hand_caches_on() -> None:
    """TTFT ends with the prompt; the transfer delays the second token."""
    workload = RequestWorkload(prompt_tokens=4, output_tokens=3, concurrency=1, requests=1)
    stated = problem(workload, moved_bytes_per_token=(2.0,))
    stated = stated.replace(roles="any", link_bytes_per_s=4.0, link_s=1.0)
    plan = ServingPlan(units=(UnitGroup(unit=0, role="prefill"), UnitGroup(unit=0, role="decode")))
    found = evaluate(stated, plan)
    # 5 s of prompt; 1 s + 4 tokens of 2 bytes at 4 bytes/s; two tokens of 2 s.
    assert found.feasible
    assert found.ttft_s.mean == 5.0
    assert found.duration_s == 5.0 + 3.0 + 4.0
    assert found.limits["link"] == pytest.approx(3 / 12)
    assert [use.decode_tokens for use in found.uses] == [0, 2]


def test_stages_hand_steps_on() -> None:
    """Three prompts of 2 tokens in one step: 7 s in a stage, and 2 s + 6 · 0.5 s on to the next, for each of them."""
    workload = RequestWorkload(prompt_tokens=2, output_tokens=1, concurrency=3, requests=3)
    tables: dict[str, Any] = dict.fromkeys(("dense_s", "dense_mixed_s"), ((1.0, 2.0),) * 2)
    tables |= dict.fromkeys(("prompt_s", "decode_s"), ((0.0,),) * 2)
    tables |= dict.fromkeys(("chunk_s", "request_s"), (0.0,) * 2) | dict.fromkeys(
        ("step_s", "mixed_step_s"), (1.0,) * 2
    )
    tables |= {"weight_bytes": (0, 0), "cache_bytes_per_token": ((1.0,),) * 2, "cache_budget_bytes": (100.0,) * 2}
    stated = prices(hand_on_s=2.0, hand_on_s_per_token=0.5, **tables)
    rules = EngineRules(requests=4, tokens=8, block_tokens=1)
    unit = ServingUnit(kind="gpu", layout=UnitLayout(pipeline=2), rules=rules, prices=stated)
    found = evaluate(
        ServingProblem(workload=workload, units=(unit,), pools=(DevicePool(kind="gpu", machines=(2,)),)), ONE
    )
    assert found.duration_s == 7.0 + 5.0 + 7.0
    assert found.limits["link"] == pytest.approx(5 / 19)


def test_shares_of_time_sum_to_one() -> None:
    for stated, plan in ((LOOP, ONE), (SPLIT, ONE), (LOOP, ServingPlan(units=(UnitGroup(unit=3),)))):
        found = evaluate(stated, plan)
        assert tuple(found.limits) == LIMITS
        assert sum(found.limits.values()) == pytest.approx(1.0)
        assert min(found.limits.values()) >= 0


def test_what_limits_is_seen() -> None:
    """Large batches are arithmetic, long contexts are the cache's reads, few seats are the queue."""
    long = LOOP.replace(workload=RequestWorkload(prompt_tokens=2000, output_tokens=50, concurrency=1))
    assert evaluate(long, ONE).limits["decode bandwidth"] > evaluate(LOOP, ONE).limits["decode bandwidth"]
    seats = msgspec.structs.replace(LOOP.units[0].rules, requests=1)
    few = LOOP.replace(units=(msgspec.structs.replace(LOOP.units[0], rules=seats),))
    assert evaluate(few, ONE).limits["queue"] > 0.5
    assert evaluate(LOOP, ONE).limits["weights"] > 0.2


def test_times_are_those_of_the_plain_engine() -> None:
    """Percentiles, and the mean number in flight."""
    run = served(LOOP, ONE)
    found = evaluate(LOOP, ONE)
    ttft = [one.tokens[0] - one.arrival for one in run.requests]
    tpot = [(one.tokens[-1] - one.tokens[0]) / (one.output - 1) for one in run.requests]
    assert found.ttft_s.p90 == pytest.approx(float(np.quantile(ttft, 0.9)))
    assert found.tpot_s.p50 == pytest.approx(float(np.quantile(tpot, 0.5)))
    latency = sum(one.tokens[-1] - one.arrival for one in run.requests)
    assert found.in_flight == pytest.approx(latency / run.now)
    assert found.requests_per_s == pytest.approx(len(run.requests) / run.now)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (ServingTargets(ttft_s=1e-6), "TTFT at percentile 0.9 is .* at most 1e-06 s"),
        (ServingTargets(tpot_s=1e-6, percentile=0.5), "TPOT at percentile 0.5"),
    ],
)
def test_targets_that_are_missed_are_violations(targets: ServingTargets, said: str) -> None:
    import re

    found = evaluate(LOOP.replace(targets=targets), ONE)
    assert not found.feasible
    assert re.search(said, found.violations[0])
    assert evaluate(LOOP.replace(targets=ServingTargets(ttft_s=1e6, tpot_s=1e6)), ONE).feasible


def test_deployments_that_are_not_allowed() -> None:
    assert (
        "5 devices, and there are 4" in evaluate(LOOP, ServingPlan(units=(UnitGroup(unit=0, count=5),))).violations[0]
    )
    both = ServingPlan(units=(UnitGroup(unit=0), UnitGroup(unit=1)))
    assert "a deployment has one form that does both" in evaluate(LOOP, both).violations[0]
    pair = ServingPlan(units=(UnitGroup(unit=0, role="prefill"), UnitGroup(unit=1, role="decode")))
    assert not evaluate(LOOP, pair).feasible
    assert evaluate(SPLIT, pair).feasible


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (ServingPlan(units=()), "at least one group"),
        (ServingPlan(units=(UnitGroup(unit=0, count=0),)), "at least one"),
        (ServingPlan(units=(UnitGroup(unit=9),)), "names form 9"),
        (ServingPlan(units=(UnitGroup(unit=0, role="decode"),)), "needs units that take requests"),
        (ServingPlan(units=(UnitGroup(unit=0, role="prefill"),)), "units for decoding"),
    ],
)
def test_what_is_no_deployment_is_refused(plan: ServingPlan, said: str) -> None:
    with pytest.raises(InputError, match=said):
        evaluate(LOOP, plan)


def test_requests_longer_than_the_cache_are_refused() -> None:
    long = LOOP.replace(workload=RequestWorkload(prompt_tokens=4096, output_tokens=2, concurrency=1))
    with pytest.raises(InputError, match="4096 prompt and 2 output tokens is longer than the cache of one device"):
        evaluate(long, ONE)
    # The cache of two devices has room.
    assert evaluate(long, ServingPlan(units=(UnitGroup(unit=1),))).feasible


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"units": ()}, "no units to choose from"),
        ({"pools": LOOP.pools * 2}, "one for each kind"),
        ({"goal": "rate"}, "looks for the rate"),
        ({"goal": "cost"}, "looks for the cheapest devices at a rate"),
        ({"rates": (2.0, 1.0)}, "must ascend"),
        ({"link_bytes_per_s": 0.0}, "link_bytes_per_s is 0.0"),
        ({"targets": None}, None),
    ],
)
def test_problems_are_checked(fields: dict[str, Any], said: str | None) -> None:
    if said is None:
        for bad in ({"ttft_s": 0.0}, {"tpot_s": -1.0}, {"percentile": 0.0}, {"percentile": 1.5}):
            with pytest.raises(InputError):
                ServingTargets(**bad)
        return
    with pytest.raises(InputError, match=said):
        LOOP.replace(**fields)


def test_prices_and_degrees_go_together() -> None:
    unit = msgspec.structs.replace(LOOP.units[0], layout=UnitLayout(pipeline=2))
    with pytest.raises(InputError, match="prices of 1 stages, and its pipeline degree is 2"):
        LOOP.replace(units=(unit,))
    grouped = msgspec.structs.replace(LOOP.units[0], prices=prices(attention_data=2))
    with pytest.raises(InputError, match="2 attention-data groups"):
        LOOP.replace(units=(grouped,))
    for bad in ({"requests": 0}, {"tokens": 0}, {"block_tokens": 0}, {"promise": 2.0}):
        with pytest.raises(InputError):
            EngineRules(**bad)
