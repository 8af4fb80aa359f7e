"""The solvers of free splits against trying everything."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

import brute_force
from partita.conductor.bound import bound
from partita.conductor.solve import solve
from partita.mip.solve import available
from partita.problems.throughput.free.instance import free_instance, refusal
from partita.problems.throughput.free.search import FreeIncumbent, search
from partita.problems.throughput.problem import ThroughputProblem
from partita.run.result import Status
from strategies import throughput_problems

PROBLEMS = throughput_problems(schedules=("inference", "1f1b", "gpipe"), recompute=False)
LIMIT_S = 30.0

needs_highs = pytest.mark.skipif(not available("highs"), reason="highspy is not installed")


def check(problem: ThroughputProblem, solver: str) -> None:
    """A solver that proves its answers gives the optimum, with a bound that is not above it."""
    expected = brute_force.best_free(problem)
    result = solve(problem, contiguity="free", solver=solver, time_limit_s=LIMIT_S, explain=False)
    if expected is None:
        assert result.status is Status.INFEASIBLE
        assert result.plan is None
        return
    assert result.objective is not None
    assert result.objective == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert result.status is Status.OPTIMAL
    assert result.bound is not None
    assert result.bound.value <= expected * (1 + 1e-9) + 1e-9


@needs_highs
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROBLEMS)
def test_the_default_solver_is_exact_on_small_problems(problem: ThroughputProblem) -> None:
    assume(refusal(problem) is None)
    check(problem, "free")


@pytest.mark.slow
@needs_highs
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROBLEMS)
def test_the_default_solver_is_exact_on_many_small_problems(problem: ThroughputProblem) -> None:
    assume(refusal(problem) is None)
    check(problem, "free")


@pytest.mark.parametrize("solver", ["highs", "cpsat", "scip"])
def test_each_backend_is_exact_on_small_problems(solver: str) -> None:
    if not available(solver):
        pytest.skip("the backend is not installed")

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(PROBLEMS)
    def run(problem: ThroughputProblem) -> None:
        assume(refusal(problem) is None)
        check(problem, solver)

    run()


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROBLEMS)
def test_the_annealing_keeps_its_books(problem: ThroughputProblem) -> None:
    """What the kernel believes of its best split is what the evaluator says, and never below the optimum."""
    from partita.problems.throughput.evaluate import evaluate

    assume(refusal(problem) is None)
    free = free_instance(problem)
    assume(not free.homeless)
    best = FreeIncumbent(free)
    search(best, 1, lambda: False, last_round=2)
    expected = brute_force.best_free(problem)
    if best.answer is None:
        return
    evaluation = evaluate(problem, free.plan(best.answer))
    assert evaluation.feasible
    assert evaluation.objective == pytest.approx(best.value, rel=1e-9, abs=1e-9)
    assert expected is not None
    assert best.value >= expected * (1 - 1e-9) - 1e-9


@needs_highs
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROBLEMS)
def test_the_covering_bound_is_valid(problem: ThroughputProblem) -> None:
    assume(refusal(problem) is None)
    expected = brute_force.best_free(problem)
    value = bound(problem, "covering-free", time_limit_s=LIMIT_S).value
    if expected is not None:
        assert value <= expected * (1 + 1e-9) + 1e-9


def test_the_same_seed_searches_the_same_way() -> None:
    from partita.problems.throughput.problem import DeviceKind, Operator, Tensor

    problem = ThroughputProblem(
        name="ring",
        kinds=(DeviceKind(name="gpu", count=3),),
        operators=tuple(Operator(id=i, times=(float(3 + i * 7 % 5),)) for i in range(20)),
        tensors=tuple(Tensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(19)),
    )
    free = free_instance(problem)
    labels = []
    for _ in range(2):
        best = FreeIncumbent(free)
        search(best, 3, lambda: False, last_round=3)
        assert best.answer is not None
        labels.append(best.answer.tolist())
    assert labels[0] == labels[1]
