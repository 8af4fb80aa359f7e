"""Capacities of fleets against simulations of them, where caches are short and requests are put back."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from instances.serving import random_prices
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.nouns.workload.workload import LengthShare, RequestWorkload
from partita.problems.serving.bounds import FleetCapacity
from partita.problems.serving.capacities import UnitCapacity
from partita.problems.serving.evaluate import evaluate, simulated
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.offered import prompts_of
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
from partita.problems.serving.samples import LOOP
from partita.problems.serving.whole_fleets import WholeFleets, least_whole


def form(draws: random.Random, longest: int) -> ServingUnit:
    """One whose cache holds a few requests, mostly without windows."""
    stages, groups, block = draws.choice([1, 1, 2, 3]), draws.choice([1, 1, 2]), draws.choice([1, 2, 4, 16])
    prices = random_prices(draws, stages, groups)
    forms = 1 if draws.random() < 0.75 else len(prices.windows)
    scale = 10 ** draws.uniform(-3, 1)
    factors = {"prompt_s": scale * 10 ** draws.uniform(-2, 0), "decode_s": scale, "cache_bytes_per_token": 1.0}
    tables = {
        name: tuple(tuple(value * factor for value in row[:forms]) for row in getattr(prices, name))
        for name, factor in factors.items()
    }
    windows = (0,) if forms == 1 else prices.windows
    token = sum(tables["cache_bytes_per_token"][0])
    size = float(int(token * block * (longest // block + 1) * draws.choice([1, 1.5, 2.5, 4, 8])) + block)
    prices = msgspec.structs.replace(
        prices, windows=windows, cache_budget_bytes=(size,) * stages, moved_bytes_per_token=(1.0,) * forms, **tables
    )
    rules = EngineRules(
        requests=draws.randint(1, 30),
        tokens=draws.choice([4, 16, 64, 256]),
        block_tokens=block,
        mixed=draws.random() < 0.7,
        chunked=draws.random() < 0.7,
        reserve=draws.choice(["chunk", "chunk", "prompt", "whole"]),
        keeps=draws.random() < 0.5,
    )
    layout = UnitLayout(pipeline=stages, attention_data=groups)
    return ServingUnit(kind="gpu", layout=layout, rules=rules, prices=prices)


def drawn(seed: int) -> tuple[ServingProblem, ServingPlan]:
    """A fleet that does all of requests, or one with roles, and a problem whose targets it just keeps."""
    draws = random.Random(seed)
    bars = [(draws.randint(5, 120), draws.randint(2, 80), draws.randint(1, 3) / 4) for _ in range(3)]
    bars = bars[: draws.choice([1, 1, 3])]
    load = {"concurrency": draws.randint(1, 40)} if draws.random() < 0.5 else {"rate_per_s": draws.choice([0.05, 5.0])}
    workload = RequestWorkload(
        histogram=tuple(LengthShare(prompt_tokens=p, output_tokens=o, share=s) for p, o, s in bars),
        requests=draws.randint(10, 80),
        seed=seed % 10,
        **load,
    )
    longest = max(prompt + output for prompt, output, _ in bars)
    units = tuple(form(draws, longest) for _ in range(draws.randint(1, 2)))
    problem = ServingProblem(
        workload=workload,
        units=units,
        pools=(DevicePool(kind="gpu", machines=(64,)),),
        roles="any",
        link_bytes_per_s=draws.choice([None, 8.0, 1e3]),
        targets=ServingTargets(percentile=draws.choice([0.5, 0.9, 1.0])),
    )
    counts = draws.randint(1, 2), draws.randint(1, 2)
    plan = ServingPlan(
        units=(UnitGroup(unit=0, count=counts[0]),)
        if draws.random() < 0.5
        else (
            UnitGroup(unit=0, count=counts[0], role="prefill"),
            UnitGroup(unit=len(units) - 1, count=counts[1], role="decode"),
        )
    )
    worth = evaluate(problem, plan)
    limits = {
        name: value * (1 + 1e-9) if value > 0 and draws.random() < 0.6 else None
        for name, value in (("ttft_s", worth.ttft_at), ("tpot_s", worth.tpot_at))
    }
    return problem.replace(targets=msgspec.structs.replace(problem.targets, **limits)), plan


@pytest.mark.parametrize("count", [70, pytest.param(200, marks=pytest.mark.slow)])
def test_no_fleet_does_more_than_its_units_capacities(count: int) -> None:
    tried = preempted = near = 0
    for seed in range(count):
        try:
            problem, plan = drawn(seed)
        except InputError:
            continue
        worth, bound = evaluate(problem, plan), FleetBound(problem)
        assert worth.feasible
        counts = [
            sum(group.count for group in plan.units if (group.unit, group.role) == (item.number, item.role))
            for item in bound.items
        ]
        least = bound.least_of(counts)
        assert least <= worth.objective * (1 + 1e-9), seed
        assert bound.too_fast is None, seed
        if seed % 10 == 0:
            assert least_whole(bound, lambda: False) <= worth.objective * (1 + 1e-9), seed
        tried += 1
        preempted += worth.preemptions > 0
        near += least > 0.8 * worth.objective
    # What is tried is near enough to the bound to break one that says too much.
    assert min(tried / 0.75, preempted / 0.25, near / 0.05) > count


@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_no_first_token_is_sooner_than_that_of_a_request_alone(count: int) -> None:
    """Of whichever request, between others or not; the least is near what is seen, through pipelines in chunks and
    where groups step together.
    """
    tried = near = grouped = uneven = 0
    for seed in range(count):
        try:
            problem, plan = drawn(seed)
        except InputError:
            continue
        requests = simulated(problem, plan).requests
        bound = FleetBound(problem)
        least = np.array(
            [
                UnitCapacity(problem, problem.form(group.unit), bound.drawn, bound.kinds).first_token_s
                for group in plan.units
                if group.role != "decode"
            ]
        ).min(0)
        for kind, (prompt, output) in enumerate(zip(bound.kinds.prompt, bound.kinds.output, strict=True)):
            own = (requests.prompt == prompt) & (requests.output == output)
            first = (requests.first - requests.arrival)[own]
            assert (first >= least[kind] * (1 - 1e-9)).all(), seed
            chunks = prompt > problem.form(plan.units[0].unit).rules.tokens
            staged = problem.form(plan.units[0].unit).prices.stages > 1
            tried += bool(chunks and staged)
            close = first.min() < 1.25 * least[kind]
            near += bool(chunks and staged and close)
            together = problem.form(plan.units[0].unit).prices.attention_data > 1
            grouped += bool(together and close)
            uneven += bool(problem.form(plan.units[0].unit).prices.uneven and close)
    assert tried > count / 4
    assert near > count / 30
    assert grouped > count / 11
    assert uneven > count / 40


def test_whole_units_are_bounded_at_least_as_high_as_values_by_themselves() -> None:
    """Three units for prompts and for decoding of unlike rates: no row of values sees that one too many is missing."""
    problem, _ = drawn(4)
    problem = problem.replace(targets=ServingTargets(), pools=(DevicePool(kind="gpu", machines=(4, 4, 4)),))
    bound = FleetBound(problem)
    assert 0 < bound.least() <= WholeFleets(bound).least(lambda: False) * (1 + 2e-3)
    assert FleetCapacity().bound(problem, Monitor()).value >= bound.least()


@pytest.mark.parametrize("count", [40, pytest.param(600, marks=pytest.mark.slow)])
def test_units_for_prompts_are_idle_at_the_end(count: int) -> None:
    """Of units for prompts and for decoding on no more devices than they take, in short runs."""
    tried = raised = 0
    for seed in range(count):
        try:
            problem, plan = drawn(seed)
        except InputError:
            continue
        if len(plan.units) < 2:
            continue
        devices = sum(problem.form(group.unit).devices * group.count for group in plan.units)
        problem = problem.replace(roles="split", pools=(DevicePool(kind="gpu", machines=(devices,)),))
        worth, bound = evaluate(problem, plan), FleetBound(problem)
        plain, least = WholeFleets(bound).least(lambda: False), least_whole(bound, lambda: False)
        assert plain <= least * (1 + 1e-3), seed
        assert least <= worth.objective * (1 + 1e-9), seed
        tried += 1
        raised += least > 1.01 * plain
    assert tried > count / 5
    assert raised > count / 20


def test_the_end_of_a_short_run_is_seen_nearly_whole() -> None:
    """Ten prompts at once, one after the other, and the decodes of the last one."""
    workload = RequestWorkload(prompt_tokens=1000, output_tokens=20, rate_per_s=1e6, requests=10)
    pools = (DevicePool(kind="gpu", machines=(2,)),)
    problem = LOOP.replace(workload=workload, units=LOOP.units[:1], pools=pools, roles="split")
    units = (UnitGroup(unit=0, role="prefill"), UnitGroup(unit=0, role="decode"))
    objective, bound = evaluate(problem, ServingPlan(units=units)).objective, FleetBound(problem)
    assert WholeFleets(bound).least(lambda: False) < 0.9 * objective
    assert 0.95 * objective < least_whole(bound, lambda: False) <= objective


@pytest.mark.parametrize("bars", [False, True])
def test_prompts_alone_end_with_their_first_token(bars: bool) -> None:
    bar = LengthShare(prompt_tokens=3, output_tokens=4, share=1.0)
    fixed = RequestWorkload(prompt_tokens=7, output_tokens=5, concurrency=3)
    workload = RequestWorkload(histogram=(bar,), concurrency=3) if bars else fixed
    alone = prompts_of(workload)
    assert not alone.loaded
    assert {output for _, output in alone.lengths()} == {1}
    assert {prompt for prompt, _ in alone.lengths()} == {prompt for prompt, _ in workload.lengths()}
