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
    for group in plan.units:
        form = problem.units[group.unit]
        moved = form.prices.moved_bytes_per_token or (0.0,) * len(form.prices.windows)
        rate = problem.link_bytes_per_s
        per_token = tuple(size / rate if rate else 0.0 for size in moved)
        found += [RunningUnit(form, group.role, problem.link_s, per_token)] * group.count
    return found


def served(problem: ServingProblem, plan: ServingPlan) -> PlainServing:
    """A run of the plain engine."""
    workload, drawn = problem.workload, problem.workload.drawn()
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
    devices = sum(problem.units[group.unit].devices * group.count for group in plan.units)
    roles = sorted(group.role for group in plan.units)
    fits = devices <= problem.devices and (roles == ["both"] or (problem.split and roles == ["decode", "prefill"]))
    targets, requests = problem.targets, run.requests
    ttft = [one.tokens[0] - one.arrival for one in requests]
    tpot = [(one.tokens[-1] - one.tokens[0]) / (one.output - 1) for one in requests if one.output > 1]
    for limit, values in ((targets.ttft_s, ttft), (targets.tpot_s, tpot)):
        if limit is not None and values:
            fits = fits and float(np.quantile(values, targets.percentile)) <= limit
    start = min(one.arrival for one in requests)
    return (run.now - start) / len(requests), fits


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
    worths = (judge(problem, plan) for plan in every(problem))
    return min((value for value, fits in worths if fits), default=None)
