"""What a sweep says of its points: every plan of a point is one of those that relax it, and takes no longer there."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import partita as pt
from partita.problems import find_kind
from partita.problems.hybrid.problem import HybridProblem
from problems.hybrid.brute_force import best_objective
from problems.hybrid.brute_force_machines import best_objective_on_machines
from problems.hybrid.brute_force_rows import every_row
from problems.hybrid.step_strategies import mixed_problems, random_step, row_problems
from problems.hybrid.strategies import hybrid_problems, machine_problems

SWEEP = find_kind("hybrid").sweep
#: Factors on memory and on bandwidths.
FACTORS = st.tuples(st.sampled_from((1.0, 1.2, 2.0, math.inf)), st.sampled_from((1.0, 1.5, 8.0)))


def eased(problem: HybridProblem, factors: tuple[float, float]) -> HybridProblem:
    """With more memory and bandwidth, and said to be easier."""
    memory, bandwidth = factors
    limits = [kind.memory_bytes for kind in problem.kinds]
    most = None if None in limits else max(limit for limit in limits if limit is not None) * memory
    found = SWEEP.at(problem, {"memory": most, "bandwidth": bandwidth})
    assert SWEEP.relaxes(found, problem)
    strict = bandwidth > 1 or any(kind.memory_bytes != limit for kind, limit in zip(found.kinds, limits, strict=True))
    assert SWEEP.relaxes(problem, found) == (not strict)
    return found


@given(st.one_of(mixed_problems(), row_problems()), FACTORS)
@settings(max_examples=60, deadline=None)
def test_plans_of_steps_take_no_longer(problem: HybridProblem, factors: tuple[float, float]) -> None:
    easier = eased(problem, factors)
    for plan, step in itertools.islice(every_row(problem), 200):
        worth = pt.evaluate(easier, SWEEP.transfer(plan, easier))
        assert worth.feasible
        assert worth.objective <= step * (1 + 1e-12)


@given(st.one_of(hybrid_problems(max_layers=4), machine_problems()), FACTORS)
@settings(max_examples=60, deadline=None)
def test_streams_take_no_longer(problem: HybridProblem, factors: tuple[float, float]) -> None:
    best = best_objective if problem.hierarchy is None else best_objective_on_machines
    easier, harder = best(eased(problem, factors)), best(problem)
    assert harder is None or (easier is not None and easier <= harder * (1 + 1e-12))


def test_what_differs_does_not_relax() -> None:
    problem = random_step(3, ("1f1b",))
    assert SWEEP.relaxes(problem, problem)
    for other in (
        problem.replace(microbatches=2 * problem.microbatches),
        problem.replace(edges=()),
        problem.replace(devices=2 * problem.devices, hierarchy=None),
    ):
        assert other != problem
        assert not SWEEP.relaxes(other, problem)
        assert not SWEEP.relaxes(problem, other)


def test_bounds_pass_on() -> None:
    """Where a plan of a relaxed point keeps its worth, nothing is searched."""
    problem = random_step(3, ("1f1b",)).replace(memory_bytes=math.inf)
    found = pt.sweep(problem, memory=[1e15, 1e14, 1e13], time_limit_s=20.0)
    assert [point.result.bound.method for point in found.points][1:] == [found.points[0].result.bound.method] * 2
    assert [point.result.solver for point in found.points] == ["uniform", "sweep", "sweep"]
    assert len({point.result.objective for point in found.points}) == 1
    with pytest.raises(pt.InputError):
        SWEEP.at(problem, {"memory": -1.0})
