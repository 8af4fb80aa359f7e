"""Cheapest walks of columns, and columns that others can stand for, against trying all of a few."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from partita.engines.kernels.mapping.column_graph import distances, drop_columns, drop_replaceable
from partita.engines.kernels.mapping.rounds import fill_islands, least_walk
from partita.engines.kernels.random import generator


def rows(near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ptr = np.concatenate([[0], np.cumsum(near.sum(axis=1))]).astype(np.int64)
    return ptr, np.nonzero(near)[1].astype(np.int32)


def graph(seed: int, count: int) -> np.ndarray:
    near = np.random.default_rng(seed).random((count, count)) < 0.5
    return near | near.T


@pytest.mark.parametrize("states", [1, 4])
def test_the_cheapest_walk_and_all_that_are_within_a_goal(states: int) -> None:
    looked, steps, count = 0, 3, 5
    for seed in range(30):
        draw = np.random.default_rng(seed)
        near, costs = graph(seed, count), draw.normal(size=count)
        ptr, beside = rows(near)
        visits = draw.integers(0, states, count).astype(np.int32)
        places = np.zeros((steps + 1, count, states), dtype=bool)
        places[1:-1] = draw.random((steps - 1, count, states)) < 0.8
        places[0, np.arange(count), visits] = places[-1, :, -1] = True
        goal, before = float(draw.normal()), places.copy()
        expected, within = np.inf, np.zeros_like(places)
        for walk in itertools.product(range(count), repeat=steps + 1):
            states_of = np.bitwise_or.accumulate(visits[list(walk)])
            if not all(near[a, b] for a, b in itertools.pairwise(walk)) or states_of[-1] != states - 1:
                continue
            if places[range(steps + 1), walk, states_of].all():
                value = costs[list(walk[:-1])].sum()
                expected = min(expected, value)
                if value <= goal:
                    within[range(steps), walk[:-1], states_of[:-1]] = True
        found = np.empty(steps + 1, dtype=np.int32)
        least = least_walk(
            ptr, beside, costs, goal, visits, places, np.empty(places.shape), np.empty(places.shape), found
        )
        assert least == pytest.approx(expected)
        if np.isfinite(least):
            assert costs[found[:-1]].sum() == pytest.approx(least)
            assert all(near[a, b] for a, b in itertools.pairwise(found))
            assert before[range(steps + 1), found, np.bitwise_or.accumulate(visits[found])].all()
        if least <= goal:
            looked += 1
            assert (places[:-1] == within[:-1]).all()
    assert looked > 5


def test_columns_are_dropped_only_where_another_one_can_stand_for_them() -> None:
    """Whether there are rounds with so many of each group stays as it is."""
    dropped, count = 0, 5
    for seed in range(40):
        near = graph(seed, count)
        ptr, beside = rows(near)
        group = np.random.default_rng(seed).integers(0, 2, count).astype(np.int32)
        order, kept = np.argsort(group, kind="stable").astype(np.int32), np.ones(count, dtype=bool)
        dropped += drop_replaceable(ptr, beside, group, order, kept)

        def rounds(among: np.ndarray, near: np.ndarray = near, group: np.ndarray = group) -> set[int]:
            """How many columns of the second group rounds of three can have."""
            turns = itertools.product(np.flatnonzero(among), repeat=3)
            return {int(group[list(t)].sum()) for t in turns if near[t, np.roll(t, -1)].all()}

        assert rounds(kept) == rounds(np.ones(count, dtype=bool))
        pairs = drop_columns(ptr, beside, kept)
        assert pairs == near[np.ix_(kept, kept)].sum()
        assert (rows(near & kept[:, None] & kept[None, :])[1] == beside[:pairs]).all()
    assert dropped > 20
    # Neither stands for the other: the one is beside itself, the other one is not.
    ptr, beside = rows(np.array([[True, True], [True, False]]))
    kept, same = np.ones(2, dtype=bool), np.zeros(2, dtype=np.int32)
    assert drop_replaceable(ptr, beside, same, np.array([1, 0], dtype=np.int32), kept) == 1
    assert kept.tolist() == [True, False]


def test_distances_are_steps() -> None:
    near = np.zeros((5, 5), dtype=bool)
    near[[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]] = True
    found = distances(*rows(near), np.ones(5, dtype=bool), np.array([True, False, False, False, False]))
    assert found.tolist() == [0, 1, 2, 5, 5]
    kept = np.array([True, False, True, True, True])
    assert distances(*rows(near), kept, np.array([True, False, False, False, False])).tolist() == [0, 5, 5, 5, 5]


def test_annealing_fills_islands_along_the_graph() -> None:
    """Columns 0, …, 9 in a row, each on an island of its own, and beside itself and its neighbours."""
    near = np.abs(np.subtract.outer(np.arange(10), np.arange(10))) <= 1
    uses = np.eye(10, dtype=np.int32)
    room = np.array([1, 2, 2, 2, 4, 2, 3, 2, 2, 1], dtype=np.int32)
    walk = np.zeros(21, dtype=np.int32)
    assert fill_islands(*rows(near), uses, room, True, walk, 400_000, 1.0, 0.02, generator(0))
    assert (np.bincount(walk) == room).all()
    assert (np.abs(walk - np.roll(walk, 1)) <= 1).all()
    assert not fill_islands(
        *rows(near), uses, room[::-1] * 0 + 2, True, np.zeros(21, np.int32), 1000, 1.0, 0.02, generator(0)
    )
    assert fill_islands(*rows(near), uses, room + 20, False, np.zeros(21, np.int32), 1000, 1.0, 0.02, generator(0))
