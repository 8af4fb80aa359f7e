"""Groups of columns in islands that are alike, and bounds and mappings of columns with many parts."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest

from partita.engines.mip.backend import BackendSettings, Talk
from partita.engines.mip.cpsat import solve
from partita.engines.mip.model import QUIET
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds import columns
from partita.problems.mapping.bounds.columns import columns_bound
from partita.problems.mapping.bounds.part_program import PartProgram
from partita.problems.mapping.bounds.parts import partitions
from partita.problems.mapping.bounds.repeating import columns_that_fill, group_of
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import chains
from problems.mapping.brute_force import best_objective
from problems.mapping.large_problems import heavy_ring, pipeline_on
from problems.mapping.random_problems import random_problem

pytest.importorskip("ortools")


@pytest.mark.parametrize("stated", [False, True])
def test_a_group_has_the_numbers_of_all_columns(*, stated: bool) -> None:
    """Rings of as many bytes; without rings a repeated mapping takes as long, whoever says how many replicas."""
    problem = pipeline_on("dgx1:4", 4, 8, 1, "point-to-point")
    if stated:
        stages = tuple(msgspec.structs.replace(stage, replicas=8) for stage in problem.stages)
        problem = problem.replace(replicas=4, stages=stages)
    instance = MappingInstance(problem)
    islands = next(partitions(instance))
    assert columns_that_fill(instance, islands) == 4
    group = group_of(instance, islands)
    assert group is not None
    small = group.column.instance
    assert (small.replicas, small.devices, len(group.islands)) == (4, 16, 2)
    assert np.allclose(small.weight, instance.weight)
    device = chains(small)
    repeated = group.repeated(device)
    assert len(set(repeated.tolist())) == instance.count
    alone = evaluate(small.problem, small.plan(device)).objective
    assert evaluate(problem, instance.plan(repeated)).objective == pytest.approx(alone)
    rings = MappingInstance(problem.replace(form="both"))
    ring_group = group_of(rings, islands)
    assert ring_group is not None
    assert np.allclose(ring_group.column.instance.ring, rings.ring)


@pytest.mark.parametrize(
    ("where", "stages", "replicas"), [("random-blk-1:24", 4, 6), ("dgx1:4", 3, 8), ("dgx1:3", 8, 3)]
)
def test_there_is_no_group_where_islands_differ_or_devices_are_left(where: str, stages: int, replicas: int) -> None:
    """Nor where all columns are needed to have three."""
    instance = MappingInstance(pipeline_on(where, stages, replicas, 1))
    assert group_of(instance, next(partitions(instance))) is None


def test_machines_that_take_unlike_times_are_not_alike() -> None:
    """On one of four machines a stage takes twice as long."""
    problem = pipeline_on("dgx1:4", 4, 8, 1)
    slower = (*[1e-3] * 24, *[2e-3] * 8)
    stages = (msgspec.structs.replace(problem.stages[0], time_s=None, times_s=slower), *problem.stages[1:])
    instance = MappingInstance(problem.replace(stages=stages))
    assert group_of(instance, next(partitions(instance))) is None


def test_rings_of_a_group_do_not_close() -> None:
    """A ring that has to stay inside a machine does with all of its replicas, but not with some that others follow."""
    instance = MappingInstance(heavy_ring("dgx1:4", 4, 8))
    group = group_of(instance, next(partitions(instance)))
    assert group is not None
    # Only one link of eight is so slow that the ring takes as long.
    limit, answers = up_to(0.99 * 1e9 * 7 / 8 * 2 / 1.4e9), []
    for closed in (True, False):
        program = PartProgram(group.column, group.islands, limit, lambda: False, closed=closed)
        group.column.forget()
        answers.append(solve(program.model, BackendSettings(), Talk(program.model, QUIET, None)).infeasible)
    assert answers == [False, True]


def test_many_parts_say_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of small problems, as if their parts were many, and mappings of machines that are alike."""
    monkeypatch.setattr(columns, "_FEW_PARTS", 0)
    looked = 0
    for seed in range(40):
        problem = random_problem(seed, "both")
        instance = MappingInstance(problem)
        best = best_objective(problem)
        assert best is not None
        if best > 0 and next(partitions(instance), None):
            looked += 1
            found = columns_bound(instance, best / 2, partial(float, 2 * best), lambda: False)
            assert found <= best * (1 + 1e-9)
        if looked == 6:
            break
    assert looked == 6
    problem = pipeline_on("dgx1:4", 4, 8, 1)
    instance = MappingInstance(problem)
    made: list[float] = [evaluate(problem, instance.plan(chains(instance))).objective]
    low = columns_bound(
        *(instance, made[0] / 10, lambda: min(made), lambda: False, lambda value: None),
        lambda device, target: made.append(evaluate(problem, instance.plan(device)).objective),
    )
    assert len(made) > 1
    assert low <= min(made)
