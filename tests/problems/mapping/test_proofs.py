"""Bounds and branch and bound against trying everything, on random problems of up to seven devices."""

from __future__ import annotations

import pytest

from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.mapping.bounds.domains import Thresholds, thresholds_bound
from partita.problems.mapping.bounds.neighbours import Neighbours
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import Form
from partita.problems.mapping.solvers import MappingCombined, MappingExact
from problems.mapping.brute_force import best_objective
from problems.mapping.random_problems import random_problem

FORMS = ("both", "point-to-point", "all-reduce")
every_form = pytest.mark.parametrize("form", FORMS)
#: Rounding of sums in another order.
CLOSE = 1e-9


@every_form
def test_branch_and_bound_and_the_first_bound_on_five_hundred(form: Form) -> None:
    """Equal, and never above."""
    reached = 0
    for seed in range(500):
        problem = random_problem(seed, form)
        best = best_objective(problem)
        assert best is not None
        bound = Neighbours().bound(problem, Monitor()).value
        assert bound <= best * (1 + CLOSE), problem.name
        reached += bound >= best * (1 - 1e-6)
        outcome = MappingExact().solve(problem, SearchOptions(), Monitor())
        found = evaluate(problem, outcome.plan)
        assert found.feasible
        assert found.objective == pytest.approx(best, rel=1e-6), problem.name
        assert (outcome.bound or 0.0) <= best * (1 + CLOSE), problem.name
    assert reached > 50, "it is never tight"


def refuted_no_mapping(form: Form, seeds: range) -> int:
    """How often the bound by thresholds is better than that by neighbours."""
    better = 0
    for seed in seeds:
        problem = random_problem(seed, form)
        best = best_objective(problem)
        assert best is not None
        bound = Thresholds().bound(problem, Monitor()).value
        assert bound <= best * (1 + CLOSE), problem.name
        better += bound > Neighbours().bound(problem, Monitor()).value * (1 + 1e-6)
    return better


@every_form
def test_thresholds_are_never_above_the_optimum(form: Form) -> None:
    """On every fifth."""
    assert refuted_no_mapping(form, range(0, 500, 5)) > 5


def test_thresholds_beside_another_bound() -> None:
    """From a bound that is not tight as from nothing; from one that they cannot better they return it."""
    better = 0
    for seed in range(0, 500, 50):
        instance = MappingInstance(random_problem(seed))
        best = best_objective(instance.problem)
        assert best is not None
        alone = thresholds_bound(instance, 0.0, 2 * best, lambda: False)
        for low in (0.7 * alone, best):
            found = thresholds_bound(instance, low, 2 * best, lambda: False, known=True)
            assert low <= found <= best * (1 + CLOSE)
            better += found > low
    assert better > 5


@pytest.mark.slow
@every_form
def test_thresholds_are_never_above_the_optimum_of_all(form: Form) -> None:
    """On all, and some more."""
    assert refuted_no_mapping(form, range(2000)) > 100


@every_form
def test_the_default_is_exact(form: Form) -> None:
    """With its own proof."""
    for seed in range(500, 520):
        problem = random_problem(seed, form)
        best = best_objective(problem)
        outcome = MappingCombined().solve(problem, SearchOptions(), Monitor(30.0))
        assert evaluate(problem, outcome.plan).objective == pytest.approx(best, rel=1e-6)
        assert outcome.bound == pytest.approx(best, rel=1e-6, abs=0)
