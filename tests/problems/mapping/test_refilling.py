"""Columns that fill islands within a target: what is found is that, and targets that bounds refute are never met."""

from __future__ import annotations

import numpy as np
import pytest

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.mapping.filling import IslandArrays, fill_by_moves
from partita.engines.kernels.random import generator
from partita.engines.search.result import Status
from partita.problems.mapping.bounds.closed_walks import round_within
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.refilling import Refilling
from problems.mapping.large_problems import pipeline_on

#: Nobody stops it.
GO = np.zeros(1, dtype=np.int64)


def longest(a: IslandArrays, where: np.ndarray) -> float:
    """What the slowest replica of columns (R, S) takes."""
    found = 0.0
    for column, before, after in zip(where, np.roll(where, 1, axis=0), np.roll(where, -1, axis=0), strict=True):
        for s, i in enumerate(column):
            load = a.time[s, i] + a.ring[s] * max(a.pace[i, before[s]], a.pace[i, after[s]])
            load += sum(a.weight[k] * a.pace[i, column[a.other[k]]] for k in range(a.ptr[s], a.ptr[s + 1]))
            found = max(found, load)
    return found


@pytest.mark.parametrize("replicas", [3, 4, 6])
@pytest.mark.parametrize("spare", [0, 1])
def test_islands_are_full_and_columns_within_the_target(replicas: int, spare: int) -> None:
    """From columns that are neither, at targets around what columns drawn at random take."""
    met = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        stages, islands = 3, 4
        room = np.bincount(draw.integers(0, islands, replicas * stages + spare), minlength=islands).astype(np.int32)
        room, islands = room[room > 0], int((room > 0).sum())
        pace = draw.random((islands, islands))
        pace = pace + pace.T
        np.fill_diagonal(pace, 0.1)
        a = IslandArrays(
            time=draw.random((stages, islands)),
            pace=pace,
            room=room,
            exact=spare == 0,
            ptr=np.array([0, 1, 3, 4], dtype=np.int32),
            other=np.array([1, 0, 2, 1], dtype=np.int32),
            weight=np.array([1.0, 1.0, 0.5, 0.5]),
            ring=draw.random(stages),
        )
        anyhow = draw.permutation(np.repeat(np.arange(islands), room))[: replicas * stages].reshape(replicas, stages)
        where = draw.integers(0, islands, (replicas, stages)).astype(np.int32)
        target = longest(a, anyhow) * float(draw.uniform(0.8, 1.1))
        if fill_by_moves(a, where, target, Cooling(1.0, 0.02, 20_000), generator(seed), GO):
            met += 1
            held = np.bincount(where.ravel(), minlength=islands)
            assert (held == room).all() if a.exact else (held <= room).all()
            assert longest(a, where) <= target * (1 + 1e-9)
    assert met > 3


def test_mappings_are_made_where_rounds_are_not_refuted() -> None:
    problem = pipeline_on("random-blk-2:24:seed=3", 4, 6, 1)
    instance = MappingInstance(problem)
    refilling, device = Refilling(instance), np.arange(24, dtype=np.int32)
    value, found = evaluate(problem, instance.plan(device)).objective, 0
    for number in range(12):
        target = value * 0.9
        near = refilling.filled(device, target, Cooling(1.0, 0.02, 50_000), generator(number), GO)
        if near is None:
            break
        assert sorted(near.tolist()) == list(range(24))
        assert round_within(instance, refilling.islands, target, lambda: False).status is Status.FEASIBLE
        device, value, found = near, target, found + 1
    assert found > 1
    assert refilling.filled(device, value / 10, Cooling(1.0, 0.02, 1_000), generator(0), GO) is None


def test_problems_without_islands_to_fill() -> None:
    for where, stages, replicas in (("mesh:3x4", 3, 4), ("random-blk-2:12:seed=1", 6, 2)):
        assert not Refilling(MappingInstance(pipeline_on(where, stages, replicas, 1))).islands


def test_groups_of_columns_fill_islands_in_one_way() -> None:
    """On machines of four, four columns of seven stages fill seven; a target that nothing meets is not met."""
    problem = pipeline_on("two-level:14x4", 7, 8, 7)
    instance = MappingInstance(problem)
    refilling = Refilling(instance)
    assert refilling.group == 4
    first = evaluate(problem, instance.plan(np.arange(instance.count, dtype=np.int32))).objective
    cooling = Cooling(1.0, 0.05, 100_000)
    device = refilling.repeated(0.95 * first, cooling, generator(0), GO)
    assert device is not None
    assert sorted(device.tolist()) == list(range(56))
    assert evaluate(problem, instance.plan(device)).objective < 0.95 * first
    machines = (device // 4).reshape(7, 8)
    assert np.array_equal(machines[:, :4] + 7, machines[:, 4:])
    assert refilling.repeated(float(instance.arrays.time.max()), cooling, generator(0), GO) is None


@pytest.mark.parametrize(("where", "stages", "replicas"), [("random-blk-1:16", 4, 4), ("two-level:4x4", 4, 4)])
def test_islands_that_differ_or_are_all_filled_by_one_group_have_none(where: str, stages: int, replicas: int) -> None:
    assert Refilling(MappingInstance(pipeline_on(where, stages, replicas, 0))).group == 0
