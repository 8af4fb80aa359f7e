"""The exact solver on machines of several devices, against trying everything."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.brute_force_machines import best_objective_on_machines
from hybrid.independent_evaluator import judge
from hybrid.strategies import hybrid_problems, machine_problems
from partita.hybrid.evaluate import evaluate
from partita.hybrid.problem import Hierarchy, HybridProblem
from partita.hybrid.solvers import exact, memory
from partita.hybrid.solvers.exact import HybridExact
from partita.hybrid.solvers.protocol import HybridOptions
from partita.result import Monitor

#: Plan and bound may differ by this much when the search calls the plan optimal.
EQUAL = 1e-6


def check_against_everything(problem: HybridProblem) -> None:
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    expected = best_objective_on_machines(problem)
    if expected is None:
        assert outcome.plan is None
        assert outcome.infeasible
        return
    assert outcome.plan is not None
    assert not outcome.infeasible
    value, broken = judge(problem, outcome.plan)
    assert broken == []
    found = evaluate(problem, outcome.plan)
    assert found.feasible, found.violations
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert value == pytest.approx(expected, rel=EQUAL, abs=1e-9)
    bound = outcome.bound or 0.0
    assert expected * (1 - EQUAL) - 1e-12 <= bound <= expected * (1 + 1e-9)


@given(machine_problems())
@settings(max_examples=60)
def test_equals_trying_everything(problem: HybridProblem) -> None:
    check_against_everything(problem)


@pytest.mark.slow
@given(machine_problems())
@settings(max_examples=1000, derandomize=False)
def test_equals_trying_everything_often(problem: HybridProblem) -> None:
    check_against_everything(problem)


@given(machine_problems())
@settings(max_examples=30)
def test_a_plan_from_a_few_orders_changes_nothing(problem: HybridProblem) -> None:
    """Large graphs are first planned along a few orders; small ones are here made to take that way, too."""
    with mock.patch.object(exact, "FEW_SETS", 0):
        check_against_everything(problem)


@given(machine_problems(), st.booleans())
@settings(max_examples=30)
def test_times_that_are_not_remembered_change_nothing(problem: HybridProblem, few: bool) -> None:
    """Many stages, or many counts of microbatches in flight, leave no room to remember their times."""
    with mock.patch.object(memory, "_MOST_STAGES" if few else "_MOST_TIMES", 0):
        check_against_everything(problem)


@given(hybrid_problems(max_layers=4, max_devices=4))
@settings(max_examples=40)
def test_one_machine_is_the_flat_problem(problem: HybridProblem) -> None:
    machine = Hierarchy(devices_per_machine=problem.devices, machine_bandwidth_bytes_per_unit=1e-3)
    flat = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    nested = HybridExact().solve(problem.replace(hierarchy=machine), HybridOptions(), Monitor(600.0))
    assert flat.infeasible == nested.infeasible
    if flat.plan is not None:
        assert nested.plan is not None
        best = evaluate(problem, flat.plan).objective
        assert evaluate(problem.replace(hierarchy=machine), nested.plan).objective == pytest.approx(best, rel=EQUAL)
