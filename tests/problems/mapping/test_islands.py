"""Sets of replicas inside an island: found where trying all of them finds one, and remembered rightly."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from partita.problems.mapping.bounds.islands import Islands, possible
from partita.problems.mapping.bounds.layouts import layouts_within
from partita.problems.mapping.bounds.parts import partitions
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer
from problems.mapping.large_problems import pipeline_on
from problems.mapping.random_problems import random_problem

Replica = tuple[int, int]


def least_load(
    instance: MappingInstance, x: Replica, chosen: frozenset[Replica], inside: list[float], outside: float, time: float
) -> float:
    """Of a replica with some others in its island: every way to give its partners there the fastest links."""
    t, r = x
    exchanges = [(w, (u, r) in chosen) for u, w in instance.exchanges_of[t]]
    ring = instance.beside(t, r)
    stays = bool(ring) and all(y in chosen for y in ring)
    away = time + outside * sum(w for w, mine in exchanges if not mine)
    if ring and not stays:
        away += float(instance.ring[t]) * outside
    near = [w for w, mine in exchanges if mine]
    links = (inside + [outside] * 9)[: len(near) + (len(ring) if stays else 0)]
    best = math.inf
    for order in itertools.permutations(links):
        around = max(order[len(near) :], default=0.0)
        best = min(best, sum(w * c for w, c in zip(near, order, strict=False)) + float(instance.ring[t]) * around)
    return away + best


def test_a_set_is_found_exactly_where_there_is_one() -> None:
    answers = []
    for seed in range(250):
        instance = MappingInstance(random_problem(seed))
        draw = random.Random(seed)
        inside = sorted(draw.uniform(0.05, 0.5) for _ in range(2))
        outside, room = draw.uniform(0.5, 1.0), draw.randint(1, 4)
        times = instance.arrays.time.min(axis=1)
        s, limit = draw.randrange(instance.stages), draw.uniform(0.5, 9.0)
        others = [(t, r) for t in range(instance.stages) for r in range(instance.replicas) if (t, r) != (s, 0)]
        sets = (
            frozenset([(s, 0), *some])
            for count in range(min(room, len(others) + 1))
            for some in itertools.combinations(others, count)
        )
        expected = any(
            all(least_load(instance, x, one, inside, outside, float(times[x[0]])) <= limit for x in one) for one in sets
        )
        assert possible(instance, s, room, tuple(inside), outside, times, limit) == expected, seed
        answers.append(expected)
    assert 80 < sum(answers) < 170


def test_islands_remember_what_they_said_of_other_limits() -> None:
    instance = MappingInstance(pipeline_on("random-blk-1:16", 4, 4, 0))
    low = float(instance.arrays.time.max())
    limits = [low + 0.01 * 1.2**k for k in range(36)]
    one, seen = Islands(instance), set()
    for limit in [*limits[::2], *limits[::-1], *limits]:
        domain, expected = np.ones((2, instance.stages, instance.devices), dtype=bool)
        one.filter(domain, limit, lambda: False)
        for islands, outside in one.partitions:
            for members, inside in islands:
                times = instance.arrays.time[:, members].min(axis=1)
                for s in range(instance.stages):
                    if not possible(instance, s, len(members), inside, outside, times, limit):
                        expected[s, members] = False
        assert np.array_equal(domain, expected)
        seen.add(int(domain.sum()))
    assert len(seen) > 3


@pytest.mark.parametrize("partners", [3, 31, 32, 33, 40])
def test_layouts_count_partners_beside_a_stage_however_many_there_are(partners: int) -> None:
    """One stage exchanges with all others, which are in one island of two or the other."""
    fast, slow = 8.0, 2.0
    machine = [[0.0 if a == b else fast if a // 44 == b // 44 else slow for b in range(88)] for a in range(88)]
    instance = MappingInstance(
        MappingProblem(
            name="star",
            replicas=2,
            stages=tuple(MappingStage(name=f"s{s}", time_s=1.0, parameter_bytes=0.0) for s in range(partners + 1)),
            transfers=tuple(MappingTransfer(source=0, target=t, bytes=float(t)) for t in range(1, partners + 1)),
            bandwidth_bytes_per_s=tuple(map(tuple, machine)),
        )
    )
    islands = next(partitions(instance))
    total = sum(range(1, partners + 1))
    # All but the few that have the least to send have to be beside it.
    found = layouts_within(instance, islands, 1.0 + total / fast + 4 * (1 / slow - 1 / fast), 10_000)
    assert found is not None
    assert len(found.islands) > 2
    for row, away in zip(found.islands, found.away, strict=True):
        there = sum(t for t in range(1, partners + 1) if row[t] != row[0])
        assert away[0] == pytest.approx(1.0 + (total - there) / fast + there / slow)
