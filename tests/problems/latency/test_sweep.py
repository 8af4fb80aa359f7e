"""What a sweep says of its points: relaxed problems are no worse, and plans pass from one to another."""

from __future__ import annotations

import partita as pt
from partita.problems import find_kind
from problems.latency.brute_force import best_latency
from problems.latency.random_problems import random_problem

SWEEP = find_kind("latency").sweep


def test_points_that_relax_others_are_no_worse() -> None:
    """More accelerators, more memory, more pieces, faster links: one at a time, and all together."""
    strict = checked = 0
    for seed in range(60):
        harder = random_problem(seed, most=5, pieces=1)
        point = (
            {"devices": harder.accelerators + 1},
            {"memory": 100.0},
            {"bandwidth": 2.0},
            {"devices": harder.accelerators + 1, "memory": float("inf"), "bandwidth": 4.0},
        )[seed % 4]
        easier = SWEEP.at(harder, point)
        if harder.memory_bytes is None and "memory" in point and point["memory"] == 100.0:
            assert not SWEEP.relaxes(easier, harder)
            continue
        assert SWEEP.relaxes(easier, harder)
        left, right = best_latency(easier), best_latency(harder)
        assert left <= right + 1e-9
        assert SWEEP.relaxes(harder, easier) == (harder == easier) or left == right or "bandwidth" in point
        checked += 1
        strict += left < right - 1e-9
    assert checked >= 50
    assert strict >= 5


def test_what_differs_does_not_relax() -> None:
    problem = random_problem(7, pieces=1)
    assert SWEEP.relaxes(problem, problem)
    assert SWEEP.relaxes(problem.replace(pieces=2), problem)
    assert not SWEEP.relaxes(problem, problem.replace(pieces=2))
    assert not SWEEP.relaxes(problem, problem.replace(edges=problem.edges[1:])) or not problem.edges
    assert not SWEEP.relaxes(problem, problem.replace(operators=random_problem(8, pieces=1).operators, edges=()))


def test_plans_pass_on() -> None:
    for seed in range(20):
        problem = random_problem(seed, most=5, pieces=1)
        plan = pt.solve(problem, time_limit_s=20.0).plan
        used = sum(1 for row in plan.accelerators if row)
        passed = SWEEP.transfer(plan, problem.replace(accelerators=used))
        assert passed is not None
        assert pt.evaluate(problem, passed).objective == pt.evaluate(problem, plan).objective
        if used:
            assert SWEEP.transfer(plan, problem.replace(accelerators=used - 1)) is None
