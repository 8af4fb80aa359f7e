"""Serving problems for the contract suite."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import strategies as st

from contracts.samples import Family, Samples
from instances.serving import random_prices
from partita.nouns.workload.workload import LengthShare, RequestWorkload
from partita.problems.kind import SearchOptions
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.problem import (
    DevicePool,
    EngineRules,
    ServingPlan,
    ServingProblem,
    ServingTargets,
    ServingUnit,
    UnitLayout,
    resized,
)
from partita.problems.serving.samples import LOOP, SPLIT
from problems.serving.brute_force import best_objective, judge

__all__ = ["SAMPLES", "random_problem"]


def random_problem(seed: int, *, split: bool = False) -> ServingProblem:
    """Up to three forms, up to four devices, and up to some twenty requests of a closed or an open loop."""
    draws = random.Random(seed)
    lengths = {"prompt_tokens": draws.randint(1, 12), "output_tokens": draws.randint(1, 8)}
    longest = sum(lengths.values())
    if draws.random() < 0.3:
        bars = [(draws.randint(1, 12), draws.randint(1, 8), draws.randint(1, 3) / 4) for _ in range(2)]
        longest = max(prompt + output for prompt, output, _ in bars)
        lengths = {"histogram": tuple(LengthShare(prompt_tokens=p, output_tokens=o, share=s) for p, o, s in bars)}
    load = {"concurrency": draws.randint(1, 3)} if draws.random() < 0.7 else {"rate_per_s": draws.choice([0.5, 2.0])}
    workload = RequestWorkload(**lengths, **load, requests=draws.randint(1, 20), seed=draws.randint(0, 9))
    units = tuple(_form(draws, longest) for _ in range(draws.randint(1, 2 if split else 3)))
    targets = ServingTargets(
        ttft_s=draws.choice([None, None, draws.randint(1, 40) / 4]),
        tpot_s=draws.choice([None, None, draws.randint(1, 20) / 4]),
        percentile=draws.choice([0.5, 0.9, 1.0]),
    )
    rate = draws.choice([None, 8.0])
    return ServingProblem(
        name=f"drawn {seed}",
        workload=workload,
        units=units,
        pools=(DevicePool(kind="gpu", machines=(draws.randint(2, 4) if split else draws.randint(1, 4),)),),
        roles="any" if split else "both",
        link_bytes_per_s=rate,
        targets=targets,
    )


def random_fleet(seed: int) -> ServingProblem:
    """A small problem on one or two kinds of devices, for the cheapest fleet or for one of few rates."""
    draws = random.Random(seed)
    problem = random_problem(seed)
    if draws.random() < 0.5:
        problem = problem.replace(targets=ServingTargets(ttft_s=20.0, tpot_s=5.0, percentile=0.5))
    # Both engines round what comes out of drawn times: no limit is a time that steps sum up to.
    kept = problem.targets
    limits = {"ttft_s": kept.ttft_s, "tpot_s": kept.tpot_s}
    limits = {name: None if limit is None else limit * 1.0123 for name, limit in limits.items()}
    problem = problem.replace(targets=msgspec.structs.replace(kept, **limits))
    units = problem.units[:2]
    kinds = ["gpu", draws.choice(["gpu", "other"])] if len(units) > 1 else ["gpu"]
    units = tuple(msgspec.structs.replace(unit, kind=kind) for unit, kind in zip(units, kinds, strict=True))
    goal = draws.choice(["rate", "cost"])
    priced = draws.random() < 0.5
    pools = tuple(
        DevicePool(
            kind=kind,
            machines=tuple(draws.randint(1, 3) for _ in range(draws.randint(1, 2))),
            price_per_hour=draws.randint(1, 5) / 2 if priced else None,
        )
        for kind in dict.fromkeys(kinds)
    )
    rate = draws.choice([0.25, 0.5, 2.0])
    workload = msgspec.structs.replace(
        problem.workload, concurrency=None, rate_per_s=rate if goal == "cost" else None, requests=draws.randint(1, 12)
    )
    return problem.replace(
        workload=workload,
        units=units,
        pools=pools,
        goal=goal,
        roles=draws.choice(["both", "split", "any"]),
        share_parts=0,
        rates=(0.125, 0.5, 2.0) if goal == "rate" else (),
    )


def _form(draws: random.Random, longest: int) -> ServingUnit:
    stages, groups = draws.choice([1, 1, 2]), draws.choice([1, 1, 2])
    prices = random_prices(draws, stages, groups)
    block = draws.choice([1, 2])
    size = sum(prices.cache_bytes_per_token[0]) * block * (longest // block + 1) * draws.choice([0.5, 1, 2, 4])
    prices = msgspec.structs.replace(
        prices,
        cache_budget_bytes=(float(int(size)),) * stages,
        moved_bytes_per_token=tuple(1.0 for _ in prices.windows),
    )
    rules = EngineRules(
        requests=draws.randint(1, 6),
        tokens=draws.randint(1, 16),
        block_tokens=block,
        mixed=draws.random() < 0.7,
        chunked=draws.random() < 0.7,
        reserve=draws.choice(["chunk", "prompt", "whole"]),
    )
    layout = UnitLayout(tensor=draws.choice([1, 1, 2]), pipeline=stages, attention_data=groups)
    return ServingUnit(kind="gpu", layout=layout, rules=rules, prices=prices)


def optimum(problem: ServingProblem, options: SearchOptions) -> float | None:
    """By the plain engine, of every deployment."""
    return best_objective(problem)


def check(problem: ServingProblem, plan: ServingPlan, options: SearchOptions) -> None:
    """The evaluator agrees with the plain engine."""
    found = evaluate(problem, plan)
    value, fits = judge(problem, plan)
    assert found.feasible == fits
    assert found.objective == pytest.approx(value, rel=1e-12)


def _family(name: str, typical: ServingProblem, *, split: bool = False) -> Family:
    return Family(name, st.integers(0, 10**6).map(lambda seed: random_problem(seed, split=split)), typical)


_FEW = LOOP.replace(workload=RequestWorkload(prompt_tokens=40, output_tokens=6, concurrency=3))
_FEW_SPLIT = SPLIT.replace(workload=RequestWorkload(prompt_tokens=40, output_tokens=6, rate_per_s=20.0, requests=12))

_FEW_FLEETS = _FEW_SPLIT.replace(
    workload=RequestWorkload(prompt_tokens=40, output_tokens=6, requests=12),
    goal="rate",
    share_parts=0,
    rates=(0.5, 2.0),
)

_ALONE = RequestWorkload(prompt_tokens=40, output_tokens=6, concurrency=1)

SAMPLES = Samples(
    families=(
        _family("loops", _FEW),
        _family("split", _FEW_SPLIT, split=True),
        Family("fleets", st.integers(0, 10**6).map(random_fleet), _FEW_FLEETS),
    ),
    optimum=optimum,
    check=check,
    infeasible=(
        resized(_FEW, 0),
        _FEW.replace(targets=ServingTargets(tpot_s=1e-6)),
        _FEW_FLEETS.replace(targets=ServingTargets(tpot_s=1e-6)),
        _FEW.replace(workload=RequestWorkload(prompt_tokens=100_000, output_tokens=1, concurrency=1)),
    ),
    # One request after the other on one device: six steps of at least 17 ms each.
    floors=((_FEW.replace(units=_FEW.units[:1], workload=_ALONE), 6 * 0.017),),
    large=(
        LOOP.replace(workload=RequestWorkload(prompt_tokens=400, output_tokens=200, concurrency=12)),
        SPLIT.replace(workload=RequestWorkload(prompt_tokens=400, output_tokens=200, requests=60), goal="rate"),
    ),
)
