"""Stages with numbers of replicas of their own, against trying everything."""

from __future__ import annotations

import msgspec
import pytest

import partita as pt
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.mapping.bounds.domains import Thresholds
from partita.problems.mapping.bounds.neighbours import Neighbours
from partita.problems.mapping.descriptor import MAPPING
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.problem import Form, MappingProblem, MappingStage, MappingTransfer, Placement
from partita.problems.mapping.solvers import MappingCombined, MappingExact
from problems.mapping.brute_force import best_objective, objective
from problems.mapping.random_problems import random_problem, uneven_problem

every_form = pytest.mark.parametrize("form", ["both", "point-to-point", "all-reduce"])


@every_form
def test_bounds_and_branch_and_bound(form: Form) -> None:
    uneven = 0
    for seed in range(120):
        problem = uneven_problem(seed, form)
        uneven += len(set(problem.counts)) > 1
        best = best_objective(problem)
        assert best is not None
        for method in (Neighbours(), Thresholds()):
            assert method.bound(problem, Monitor()).value <= best * (1 + 1e-9), problem.name
        outcome = MappingExact().solve(problem, SearchOptions(), Monitor())
        found = evaluate(problem, outcome.plan)
        assert found.feasible
        assert found.objective == pytest.approx(best, rel=1e-6), problem.name
        assert found.objective == pytest.approx(objective(problem, outcome.plan), rel=1e-12)
        assert (outcome.bound or 0.0) <= best * (1 + 1e-9)
    assert uneven > 60


def test_the_default_and_every_baseline() -> None:
    for seed in range(200, 212):
        problem = uneven_problem(seed)
        best = best_objective(problem)
        outcome = MappingCombined().solve(problem, SearchOptions(), Monitor(30.0))
        assert evaluate(problem, outcome.plan).objective == pytest.approx(best, rel=1e-6)
        for baseline in MAPPING.baselines:
            plan = baseline.solve(problem, SearchOptions(), Monitor(30.0)).plan
            assert plan is not None
            assert evaluate(problem, plan).feasible


def test_stating_what_the_problem_says_changes_nothing() -> None:
    for seed in range(50):
        problem = random_problem(seed)
        stated = problem.replace(
            stages=tuple(msgspec.structs.replace(stage, replicas=problem.replicas) for stage in problem.stages)
        )
        plan = MAPPING.baselines[0].solve(problem, SearchOptions(), Monitor()).plan
        assert evaluate(stated, plan) == evaluate(problem, plan)


def test_microbatches_take_turns() -> None:
    """Two replicas before three: 12 bytes in six turns, so 2 bytes each, and every pair meets once.

    So a replica of the first stage moves 2 bytes over each of the links of 1, 2 and 4 s/byte, one of the second 4 bytes
    over links alike.
    """
    paces = ((0, 0, 1, 2, 4), (0, 0, 1, 2, 4), (1, 1, 0, 0, 0), (2, 2, 0, 0, 0), (4, 4, 0, 0, 0))
    problem = MappingProblem(
        name="turns",
        replicas=3,
        stages=(
            MappingStage(name="a", time_s=0.0, replicas=2),
            MappingStage(name="b", time_s=0.0, parameter_bytes=0.75),
        ),
        transfers=(MappingTransfer(source=0, target=1, bytes=4.0),),
        bandwidth_bytes_per_s=tuple(tuple(1.0 if pace == 0 else 1.0 / pace for pace in row) for row in paces),
    )
    assert problem.counts == (2, 3)
    found = evaluate(problem, Placement(placement=((0, 1), (2, 3, 4))))
    assert [load.point_to_point for load in found.loads[0]] == [14.0, 14.0]
    assert [load.point_to_point for load in found.loads[1]] == [4.0, 8.0, 16.0]
    # Two thirds of two times three quarters of a byte, at 1 s/byte.
    assert [load.all_reduce for load in found.loads[1]] == [1.0, 1.0, 1.0]
    with pytest.raises(pt.InputError, match="3 replicas of stage 0; the problem has 2"):
        evaluate(problem, Placement(placement=((0, 1, 2), (3, 4))))
    few = problem.replace(stages=(*problem.stages[:1], msgspec.structs.replace(problem.stages[1], replicas=9)))
    assert "the replicas of all stages need 11 devices" in str(few.shortage())
    with pytest.raises(pt.InputError, match="replicas"):
        problem.replace(stages=(msgspec.structs.replace(problem.stages[0], replicas=0), problem.stages[1]))
