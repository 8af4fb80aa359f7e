"""Which points of a sweep ask which: those that relax them with none between."""

from __future__ import annotations

import random
from typing import Any

import pytest

import partita as pt
from partita.conductor import sweep
from partita.conductor.sweep import _above, _nearest, _waves
from partita.engines.search.result import Rival
from partita.problems.throughput.generators.regal import regal_problem


def drawn(seed: int) -> list[list[int]]:
    """By point those that relax it: points of a few coordinates, some of them equal, each at least as large."""
    rng = random.Random(seed)
    places = [tuple(rng.randint(0, 2) for _ in range(3)) for _ in range(14)]
    return [
        [j for j, other in enumerate(places) if j != i and all(x >= y for x, y in zip(other, place, strict=True))]
        for i, place in enumerate(places)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_points_ask_those_without_one_between(seed: int) -> None:
    above = drawn(seed)
    order = sorted(range(len(above)), key=lambda i: (len(above[i]), i))
    before = [{j for j in above[i] if order.index(j) < order.index(i)} for i in range(len(above))]
    nearest = _nearest(order, above)
    assert nearest == [sorted(j for j in mine if not any(j in before[k] for k in mine)) for mine in before]
    assert sum(map(len, nearest)) < sum(map(len, before))
    waves = _waves(order, nearest)
    level = {i: number for number, wave in enumerate(waves) for i in wave}
    assert sorted(level) == list(range(len(above)))
    assert all(level[j] < level[i] for i in level for j in before[i])


@pytest.mark.parametrize("seed", range(20))
def test_who_relaxes_whom_without_asking_of_all(seed: int) -> None:
    above = drawn(seed)
    asked: list[tuple[int, int]] = []

    def relaxes(easier: int, harder: int) -> bool:
        asked.append((easier, harder))
        return easier in above[harder]

    assert _above(len(above), relaxes) == above
    assert len(set(asked)) == len(asked) < len(above) * (len(above) - 1)


def test_neighbours_along_an_axis_are_enough() -> None:
    asked: list[tuple[int, int]] = []
    found = _above(50, lambda j, i: bool(asked.append((j, i))) or j > i)
    assert found == [list(range(i + 1, 50)) for i in range(50)]
    assert len(asked) == 2 * 49


def test_answers_reach_all_points_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan is judged by its two neighbours only, and points without a gap left are not searched."""
    judged, before = [], sweep.judge_plan

    def judge(problem: Any, name: str, summary: str, plan: Any) -> Rival:
        judged.append(name)
        return before(problem, name, summary, plan)

    monkeypatch.setattr(sweep, "judge_plan", judge)
    problem = regal_problem(2, family="layered", nodes=12, devices=3, noise="operator")
    factors = [1.0 + step / 8 for step in range(12)]
    found = pt.sweep(problem, bandwidth=factors, time_limit_s=20.0)
    assert all(point.result.status == "optimal" for point in found.points)
    assert len(judged) == 2 * (len(factors) - 1)
    worth = [point.result.objective for point in found.points]
    assert worth == sorted(worth, reverse=True)
