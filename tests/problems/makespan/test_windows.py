"""Windows: lags say how long the rest takes, windows do no harm, and searches begin where every heuristic ends."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from instances.strategies import examples
from partita.engines.kernels.makespan.lists import close_window, find_lags, open_window, schedule
from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.baselines import DEFAULT_BASELINES
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.generators import random_makespan_problem
from partita.problems.makespan.heuristics import Heuristic
from partita.problems.makespan.improving import first_schedules, improve
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.solvers import DEFAULT_MAKESPAN_SOLVERS
from partita.problems.makespan.solvers.neighbourhoods import Neighbourhoods
from partita.problems.makespan.windows import Windows
from problems.makespan.brute_force import best_makespan
from problems.makespan.samples import fork_joins
from problems.makespan.strategies import makespan_problems
from problems.makespan.test_exact import FAMILIES, close, needs_program

#: What searches begin with; the learned baseline is none of them.
LISTED = [baseline for baseline in DEFAULT_BASELINES if isinstance(baseline, Heuristic)]


def best_baseline(problem: MakespanProblem) -> float:
    found = math.inf
    for baseline in LISTED:
        plan = baseline.solve(problem, MakespanOptions(), Monitor()).plan
        if plan is not None and (worth := evaluate(problem, plan)).feasible:
            found = min(found, worth.objective)
    return found


@pytest.mark.parametrize("family", ["plain", "switches", "thirds", "chains"])
def test_lags_are_longest_chains(family: str) -> None:
    """No chain is longer than what is left of the schedule, and the longest is all of it."""
    checked = [0]

    @examples(50)
    @given(FAMILIES[family], st.randoms(use_true_random=False))
    def run(problem: MakespanProblem, rng: Any) -> None:
        instance = build_instance(problem)
        a, room, n = instance.arrays, instance.room(), instance.count
        device = np.array([rng.randrange(instance.devices) for _ in range(n)], dtype=np.int32)
        value = schedule(a, device, np.array(instance.order, dtype=np.int32), True, math.inf, room)
        starts, ends = np.concatenate([room.start, room.flow_start]), np.concatenate([room.end, room.flow_end])
        pairs = np.array([(u, v) for u, v, f in instance.edges if f >= 0], dtype=np.int32).reshape(-1, 2)
        rest = np.zeros(n + len(pairs))
        find_lags(a, device, np.lexsort((ends, starts))[::-1].astype(np.int64), pairs, room, rest)
        assert (room.row_lag == 0).all()
        # What takes no time may be seen in another order than it was scheduled.
        assert (starts + rest <= value * (1 + 1e-9)).all()
        if (ends[rest > 0] > starts[rest > 0]).all():
            assert rest.max(initial=0.0) == pytest.approx(value)
        checked[0] += value > 0

    run()
    assert checked[0] >= 15


def test_a_window_of_everything_is_the_whole() -> None:
    """Its own schedule, and none after it has been closed."""
    instance = build_instance(fork_joins(2, blocks=3, separate=False))
    a, room, n = instance.arrays, instance.room(), instance.count
    device, order = np.arange(n, dtype=np.int32) % 4, np.array(instance.order, dtype=np.int32)
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n)
    value = schedule(a, device, order, True, math.inf, room)
    open_window(a, device, order, place, 0, n, np.zeros(n + len(a.cost)), room)
    assert not room.lag.any()
    assert not room.row_lag.any()
    open_window(a, device, order, place, 4, 9, np.ones(n + len(a.cost)), room)
    assert room.lag.any()
    assert room.base.any()
    close_window(order, 4, 9, room)
    assert schedule(a, device, order, True, math.inf, room) == value


@pytest.mark.parametrize("room", [None, 1.1])
@pytest.mark.parametrize("family", ["layered", "branches"])
def test_windows_do_no_harm(family: str, room: float | None) -> None:
    """Better and better schedules, all of which the evaluator takes; the same seed the same ones."""
    problem = random_makespan_problem(5, family=family, nodes=80, devices=3, room=room)
    instance = build_instance(problem)
    values = []
    for _ in range(2):
        best: Incumbent[MakespanPlan] = Incumbent()
        first_schedules(instance, best, seed=0, rounds=0)
        assert best.answer is not None
        before = best.value
        windows = Windows(instance, best.answer, best, seed=1, threads=2, each=1)
        last = windows.now
        for _ in range(15):
            windows.run(rounds=1)
            # What is kept is no worse, and fits.
            held = np.bincount(windows.device, weights=instance.arrays.memory, minlength=instance.devices)
            assert windows.now <= last
            assert (held <= instance.arrays.limit * (1 + 1e-9)).all()
            last = windows.now
        assert best.value < before
        worth = evaluate(problem, best.answer)
        assert worth.feasible
        assert worth.objective == best.value
        values.append(best.value)
    assert values[0] == values[1]


def test_large_problems_have_windows_at_the_same_time() -> None:
    """Threads take windows apart from each other; the answer does not depend on which is done first."""
    problem = random_makespan_problem(2, family="layered", nodes=1400, devices=3)
    instance, values = build_instance(problem), []
    for _ in range(2):
        best: Incumbent[MakespanPlan] = Incumbent()
        first_schedules(instance, best, seed=0, rounds=5)
        assert best.answer is not None
        assert "rounds" not in best.counters or best.counters["rounds"] == 0, "everything at once takes too long"
        windows = Windows(instance, best.answer, best, seed=1, threads=2, each=8)
        for _ in range(40):
            chosen = windows._choose(2)
            assert len(chosen) == 2
            (a, b, *_), (c, d, *_) = sorted(chosen, key=lambda entry: entry[:2])
            assert 0 <= a < b <= c < d <= instance.count
        windows.run(rounds=1)
        values.append(best.value)
    assert values[0] == values[1]


@pytest.mark.parametrize("solver", [solver.name for solver in DEFAULT_MAKESPAN_SOLVERS])
@pytest.mark.parametrize("room", [None, 1.2])
def test_no_baseline_is_better(solver: str, room: float | None) -> None:
    """Stopped as soon as it is as good: it begins with all of them."""
    if solver != "annealing" and schedule_refusal() is not None:
        pytest.skip("ortools is not installed")
    for family in ("layered", "wide", "series-parallel"):
        problem = random_makespan_problem(7, family=family, nodes=60, devices=4, room=room)
        # One solver fuses operators by their types.
        problem = problem.replace(operators=tuple(msgspec.structs.replace(op, type="add") for op in problem.operators))
        least = best_baseline(problem)
        found = pt.solve(problem, solver=solver, target=least, time_limit_s=60.0)
        assert found.objective is not None
        assert found.objective <= least


@pytest.mark.parametrize("family", FAMILIES)
def test_heuristics_are_all_there(family: str) -> None:
    """Before anything is searched."""
    checked = [0]

    @examples(25)
    @given(FAMILIES[family])
    def run(problem: MakespanProblem) -> None:
        best: Incumbent[MakespanPlan] = Incumbent()
        instance = build_instance(problem)
        if not all(instance.choices):
            return
        first_schedules(instance, best, seed=0, rounds=0)
        assert best.value <= best_baseline(problem)
        checked[0] += 1

    run()
    assert checked[0] >= 10


def test_windows_end_by_themselves() -> None:
    """Also without anything to start from, and on one operator."""
    for problem in (fork_joins(1, blocks=2), fork_joins(1, blocks=1, inside=1, devices=1)):
        instance = build_instance(problem)
        best: Incumbent[MakespanPlan] = Incumbent()
        improve(instance, best, seed=0, threads=1, patience=2)
        assert best.answer is None
        first_schedules(instance, best, seed=0, rounds=0)
        improve(instance, best, seed=0, threads=1, patience=2)
        assert best.answer is not None


@needs_program
def test_neighbourhoods_of_everything_find_the_optimum() -> None:
    """They are the whole problem then."""
    better = [0]

    @examples(25)
    @given(makespan_problems(operators=(4, 6), limits=True))
    def run(problem: MakespanProblem) -> None:
        best: Incumbent[MakespanPlan] = Incumbent()
        instance = build_instance(problem)
        first_schedules(instance, best, seed=0, rounds=0)
        if best.answer is None:
            return
        before, search = best.value, Neighbourhoods(instance, best, MakespanOptions(threads=1))
        search.size = float(instance.count)
        search.run(12, lambda: False, lambda: 30.0)
        optimum = best_makespan(problem)
        assert optimum is not None
        assert close(best.value, optimum) or search.tried == 0
        better[0] += best.value < before

    run()
    assert better[0] >= 1


@needs_program
def test_neighbourhoods_do_no_harm() -> None:
    problem = random_makespan_problem(11, family="layered", nodes=30, devices=3, room=1.3)
    instance, best = build_instance(problem), Incumbent[MakespanPlan]()
    first_schedules(instance, best, seed=0, rounds=0)
    before, seen = best.value, []
    best.on_better = lambda value, plan, by: seen.append((value, by))
    search = Neighbourhoods(instance, best, MakespanOptions())
    assert search.run(3, lambda: False, lambda: 60.0)
    assert search.tried == 3
    assert best.value < before
    assert all(by == "neighbourhoods" for _, by in seen)
    assert best.answer is not None
    assert evaluate(problem, best.answer).feasible
