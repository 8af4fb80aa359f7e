"""Tokens served by placements: against a plain run, brute force, and bounds; and what a search makes of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import partita as pt
from partita.checker.document import OWN
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.problems.layer_placement.bounds import DEFAULT_BOUNDS
from partita.problems.layer_placement.bounds.caches import CacheRoom
from partita.problems.layer_placement.evaluate import evaluate, plan_of
from partita.problems.layer_placement.generators import random_layer_placement
from partita.problems.layer_placement.problem import LayerPlacementProblem, PublishedFlow
from problems.layer_placement.random_problems import random_served
from second_opinions.layer_runs import best_served, served_by


def placements(problem: LayerPlacementProblem, seed: int, count: int) -> list[dict[str, tuple[int, int]]]:
    """Some with a flow."""
    rng, found = random.Random(seed), []
    for _ in range(40 * count):
        held = {}
        for machine in problem.machines:
            sizes = [k for k in machine.tokens_per_s if k <= problem.layers]
            if sizes and rng.random() < 0.9:
                k = rng.choice(sizes)
                first = rng.randint(0, problem.layers - k)
                if machine.passes(first, first + k, problem.layers) is not None:
                    held[machine.name] = (first, first + k)
        if held not in found and evaluate(problem, plan_of(problem, held)).flow_tokens_per_s > 0:
            found.append(held)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 400), marks=pytest.mark.slow)], ids=str)
def test_a_run_is_what_a_plain_one_is_and_no_bound_is_above_it(seeds: range) -> None:
    runs = tight = 0
    for seed in seeds:
        problem = random_served(seed)
        floors = [bound.bound(problem, Monitor()).value for bound in DEFAULT_BOUNDS if bound.supports(problem) is None]
        assert len(floors) == len(DEFAULT_BOUNDS)
        for held in placements(problem, seed, 4):
            found = evaluate(problem, plan_of(problem, held))
            assert found.feasible
            assert found.tokens_per_s == pytest.approx(served_by(problem, held), rel=1e-9)
            assert max(floors) <= found.objective * (1 + 1e-9)
            tight += max(floors) > found.objective / 1.5
            runs += 1
    assert runs > 1.6 * len(seeds)
    assert tight > 0.08 * len(seeds)


def test_few_placements_are_all_tried() -> None:
    proven = 0
    for seed in range(40):
        problem = random_served(seed, 2)
        best = best_served(problem)
        result = pt.solve(problem, time_limit_s=60, explain=False)
        if best == 0:
            assert result.status is pt.Status.INFEASIBLE
            continue
        assert result.status is pt.Status.OPTIMAL
        assert 1 / result.objective == pytest.approx(best, rel=1e-9)
        proven += 1
    assert proven > 20


@pytest.mark.slow
def test_many_small_problems_are_solved_as_brute_force_does() -> None:
    proven = 0
    for seed in range(40, 340):
        problem = random_served(seed, 3 if seed % 5 == 0 else 2)
        best = best_served(problem)
        result = pt.solve(problem, time_limit_s=60, explain=False)
        if best == 0:
            assert result.status is pt.Status.INFEASIBLE
            continue
        assert 1 / result.objective == pytest.approx(best, rel=1e-9)
        assert result.status is pt.Status.OPTIMAL
        proven += 1
    assert proven > 150


@pytest.mark.parametrize("seed", [0, 1])
def test_a_search_serves_no_less_than_the_plans_it_is_compared_with(seed: int) -> None:
    """Also without the time for many moves; the bound of caches is the better one where caches are small."""
    problem = random_layer_placement(seed, machines=10, layers=40, kinds=3, regions=2).replace(
        worth="served", output_tokens=40, layer_requests=4, run_requests=60
    )
    most = pt.solve(problem.replace(worth="flow"), time_limit_s=2, explain=False).evaluation.tokens_per_s
    problem = problem.replace(published=PublishedFlow(objective=most / 2))
    result = pt.solve(problem, time_limit_s=2, explain=False)
    rows = [row for row in pt.compare(problem) if row.feasible]
    assert {"most flow", "published flow"} <= {row.name for row in rows}
    assert len(rows) >= 2
    assert all(row.evaluation.objective >= result.objective * (1 - 1e-12) for row in rows)
    assert result.bound.value >= CacheRoom().bound(problem, Monitor()).value * (1 - 1e-12)
    assert result.bound.value <= result.objective


def test_more_flow_may_serve_less(published_data: Path) -> None:
    """Ten machines in a row pass most with full steps; requests are enough for a tenth of such steps."""
    problem = pt.read_problem(published_data / "serving" / "helix" / "quality-10.json")
    problem = problem.replace(worth="served", output_tokens=232, layer_requests=40, run_requests=200)
    result = pt.solve(problem, time_limit_s=15, explain=False)
    rows = {row.name: row.evaluation for row in pt.compare(problem) if row.feasible}
    most = rows["most flow"]
    assert most.flow_tokens_per_s > result.evaluation.flow_tokens_per_s
    assert result.evaluation.tokens_per_s > 1.5 * most.tokens_per_s
    assert result.evaluation.tokens_per_s >= rows["published flow"].tokens_per_s
    checked = pt.check(result)
    assert checked.plan.verified
    assert checked.plan.by != OWN


def test_what_cannot_be_simulated_is_refused() -> None:
    problem = random_layer_placement(0, machines=4, layers=8)
    with pytest.raises(InputError, match="--output-tokens"):
        problem.replace(worth="served")
    with pytest.raises(InputError, match="--layer-requests"):
        problem.replace(worth="served", output_tokens=10)
