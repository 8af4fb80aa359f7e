"""Whole columns against trying everything, and against assignment replica by replica on more devices."""

from __future__ import annotations

import numpy as np
import pytest

from partita.engines.kernels.mapping.placing import FOUND, GAVE_UP, NONE
from partita.engines.search.incumbent import Incumbent
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.exact import settle
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import consecutive
from partita.problems.mapping.problem import Form, MappingProblem, Placement
from partita.problems.mapping.whole_columns import WholeColumns, settle_columns
from problems.mapping.brute_force import best_objective
from problems.mapping.large_problems import pipeline_on
from problems.mapping.random_problems import random_problem


def settled(problem: MappingProblem, *, by_columns: bool = True) -> Incumbent[Placement]:
    instance, best = MappingInstance(problem), Incumbent[Placement]()
    instance.offer(best, consecutive(instance), "construction")
    if by_columns:
        settle_columns(instance, best)
    else:
        settle(instance, best)
    assert best.answer is not None
    assert evaluate(problem, best.answer).feasible
    return best


@pytest.mark.parametrize("form", ["both", "point-to-point", "all-reduce"])
def test_columns_find_and_prove_the_optimum(form: Form) -> None:
    seen = 0
    for seed in range(300):
        problem = random_problem(seed, form)
        if problem.replicas == 1:
            continue
        best, found = best_objective(problem), settled(problem)
        assert found.value == pytest.approx(best, rel=1e-6), problem.name
        assert found.closed
        seen += 1
    assert seen > 150


@pytest.mark.parametrize(
    ("where", "stages", "replicas", "seed"),
    [
        ("uniform:9", 3, 3, 1),
        ("uniform:12", 3, 4, 0),
        ("mesh:3x3", 3, 3, 0),
        ("random-blk-2:10:nodes=3", 2, 5, 0),
        ("random-blk-2:10:nodes=3", 2, 4, 1),
        ("random-blk-1:10:nodes=3", 3, 3, 1),
        ("torus:3x4", 2, 6, 2),
    ],
)
def test_columns_and_replicas_one_by_one_agree(where: str, stages: int, replicas: int, seed: int) -> None:
    """Rings of several columns, spare devices, and devices that are alike."""
    problem = pipeline_on(where, stages, replicas, seed)
    one, other = settled(problem), settled(problem, by_columns=False)
    assert one.closed
    assert other.closed
    assert one.value == pytest.approx(other.value, rel=1e-6)


def test_it_gives_up_where_columns_or_rings_are_too_many() -> None:
    problem = pipeline_on("uniform:9", 3, 3, 1)
    instance, best, device = MappingInstance(problem), Incumbent[Placement](), np.empty(9, dtype=np.int32)
    columns, value = WholeColumns(instance), settled(problem).value
    assert columns.ask(value * 1.001, 1000, best, device) == FOUND
    assert evaluate(problem, instance.plan(device)).objective <= value * 1.001
    assert columns.ask(value * 0.999, 10**6, best, device) == NONE
    assert columns.ask(value * 0.999, 0, best, device) == GAVE_UP
    best.end()
    assert columns.ask(value * 0.999, 10**6, best, device) == GAVE_UP
    # Nearly any place will do, of which there are more than are kept.
    many = WholeColumns(MappingInstance(pipeline_on("uniform:64", 8, 8, 0)))
    assert many.ask(1e9, 10**6, Incumbent[Placement](), np.empty(64, dtype=np.int32)) == GAVE_UP
