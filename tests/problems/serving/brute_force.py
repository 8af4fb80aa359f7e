"""What deployments are worth by the plain engine, and the best of all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from instances.serving import plain_unit
from partita.ground.errors import InputError
from partita.problems.serving.engine import RunningUnit, check_lengths
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup
from second_opinions.plain_serving import PlainRequest, PlainServing


def running(problem: ServingProblem, plan: ServingPlan) -> list[RunningUnit]:
    """The units of a plan of forms whose groups step together."""
    found = []
    ranks = ["both", "prefill", "decode"]
    for group in sorted(plan.units, key=lambda one: (ranks.index(one.role), one.unit)):
        form = problem.units[group.unit]
        moved = form.prices.moved_bytes_per_token or (0.0,) * len(form.prices.windows)
        rate = problem.link_bytes_per_s
        per_token = tuple(size / rate if rate else 0.0 for size in moved)
        found += [RunningUnit(form, group.role, problem.link_s, per_token)] * group.count
    return found


def served(problem: ServingProblem, plan: ServingPlan) -> PlainServing:
    """A run of the plain engine."""
    workload = problem.workload if plan.rate_per_s is None else problem.workload.at_rate(plan.rate_per_s)
    drawn = workload.drawn()
    prefixes = [workload.prefix_tokens] * workload.prefix_groups if workload.prefix_tokens else []
    rows = zip(*(values.tolist() for values in drawn[:4]), strict=True)
    requests = [PlainRequest(prompt, output, at, group) for at, prompt, output, group in rows]
    units = running(problem, plan)
    run = PlainServing([plain_unit(unit) for unit in units], requests, prefixes, drawn.in_flight,
                       units[0].form.prices.arrival_s)  # fmt: skip
    run.run()
    return run


def judge(problem: ServingProblem, plan: ServingPlan) -> tuple[float, bool]:
    """Objective and feasibility of a deployment."""
    run = served(problem, plan)
    roles = sorted(group.role for group in plan.units)
    fits = packed(problem, plan)
    if problem.goal == "time":
        fits = fits and (roles == ["both"] or (problem.split and roles == ["decode", "prefill"]))
    else:
        allowed = {"both": {"both"}, "split": {"prefill", "decode"}, "any": {"both", "prefill", "decode"}}
        fits = fits and set(roles) <= allowed[problem.roles]
    targets, requests = problem.targets, run.requests
    ttft = [one.tokens[0] - one.arrival for one in requests]
    tpot = [(one.tokens[-1] - one.tokens[0]) / (one.output - 1) for one in requests if one.output > 1]
    for limit, values in ((targets.ttft_s, ttft), (targets.tpot_s, tpot)):
        if limit is not None and values:
            fits = fits and float(np.quantile(values, targets.percentile)) <= limit
    start = min(one.arrival for one in requests)
    if problem.goal != "cost":
        return (run.now - start) / len(requests), fits
    last = max(one.arrival for one in requests)
    allowed_s = (targets.ttft_s or 0.0) + (targets.tpot_s or 0.0) * (max(one.output for one in requests) - 1)
    fits = fits and run.now - last <= 0.1 * (last - start) + allowed_s
    prices = {pool.kind: 1.0 if pool.price_per_hour is None else pool.price_per_hour for pool in problem.pools}
    forms = [(problem.units[group.unit], group.count) for group in plan.units]
    return sum(prices[form.kind] * form.devices * count for form, count in forms), fits


def packed(problem: ServingProblem, plan: ServingPlan) -> bool:
    """Whether all stages find room, by trying every machine for each, in groups where none has room for a stage."""
    stages: list[tuple[str, int]] = []
    for group in plan.units:
        form = problem.units[group.unit]
        size, layout = form.devices // form.layout.pipeline, form.layout
        most = max((room for pool in problem.pools if pool.kind == form.kind for room in pool.machines), default=0)
        if size <= most:
            stages += [(form.kind, size)] * (layout.pipeline * group.count)
        else:
            stages += [(form.kind, layout.tensor)] * (layout.pipeline * layout.attention_data * group.count)
    stages.sort(key=lambda one: -one[1])

    def put(place: int, free: tuple[tuple[str, int], ...]) -> bool:
        if place == len(stages):
            return True
        kind, size = stages[place]
        return any(
            put(place + 1, (*free[:at], (kind, room - size), *free[at + 1 :]))
            for at, (own, room) in enumerate(free)
            if own == kind and room >= size and (own, room) not in free[:at]
        )

    return put(0, tuple((pool.kind, size) for pool in problem.pools for size in pool.machines))


def fleets(problem: ServingProblem) -> Iterator[ServingPlan]:
    """All fleets without shares, at all rates that may be offered."""
    longest = problem.workload.lengths()
    roles = {"both": ("both",), "split": ("prefill", "decode"), "any": ("both", "prefill", "decode")}
    items: list[UnitGroup] = []
    for number, form in enumerate(problem.units):
        try:
            check_lengths(form, longest)
        except InputError:
            continue
        items += [UnitGroup(unit=number, role=role) for role in roles[problem.roles]]  # type: ignore[arg-type]
    sizes = [problem.units[item.unit].devices for item in items]
    for counts in itertools.product(*(range(problem.devices // size + 1) for size in sizes)):
        if sum(size * count for size, count in zip(sizes, counts, strict=True)) > problem.devices:
            continue
        units = tuple(
            UnitGroup(unit=item.unit, role=item.role, count=count)
            for item, count in zip(items, counts, strict=True)
            if count
        )
        used = {unit.role for unit in units}
        if used and ("prefill" in used) == ("decode" in used):
            for rate in problem.rates or (None,):
                yield ServingPlan(units=units, rate_per_s=rate)


def every(problem: ServingProblem) -> Iterator[ServingPlan]:
    """All deployments that have no more devices than there are and can hold every request."""
    numbers = []
    for number, form in enumerate(problem.units):
        try:
            check_lengths(form, problem.workload.lengths())
        except InputError:
            continue
        numbers.append(number)
    counts = range(1, problem.devices + 1)
    for number, count in itertools.product(numbers, counts):
        if problem.units[number].devices * count <= problem.devices:
            yield ServingPlan(units=(UnitGroup(unit=number, count=count),))
    for first, second, one, two in itertools.product(numbers, numbers, counts, counts) if problem.split else ():
        if problem.units[first].devices * one + problem.units[second].devices * two <= problem.devices:
            pair = UnitGroup(unit=first, count=one, role="prefill"), UnitGroup(unit=second, count=two, role="decode")
            yield ServingPlan(units=pair)


def best_objective(problem: ServingProblem) -> float | None:
    """The least objective of a feasible deployment; None if there is none."""
    worths = (judge(problem, plan) for plan in (every if problem.goal == "time" else fleets)(problem))
    return min((value for value, fits in worths if fits), default=None)
