"""Problems made smaller by a split: what is left has every better one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples, throughput_problems
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.solvers import narrowing
from partita.problems.throughput.solvers.combined import CombinedRun, combined_refusal
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.solvers.narrowing import narrowed, single_blocks
from second_opinions.brute_force import all_plans, best_acyclic

problems = throughput_problems(
    kinds=(1, 1), cpus=False, unsupported=False, max_operators=6, max_count=4, supported_somewhere=True
)


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrowing, "LARGE", 0)
    monkeypatch.setattr(narrowing, "SHRINK", 0.99)


def lines(count: int) -> Iterator[ThroughputProblem]:
    """Chains with short detours, whose transfers are small beside the work."""
    rng = np.random.default_rng(12)
    for number in range(count):
        n = int(rng.integers(5, 8))
        readers = [sorted({v + 1, *(v + int(d) for d in rng.integers(2, 4, int(rng.integers(2))))}) for v in range(n)]
        yield ThroughputProblem(
            name=f"line {number}",
            unit="ms",
            kinds=(DeviceKind(name="gpu", count=int(rng.integers(2, 4))),),
            operators=tuple(TimedOperator(id=v, times=(float(rng.integers(1, 9)),)) for v in range(n)),
            tensors=tuple(
                MovedTensor(producer=v, consumers=tuple(w for w in to if w < n), size=float(rng.integers(4)) / 4)
                for v, to in enumerate(readers[:-1])
            ),
        )


def test_every_better_split_is_among_those_left() -> None:
    tied = kept = lost = 0
    for number, problem in enumerate(lines(40)):
        best = best_acyclic(problem)
        assert best
        target = best * (1.0, 1.05, 1.2)[number % 3] * (1 + 1e-9)
        found = narrowed(problem, target)
        if found is None:
            continue
        smaller, most = found
        assert uniform(smaller).items <= most < len(problem.operators)
        tied += 1
        for plan in all_plans(problem, "acyclic"):
            value, left = evaluate(problem, plan).objective, evaluate(smaller, plan).feasible
            assert left or value >= target
            kept += left
            lost += not left
    assert tied > 15
    assert kept > 50
    assert lost > 100


def test_finds_the_optimum() -> None:
    proven = 0

    @examples(60)
    @given(problems, st.sampled_from([1, 2]))
    def check(problem: ThroughputProblem, threads: int) -> None:
        nonlocal proven
        assume(combined_refusal(problem) is None)
        best = best_acyclic(problem)
        outcome = Exact().solve(problem, ThroughputOptions(threads=threads), Monitor())
        assert outcome.infeasible == (best is None)
        if best is not None:
            assert outcome.plan is not None
            assert evaluate(problem, outcome.plan).objective == pytest.approx(best, rel=2e-7, abs=1e-9)
            assert outcome.bound is None or outcome.bound <= best * (1 + 1e-9)
            proven += outcome.bound is not None and outcome.bound >= best * (1 - 2e-7)

    check()
    assert proven > 30


@pytest.mark.parametrize("seed", [0, 3])
def test_as_good_as_without(seed: int) -> None:
    """On graphs whose windows are many; what a search finds is no more than bound and plan without it allow."""
    problem = regal_problem(seed, devices=4)
    one = uniform(problem)
    usual = CombinedRun(problem, ThroughputOptions(), Monitor(1.0)).search(Monitor(1.0))
    assert usual.plan is not None
    value = evaluate(problem, usual.plan).objective
    blocks = single_blocks(one, value)
    assert set(np.unique(blocks).tolist()) <= {-1, 0, 1, 2, 3}
    rounds: list[ThroughputProblem] = []

    def again(now: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        rounds.append(now)
        return CombinedRun(now, options, monitor).search(monitor)

    outcome = narrowing.solve_narrowed(problem, ThroughputOptions(), Monitor(1.5), again)
    assert len(rounds) == 1
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.bound <= value
    assert usual.bound is not None
    assert usual.bound <= evaluate(problem, outcome.plan).objective
