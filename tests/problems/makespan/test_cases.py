"""Horizons refuted case by case, against the best schedules."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds import cases
from partita.problems.makespan.bounds.cases import Cases
from partita.problems.makespan.bounds.energetic import Energetic, narrowed
from partita.problems.makespan.bounds.multipliers import multiplier_bound
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanOperator, MakespanProblem
from problems.makespan.brute_force import best_makespan
from problems.makespan.samples import problem_of


def drawn(seed: int, operators: int = 5) -> MakespanProblem:
    """Few operators, transfers that are dear, and devices some of which can change places."""
    rng = random.Random(seed)
    devices = rng.choice((2, 3, 3))
    speed = [rng.choice((1.0, 1.0, 2.0)) for _ in range(devices)]
    dear = rng.choice((0.5, 2.0, 4.0))
    edges = [(u, v) for v in range(1, operators) for u in range(v) if rng.random() < 0.45]
    times = [tuple(base * s for s in speed) for base in [rng.randint(1, 6) / 2 for _ in range(operators)]]
    return problem_of(times, {edge: dear * rng.randint(1, 4) / 2 for edge in edges})


@cache
def known(seed: int) -> float:
    """The best makespan of what is drawn."""
    found = best_makespan(drawn(seed))
    assert found is not None
    return found


@pytest.mark.parametrize("most", [0.0, 0.7], ids=["prices everywhere", "as it is"])
def test_never_above_the_best_schedule(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "_FULL", most)
    better = met = 0
    for seed in range(30):
        problem = drawn(seed)
        best = known(seed)
        plain, found = (bound.bound(problem, Monitor(30.0)).value for bound in (Energetic(), Cases()))
        assert plain * (1 - 1e-3) <= found <= best * (1 + 1e-9), seed
        better += found > plain * 1.01
        met += found > best * 0.99
    assert better >= 6
    assert met >= 8


def test_a_chain_that_cannot_move() -> None:
    """Moving takes longer than all of it, so that what runs beside the chain has to wait for its device, too."""
    edges = [(v, v + 1) for v in range(5)] + [edge for v in range(4) for edge in ((v, 6 + v), (6 + v, v + 2))]
    problem = problem_of([(1.0, 1.0, 1.0)] * 10, dict.fromkeys(edges, 100.0))
    assert Energetic().bound(problem, Monitor(30.0)).value < 9.5
    assert Cases().bound(problem, Monitor(30.0)).value == pytest.approx(10.0, rel=2e-3)


def test_prices_where_operators_may_be() -> None:
    """Least over the placements that are allowed: no more than the best of these, and more than with all of them."""
    more = 0
    for seed in range(24):
        problem = drawn(seed, operators=4)
        instance, rng = build_instance(problem), np.random.default_rng(seed)
        able = instance.able.copy()
        v = int(rng.integers(instance.count))
        d = int(rng.integers(instance.devices))
        able[v] = False
        able[v, d] = True
        bound = multiplier_bound(instance, Monitor(30.0), able=able)
        times = [
            tuple(t if able[u, x] else None for x, t in enumerate(op.times)) for u, op in enumerate(problem.operators)
        ]
        limited = problem.replace(
            operators=tuple(
                MakespanOperator(id=op.id, times=row) for op, row in zip(problem.operators, times, strict=True)
            )
        )
        best = best_makespan(limited)
        assert best is not None
        assert bound <= best * (1 + 1e-9), seed
        left = narrowed(instance, best * (1 + 1e-6), able, Monitor(30.0), np.zeros(1, dtype=np.int64))
        assert left is not None
        more += bound > 1.01 * multiplier_bound(instance, Monitor(30.0))
    assert more >= 5


def test_two_chains_share_the_weight_of_one() -> None:
    """Two towers on a fast device and two slow ones: one chain, or the work, says less than both together."""
    edges = [(u, u + 1) for u in range(19) if u != 9]
    problem = problem_of([(1.0, 4.0, 4.0)] * 20, dict.fromkeys(edges, 0.1))
    # Of two chains of 10, the share x of one that is slow takes 10 + 30 x, the fast device 20 − 20 x with both so.
    instance = build_instance(problem)
    assert simple_bound(instance) < 14.0
    assert multiplier_bound(instance, Monitor(30.0)) > 15.5
