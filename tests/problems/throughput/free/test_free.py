"""The solvers of free splits against trying everything."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from instances.strategies import throughput_problems
from partita.api.judging import bound
from partita.api.solving import solve
from partita.engines.mip.solve import available
from partita.engines.search.result import Status
from partita.problems.throughput.free.search import FreeIncumbent, FreeRounds, free_instance, refusal
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from second_opinions import brute_force

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
    FreeRounds(best, 1).run(rounds=2)
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
    from partita.problems.throughput.problem import DeviceKind, MovedTensor, TimedOperator

    problem = ThroughputProblem(
        name="ring",
        kinds=(DeviceKind(name="gpu", count=3),),
        operators=tuple(TimedOperator(id=i, times=(float(3 + i * 7 % 5),)) for i in range(20)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(19)),
    )
    free = free_instance(problem)
    labels = []
    for _ in range(2):
        best = FreeIncumbent(free)
        FreeRounds(best, 3).run(rounds=3)
        assert best.answer is not None
        labels.append(best.answer.tolist())
    assert labels[0] == labels[1]


def brim(
    times: list[float], sizes: list[float], limit: float, tensors: tuple[MovedTensor, ...] = ()
) -> ThroughputProblem:
    """Two devices, and memory that binds."""
    return ThroughputProblem(
        name="brim",
        kinds=(DeviceKind(name="gpu", count=2, memory_bytes=limit),),
        operators=tuple(
            TimedOperator(id=v, times=(time,), memory_bytes=size)
            for v, (time, size) in enumerate(zip(times, sizes, strict=True))
        ),
        tensors=tensors,
    )


@pytest.mark.parametrize("solver", ["highs", "cpsat", "scip", "free", "exact"])
def test_plans_at_the_very_limit_are_plans(solver: str) -> None:
    """What the evaluator lets through nobody calls impossible: sums that round, and 1 beside 10⁹ within 10⁹."""
    if solver in ("highs", "cpsat", "scip") and not available(solver):
        pytest.skip(f"{solver} is not installed")
    problems = (
        brim([1.0, 2.0, 4.0], [0.1, 0.2, 0.3], 0.3),
        brim([1.0, 2.0, 4.0], [1e9, 1.0, 1e9], 1e9),
        brim([3.0, 3.0, 3.0, 3.0], [0.1, 0.2, 0.2, 0.1], 0.3, (MovedTensor(producer=0, consumers=(1,), size=2.0),)),
    )
    for problem in problems:
        least = brute_force.best_free(problem)
        assert least is not None
        contiguity = "acyclic" if solver == "exact" else "free"
        if solver == "exact":
            least = brute_force.best_acyclic(problem)
        result = solve(problem, contiguity=contiguity, solver=solver, time_limit_s=LIMIT_S)
        assert result.objective == pytest.approx(least)
        assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("solver", ["highs", "cpsat", "scip", "free"])
def test_work_of_sizes_a_million_apart(solver: str) -> None:
    """Plans and proofs meet where sums are those of a large number and small ones."""
    if solver != "free" and not available(solver):
        pytest.skip(f"{solver} is not installed")
    for unit in (1e-6, 1.0, 1e6):
        times = [4e5 * unit, 0.3 * unit, 0.2 * unit, 2e5 * unit, 2e5 * unit, 0.1 * unit, 0.1 * unit]
        problem = brim(times, [0.0] * 7, 1.0)
        least = brute_force.best_free(problem)
        assert least is not None
        outcome = solve(problem, contiguity="free", solver=solver, time_limit_s=LIMIT_S)
        assert outcome.bound is not None
        assert outcome.bound.value <= least * (1 + 1e-15)
        assert outcome.status is Status.OPTIMAL
