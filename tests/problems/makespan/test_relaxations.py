"""Linear relaxations that heuristics round: what they leave, against what is known of the best schedules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import partita as pt
from partita.engines.mip.model import MixedProgram, ProgramResult
from partita.engines.mip.solve import available
from partita.engines.search.monitor import Monitor
from partita.ground.errors import SolverCrashError
from partita.problems.makespan import relaxations
from partita.problems.makespan.baselines import DEFAULT_BASELINES
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.relaxations import device_fractions, favourite_children
from problems.makespan.samples import fork_joins, problem_of
from problems.makespan.test_baselines import PAPER

pytestmark = pytest.mark.skipif(not available("highs"), reason="highspy is not installed")


def objective(name: str, problem: MakespanProblem) -> float:
    """What a baseline takes."""
    solver = next(one for one in DEFAULT_BASELINES if one.name == name)
    plan = solver.solve(problem, MakespanOptions(), Monitor()).plan
    assert plan is not None
    return evaluate(problem, plan).objective


def test_the_favourite_is_on_the_longest_way_not_behind_the_costliest_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer with two readers: the one behind the cheaper flow has a long chain after it."""
    problem = problem_of([(1.0, 1.0)] * 3 + [(9.0, 9.0)], {(0, 1): 4.0, (0, 2): 3.0, (2, 3): 0.5})
    assert favourite_children(build_instance(problem)) == {2: 0, 3: 2}
    better = objective("m-SCT", problem)
    assert better == 11.0
    monkeypatch.setattr(relaxations, "MOST_VARIABLES", 0)
    assert favourite_children(build_instance(problem)) is None
    assert objective("m-SCT", problem) > better


def test_schedules_are_found_greedily_where_the_program_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = fork_joins(5, blocks=3)
    with monkeypatch.context() as greedy:
        greedy.setattr(relaxations, "MOST_VARIABLES", 0)
        expected = [objective(name, problem) for name in ("m-SCT", "GETF")]
    asked = []

    def crash(model: MixedProgram, backend: str, **others: object) -> ProgramResult:
        asked.append(backend)
        raise SolverCrashError("highs", "failed", "")

    monkeypatch.setattr(relaxations, "solve_program", crash)
    assert [objective(name, problem) for name in ("m-SCT", "GETF")] == expected
    assert asked == ["highs", "highs"]


def test_nobody_has_two_favourites() -> None:
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        edges = {(u, v): float(rng.uniform(0.5, 3)) for v in range(1, 9) for u in range(v) if rng.random() < 0.4}
        problem = problem_of([(float(t), float(t)) for t in rng.uniform(1, 4, 9)], edges)
        parent = favourite_children(build_instance(problem))
        assert parent is not None
        assert all((u, v) in edges for v, u in parent.items())
        assert max(Counter(parent.values()).values(), default=0) <= 1
        found += len(parent)
    assert found > 40


@pytest.mark.parametrize("problem", [PAPER, fork_joins(3, blocks=2)], ids=["paper", "fork-joins"])
def test_fractions_end_no_later_than_the_best_schedule(problem: MakespanProblem) -> None:
    instance = build_instance(problem)
    fractions = device_fractions(instance)
    assert fractions is not None
    assert fractions.sum(axis=1) == pytest.approx(np.ones(instance.count))
    least = pt.solve(problem, time_limit_s=20.0, explain=False).objective
    assert least is not None
    taken = fractions * np.where(np.isfinite(instance.arrays.time), instance.arrays.time, 0.0)
    assert taken.sum(axis=0).max() <= least * (1 + 1e-6)
    end = np.zeros(instance.count)
    for v in instance.order:
        end[v] = max([0.0, *(end[u] for u, _ in instance.before[v])]) + taken[v].sum()
    assert end.max() <= least * (1 + 1e-6)


def test_groups_are_as_fast_as_half_of_an_operator_and_fast_as_a_whole() -> None:
    """One device four times as fast, six slow ones: a chain keeps to the fast one, many at once go to the many."""
    chain = problem_of([(1.0,) + (4.0,) * 6] * 6, {(v, v + 1): 0.0 for v in range(5)})
    assert objective("GETF", chain) == 6.0
    many = problem_of([(1.0,) + (4.0,) * 6] * 40, {})
    assert objective("GETF", many) <= 28.0
