"""The exact contiguous solver against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from instances.strategies import examples, random_problem, throughput_problems
from partita.engines.kernels.throughput.search_state import FOUND, REFUTED
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.solvers.exact import Exact, Slicing
from partita.problems.throughput.solvers.plain import PlainSearcher, plain_view
from partita.problems.throughput.solvers.race import Decision
from partita.problems.throughput.solvers.view import PhaseLoads
from partita.problems.throughput.variants import variants_of
from problems.throughput.check_exact import check_exact
from second_opinions.brute_force import best_acyclic


def check_against_brute_force(problem: ThroughputProblem) -> None:
    assume(Exact().supports(problem, ThroughputOptions()) is None)
    best = check_exact(problem)
    if best is None:
        return
    # The variants have a search of their own, with tests of its own.
    if not variants_of(problem):
        check_decisions(problem, best)


def check_decisions(problem: ThroughputProblem, best: float) -> None:
    """Without the heuristic, which hides a wrong refutation where it happens to be optimal."""
    for backwards in (None, True):
        prepared = plain_view(problem, backwards=backwards)
        searcher = PlainSearcher(prepared, 2 * best + 1)
        decision = Decision(searcher, PhaseLoads(best))
        assert decision.run(1 << 40, np.zeros(1, dtype=np.int64)) == FOUND
        split = decision.split()
        assert prepared.value(split).both <= best + 1e-9
        assert evaluate(problem, prepared.plan(split)).feasible
        if best > 0:
            below = Decision(searcher, PhaseLoads(best * (1 - 1e-6)))
            assert below.run(1 << 40, np.zeros(1, dtype=np.int64)) == REFUTED


quick = settings(examples(90), suppress_health_check=list(HealthCheck))


@quick
@given(throughput_problems())
def test_any_problem(problem: ThroughputProblem) -> None:
    check_against_brute_force(problem)


@quick
@given(throughput_problems(memory=True, unsupported=False, max_operators=8, schedules=("1f1b", "gpipe")))
def test_memory_binds(problem: ThroughputProblem) -> None:
    check_against_brute_force(problem)


@quick
@given(throughput_problems(training=True, memory=True, unsupported=False, kinds=(1, 2), max_operators=9))
def test_training(problem: ThroughputProblem) -> None:
    check_against_brute_force(problem)


@quick
@given(
    throughput_problems(
        training=False, memory=False, unsupported=False, colocation=False, kinds=(1, 2), max_operators=9
    )
)
def test_inference(problem: ThroughputProblem) -> None:
    check_against_brute_force(problem)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(throughput_problems(max_operators=8), st.integers(0, 3))
def test_slicing_is_feasible_and_its_bound_valid(problem: ThroughputProblem, seed: int) -> None:
    assume(Slicing().supports(problem, ThroughputOptions()) is None)
    outcome = Slicing().solve(problem, ThroughputOptions(seed=seed), Monitor())
    best = best_acyclic(problem)
    if outcome.plan is not None:
        assert best is not None
        evaluation = evaluate(problem, outcome.plan)
        assert evaluation.feasible
        assert evaluation.objective >= best - 1e-9
    if best is not None:
        assert not outcome.infeasible
        assert outcome.bound is not None
        assert outcome.bound <= best * (1 + 1e-9)


def solve(problem: ThroughputProblem, seed: int, threads: int = 2) -> Outcome:
    return Exact().solve(problem, ThroughputOptions(seed=seed, threads=threads), Monitor())


@pytest.mark.parametrize("training", [False, True])
def test_same_seed_same_answer(training: bool) -> None:
    problem = random_problem(5, 60, devices=4, training=training)
    first, second = solve(problem, 1), solve(problem, 1)
    assert first == second


@pytest.mark.parametrize("number", range(4))
def test_seeds_and_threads_agree_on_the_optimum(number: int) -> None:
    problem = random_problem(number, 40, devices=5)
    bounds = {round(solve(problem, seed, threads).bound or 0.0, 6) for seed, threads in [(0, 1), (1, 2), (2, 1)]}
    assert len(bounds) == 1
