"""The exact solver against trying everything."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.strategies import examples
from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.solvers import decision, exact
from problems.hybrid.brute_force import best_objective
from problems.hybrid.check_exact import check_exact
from problems.hybrid.independent_evaluator import judge
from problems.hybrid.strategies import hybrid_problems


def check_against_everything(problem: HybridProblem) -> None:
    check_exact(problem, best_objective(problem))


@given(hybrid_problems())
@settings(max_examples=100)
def test_equals_trying_everything(problem: HybridProblem) -> None:
    check_against_everything(problem)


@pytest.mark.slow
@given(hybrid_problems())
@settings(max_examples=1000, derandomize=False)
def test_equals_trying_everything_often(problem: HybridProblem) -> None:
    check_against_everything(problem)


@given(hybrid_problems())
@settings(max_examples=40)
def test_a_plan_from_a_few_orders_changes_nothing(problem: HybridProblem) -> None:
    """Large graphs are first planned along a few orders; small ones are here made to take that way, too."""
    with mock.patch.object(exact, "FEW_SETS", 0):
        check_against_everything(problem)


@given(hybrid_problems())
@settings(max_examples=60)
def test_times_that_are_not_remembered_change_nothing(problem: HybridProblem) -> None:
    with mock.patch.object(decision, "_MOST_STAGES", 0):
        check_against_everything(problem)


@given(hybrid_problems())
@settings(max_examples=40)
def test_too_many_sets_give_a_plan_with_a_valid_bound(problem: HybridProblem) -> None:
    with mock.patch.object(exact, "MOST_SETS", 1):
        outcome = exact.HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    expected = best_objective(problem)
    assert expected is None or not outcome.infeasible
    if outcome.plan is not None:
        value, broken = judge(problem, outcome.plan)
        assert broken == []
        assert expected is not None
        assert value >= expected * (1 - 1e-9)
        assert (outcome.bound or 0.0) <= expected * (1 + 1e-9)


@given(st.data())
@examples(25)
def test_the_choice_of_configurations_is_exact(data: st.DataObject) -> None:
    """One device and one stage: nothing but the knapsack is left."""
    amount = st.integers(0, 30)
    kinds = data.draw(st.integers(1, 4))
    spaces = [
        tuple(
            Configuration(
                id=str(k),
                time=data.draw(amount),
                memory_per_microbatch_bytes=data.draw(amount),
                memory_bytes=data.draw(amount),
            )
            for k in range(data.draw(st.integers(1, 4)))
        )
        for _ in range(kinds)
    ]
    count = data.draw(st.integers(1, 5))
    layers = tuple(Layer(id=v, configurations={1: data.draw(st.sampled_from(spaces))}) for v in range(count))
    check_against_everything(
        HybridProblem(
            name="knapsack",
            devices=1,
            memory_bytes=data.draw(st.integers(0, 40 * count)),
            bandwidth_bytes_per_unit=1.0,
            microbatches=1,
            layers=layers,
        )
    )


def test_replicas_share_out_memory() -> None:
    """One layer with 2 bytes of its own and 12 that replicas share: 6 bytes are enough from three replicas on."""
    way = Configuration(id="c", time=6.0, weight_bytes=1.0, memory_bytes=2.0, sharded_bytes=12.0)
    problem = HybridProblem(
        name="shared",
        devices=2,
        memory_bytes=6.0,
        bandwidth_bytes_per_unit=1.0,
        microbatches=6,
        layers=(Layer(id=0, configurations={1: (way,)}),),
    )
    few = exact.HybridExact().solve(problem, HybridOptions(), Monitor(60.0))
    assert few.plan is None
    assert few.infeasible
    three = exact.HybridExact().solve(problem.replace(devices=3), HybridOptions(), Monitor(60.0))
    assert three.plan is not None
    assert three.plan.stages[0].data_parallel == 3
    found = evaluate(problem.replace(devices=3), three.plan)
    assert found.stages[0].memory_bytes == 6.0
    assert found.objective == pytest.approx(6 / 3 + 4 * 2 / 9)
