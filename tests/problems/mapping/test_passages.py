"""Islands that two rings cannot pass: against all mappings of small problems, and what that says of larger ones."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from partita.engines.search.monitor import Monitor
from partita.problems.mapping.bounds.columns import Columns
from partita.problems.mapping.bounds.parts import partitions
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer
from problems.mapping.brute_force import best_objective

#: All mappings of two stages of three replicas on seven devices.
EVERY = np.array(list(itertools.permutations(range(7), 6)))


def in_a_row(sizes: tuple[int, ...], replicas: int, seed: int) -> MappingProblem:
    """Two stages on machines in a row, fast inside and slower with every machine between."""
    draw = random.Random(seed)
    home = [machine for machine, size in enumerate(sizes) for _ in range(size)]
    near = draw.uniform(0.5, 2.0)

    def link(a: int, b: int) -> float:
        apart = abs(home[a] - home[b])
        return 0.0 if a == b else near / apart if apart else draw.uniform(8.0, 16.0)

    return MappingProblem(
        name=f"in a row {seed}",
        replicas=replicas,
        stages=tuple(
            MappingStage(name=f"s{s}", time_s=draw.uniform(0, 1), parameter_bytes=draw.uniform(1, 4)) for s in range(2)
        ),
        transfers=(MappingTransfer(source=0, target=1, bytes=draw.uniform(0.2, 4.0)),),
        bandwidth_bytes_per_s=tuple(tuple(link(a, b) for b in range(len(home))) for a in range(len(home))),
    )


def loads(instance: MappingInstance) -> np.ndarray:
    """What every mapping of ``EVERY`` takes."""
    a, worst = instance.arrays, np.zeros(len(EVERY))
    for x in range(6):
        s, r = divmod(x, 3)
        here = EVERY[:, x]
        ring = np.maximum(a.inverse[here, EVERY[:, 3 * s + (r + 1) % 3]], a.inverse[here, EVERY[:, 3 * s + r - 1]])
        total = a.time[s, here] + a.weight[0] * a.inverse[here, EVERY[:, 3 * (1 - s) + r]] + a.ring[s] * ring
        worst = np.maximum(worst, total)
    return worst


@pytest.mark.parametrize("sizes", [(3, 1, 3), (2, 2, 3), (2, 1, 1, 3), (2, 3, 2)])
def test_no_mapping_within_a_limit_has_columns_on_both_sides(sizes: tuple[int, ...]) -> None:
    """Of what is blocked at the times of some mappings, all that are within them have columns on one side at most."""
    looked = 0
    for seed in range(25):
        instance = MappingInstance(in_a_row(sizes, 3, seed))
        took = loads(instance)
        for islands in partitions(instance):
            home = np.empty(7, dtype=np.int64)
            for number, island in enumerate(islands):
                home[island.members] = number
            where = home[EVERY].reshape(-1, 2, 3)
            passages = Passages(instance, islands)
            for limit in np.quantile(took, (0.0, 0.01, 0.1, 0.5)).tolist():
                for one in passages.blocked(limit * (1 + 1e-12)):
                    assert one.stages == (0, 1)
                    sides = [np.isin(where, side).all(axis=1).any(axis=1) for side in (one.before, one.behind)]
                    within = took <= limit
                    assert not (sides[0] & sides[1] & within).any()
                    looked += int((sides[0] & sides[1]).any())
    assert looked > 20


def test_both_rings_pass_by_one_device_only_where_there_is_time() -> None:
    """A middle of one device serves one ring, one way; up to some limit nothing else passes."""
    instance = MappingInstance(in_a_row((4, 1, 4), 4, 3))
    (islands, *_) = partitions(instance)
    passages = Passages(instance, islands)
    low, high = 0.0, 100.0
    ceiling = passages.ceiling(low, high)
    assert low < ceiling < high
    (blocked,) = passages.blocked(ceiling)
    assert len(blocked.before) == len(blocked.behind) == 1
    assert set(blocked.before + blocked.behind) < set(passages.row)
    assert not list(passages.blocked(ceiling * 1.01))


@pytest.mark.parametrize("sizes", [(3, 1, 3), (3, 2, 2)])
def test_columns_with_passages_are_never_above_the_optimum(sizes: tuple[int, ...]) -> None:
    pytest.importorskip("ortools")
    problem = in_a_row(sizes, 3, 0)
    best = best_objective(problem)
    assert best is not None
    assert Columns().bound(problem, Monitor()).value <= best
