"""More pieces are never worse: a plan with fewer is one with more."""

from __future__ import annotations

import itertools

import pytest

import partita as pt
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.latency.annealing import PlacementSearch
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.solvers import _beside_one_piece
from partita.problems.latency.view import View
from problems.latency.random_problems import random_problem


def solved(problem: LatencyProblem) -> float | None:
    return pt.solve(problem, time_limit_s=30.0).objective


@pytest.mark.parametrize("training", [False, True])
def test_one_more_is_never_worse(training: bool) -> None:
    """On problems that are solved by trying everything."""
    strict = 0
    for seed in range(25):
        values = [solved(random_problem(seed, most=6, training=training, pieces=q)) for q in (1, 2, 3)]
        for fewer, more in itertools.pairwise(values):
            assert (fewer is None) <= (more is None) or more is not None
            if fewer is not None:
                assert more is not None
                assert more <= fewer * (1 + 1e-9)
                strict += more < fewer * (1 - 1e-9)
    assert training or strict >= 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("limit", [None, 3.0])
def test_annealing_has_the_plan_of_one_piece(threads: int, limit: float | None) -> None:
    """Whether rounds are counted or not; the same seed makes the same rounds of one piece."""
    problem = random_problem(17, most=14, pieces=1).replace(accelerators=3)
    view, alone = View(problem), Incumbent[LatencyPlan]()
    one = PlacementSearch(view, alone, 3)
    one.begin()
    one.run(rounds=2)
    wide, best = problem.replace(pieces=3), Incumbent[LatencyPlan]()
    search = PlacementSearch(View(wide), best, 3)
    count = 2.0 if limit is None else float("inf")
    monitor = Monitor(limit)
    if limit is not None:
        best.on_better = lambda value, *_: best.end() if value <= alone.value else None
    _beside_one_piece(search.view, search, SearchOptions(seed=3, threads=threads), best, count, monitor)
    assert best.answer is not None
    assert best.value <= alone.value
    assert evaluate(wide, best.answer).feasible
