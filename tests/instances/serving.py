"""Random deployments and requests for the engine of serving, the same for it and for the plain one.

Prices are small multiples of a power of two, and grids of tokens are powers of two apart, so that all sums are exact.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import msgspec
import numpy as np

from partita.costs.serving.prices import StepPrices
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.engine import RunningUnit
from partita.problems.serving.problem import EngineRules, ServingUnit, UnitLayout
from second_opinions.plain_serving import PlainRequest, PlainServing, PlainUnit


@dataclass(frozen=True)
class ServingRun:
    """Units, requests and prefixes, and a plain engine with the same."""

    units: list[RunningUnit]
    drawn: DrawnRequests
    prefixes: list[int]
    plain: PlainServing


def random_prices(draws: random.Random, stages: int = 1, groups: int = 1) -> StepPrices:
    """Prices of a unit; its cache is of no size yet."""
    points = [1]
    for _ in range(draws.randint(0, 3)):
        points.append(points[-1] + 2 ** draws.randint(0, 3))
    windows = draws.choice([(0,), (0,), (3,), (0, 4)])

    def table() -> tuple[tuple[float, ...], ...]:
        rows = ([draws.randint(1, 4) / 16] + [draws.randint(0, 4) / 16 for _ in points[1:]] for _ in range(stages))
        return tuple(tuple(np.cumsum(row).tolist()) for row in rows)

    def by_form() -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(draws.randint(0, 3) / 64 for _ in windows) for _ in range(stages))

    def fixed() -> tuple[float, ...]:
        return tuple(draws.randint(0, 3) / 16 for _ in range(stages))

    uneven = groups > 1 and draws.random() < 0.6
    apart, together = (table() if uneven else () for _ in range(2))
    return StepPrices(
        tokens=tuple(points),
        dense_s=table(),
        dense_mixed_s=table(),
        windows=windows,
        prompt_s=by_form(),
        decode_s=by_form(),
        chunk_s=fixed(),
        request_s=fixed(),
        step_s=fixed(),
        mixed_step_s=fixed(),
        hand_on_s=draws.randint(0, 2) / 16,
        hand_on_s_per_token=draws.randint(0, 2) / 64,
        host_s=draws.choice([0, 0, draws.randint(0, 16) / 16]),
        host_request_s=draws.randint(0, 2) / 16,
        weight_bytes=(0,) * stages,
        cache_bytes_per_token=(tuple(float(draws.randint(1, 2)) for _ in windows),) * stages,
        cache_budget_bytes=(0.0,) * stages,
        attention_data=groups,
        apart_s=apart,
        together_s=together,
        padded_tokens=draws.choice([0, 0, 2]) if uneven else 0,
    )


def random_run(seed: int) -> ServingRun:
    """A deployment of one to five units, whose caches are small, and up to fourteen requests."""
    draws = random.Random(seed)
    groups = draws.choice([0, 0, 1, 2])
    prefixes = [draws.randint(1, 6) for _ in range(groups)]
    arrival, requests = 0.0, []
    for _ in range(draws.randint(1, 14)):
        arrival += draws.randint(0, 6) / 4
        group = draws.randint(-1, groups - 1)
        prompt = max(draws.randint(1, 9), prefixes[group] if group >= 0 else 0)
        requests.append((arrival, prompt, draws.randint(1, 6), group))
    in_flight = draws.choice([0, 0, draws.randint(1, 6)])
    longest = max(prompt + output - 1 for _, prompt, output, _ in requests)
    roles = ["both"] * draws.randint(1, 2)
    if draws.random() < 0.3:
        roles = ["prefill"] * draws.randint(1, 2) + ["decode"] * draws.randint(1, 2)
        roles += ["both"] if draws.random() < 0.3 else []
    delay = draws.choice([0.0, 0.0, 0.25])
    pairs = [_random_unit(draws, role, longest, delay) for role in roles]
    drawn = DrawnRequests(
        np.array([0.0 if in_flight else one[0] for one in requests]),
        *(np.array([one[field] for one in requests], np.int64) for field in (1, 2, 3)),
        in_flight,
    )
    plain = [PlainRequest(prompt, output, 0.0 if in_flight else at, group) for at, prompt, output, group in requests]
    engine = PlainServing([unit for _, unit in pairs], plain, prefixes, in_flight, delay)
    return ServingRun([unit for unit, _ in pairs], drawn, prefixes, engine)


def _random_unit(draws: random.Random, role: str, longest: int, delay: float) -> tuple[RunningUnit, PlainUnit]:
    stages, groups, block = draws.choice([1, 1, 2, 3]), draws.choice([1, 1, 1, 2]), draws.choice([1, 1, 2, 4])
    prices = random_prices(draws, stages, groups)
    rules = EngineRules(
        requests=draws.randint(1, 6),
        tokens=draws.randint(1, 12),
        block_tokens=block,
        mixed=draws.random() < 0.7,
        chunked=draws.random() < 0.7,
        reserve=draws.choice(["chunk", "chunk", "prompt", "whole"]),
        promise=draws.choice([0.5, 1.0]),
        keeps=draws.random() < 0.5,
    )
    pages = {w: int(size * block) for w, size in zip(prices.windows, prices.cache_bytes_per_token[0], strict=True)}
    need = sum(size * -(-(min(longest, window) if window else longest) // block) for window, size in pages.items())
    size = need + draws.choice([0, draws.randint(0, need), draws.randint(0, 4 * need)])
    prices = msgspec.structs.replace(prices, cache_budget_bytes=(float(size),) * stages, arrival_s=delay)
    layout = UnitLayout(pipeline=stages, attention_data=groups)
    link, per_token = draws.randint(0, 4) / 16, tuple(draws.randint(0, 4) / 16 for _ in prices.windows)
    form = ServingUnit(kind="gpu", layout=layout, rules=rules, prices=prices)
    unit = RunningUnit(form, role, link, per_token, interval=draws.choice([1, 1, 2, 3]))  # type: ignore[arg-type]
    return unit, plain_unit(unit)


def plain_unit(unit: RunningUnit) -> PlainUnit:
    """The same unit for the plain engine; its stages have caches alike."""
    prices, rules = unit.form.prices, unit.form.rules
    sizes = zip(prices.windows, prices.cache_bytes_per_token[0], strict=True)
    return PlainUnit(
        prices,
        rules.requests,
        rules.tokens,
        int(prices.cache_budget_bytes[0]),
        {window: math.ceil(size * rules.block_tokens) for window, size in sizes},
        rules.block_tokens,
        unit.role,
        rules.mixed,
        rules.chunked,
        rules.reserve,
        rules.promise,
        rules.keeps,
        unit.interval if unit.role == "both" else 1,
        0,
        unit.link_s,
        dict(zip(prices.windows, unit.link_token_s, strict=True)),
    )
