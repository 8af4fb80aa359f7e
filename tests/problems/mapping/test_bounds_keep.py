"""Targets that are reached are never refuted: on small problems for the best mappings, on large ones for known ones."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from partita.engines.search.monitor import Monitor
from partita.problems.mapping.bounds.domains import Domains, Thresholds
from partita.problems.mapping.bounds.islands import _filled
from partita.problems.mapping.bounds.patterns import ReplicaPatterns
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import Form, MappingProblem, MappingStage, MappingTransfer, Placement
from problems.mapping.brute_force import best_objective
from problems.mapping.large_problems import pipeline_on
from problems.mapping.random_problems import random_problem

every_form = pytest.mark.parametrize("form", ["both", "point-to-point", "all-reduce"])


@every_form
def test_patterns_leave_every_mapping_within_a_target(form: Form) -> None:
    """Any mapping, at its own objective as the target: its devices stay in the domains. Below the best, some do not."""
    taken = 0
    for seed in range(200):
        problem = random_problem(seed, form)
        instance = MappingInstance(problem)
        patterns = ReplicaPatterns(instance)
        draw = random.Random(seed)
        for _ in range(3):
            devices = draw.sample(range(instance.devices), instance.count)
            placement = tuple(
                tuple(devices[s * problem.replicas : (s + 1) * problem.replicas]) for s in range(len(problem.stages))
            )
            value = evaluate(problem, Placement(placement=placement)).objective
            domain = np.ones((instance.stages, instance.devices), dtype=bool)
            assert patterns.filter(domain, value * (1 + 1e-10), lambda: False)
            for s, row in enumerate(placement):
                assert domain[s, list(row)].all(), problem.name
        domain = np.ones((instance.stages, instance.devices), dtype=bool)
        best = best_objective(problem)
        assert best is not None
        patterns.filter(domain, best * 0.98, lambda: False)
        taken += not domain.all()
    assert taken > 60


@pytest.mark.parametrize(
    ("stages", "replicas", "where", "seeds"),
    [
        (4, 4, "mesh:4x4", 2),
        (3, 8, "torus:4x6", 2),
        (4, 8, "mesh:2x4x4", 2),
        (4, 9, "random-blk-2:36", 1),
        (3, 7, "random-blk-1:24", 2),
        (4, 6, "dgx1:3", 1),
        (4, 8, "uniform:32", 1),
        (2, 2, "two-level:2x2", 2),
    ],
)
def test_bounds_are_below_good_mappings(stages: int, replicas: int, where: str, seeds: int) -> None:
    """Of the annealing, and of strips of a grid that nobody searches for."""
    import partita as pt

    for seed in range(seeds):
        problem = pipeline_on(where, stages, replicas, seed)
        plan = pt.solve(problem, solver="swap-annealing", time_limit_s=0.4, seed=seed).plan
        assert plan is not None
        value = evaluate(problem, plan).objective
        assert Thresholds().bound(problem, Monitor()).value <= value * (1 + 1e-9)
        assert not Domains(MappingInstance(problem)).refuted(value, lambda: False)
        rows = tuple(tuple(range(s * replicas, (s + 1) * replicas)) for s in range(stages))
        side_by_side = evaluate(problem, Placement(placement=rows)).objective
        assert not Domains(MappingInstance(problem)).refuted(side_by_side, lambda: False)


def test_a_grid_has_no_triangle() -> None:
    """Three stages that all exchange 1 byte: two links of a grid are as fast as can be, the third one is not.

    Each replica has links of 1 s/byte to its neighbours and 2 s/byte over two hops. Two exchanges take 2 s where both
    are one hop; one of the three is of two hops, so both its ends take 3 s.
    """
    side = 3
    cells = list(itertools.product(range(side), repeat=2))
    matrix = tuple(tuple(0.0 if a == b else 1.0 / (abs(a[0] - b[0]) + abs(a[1] - b[1])) for b in cells) for a in cells)
    problem = MappingProblem(
        name="triangle",
        replicas=1,
        stages=tuple(MappingStage(name=str(s), time_s=0.0) for s in range(3)),
        transfers=tuple(MappingTransfer(source=a, target=b, bytes=1.0) for a, b in ((0, 1), (1, 2), (0, 2))),
        bandwidth_bytes_per_s=matrix,
    )
    assert Thresholds().bound(problem, Monitor()).value == pytest.approx(3.0, rel=2e-3)


@pytest.mark.parametrize("groups", [(3,), (2, 5), (4, 6, 9), (1,), (7, 11)])
def test_whole_groups_fill_islands(groups: tuple[int, ...]) -> None:
    for room, filled in enumerate(_filled(groups, 30)):
        sums = {0}
        for _ in range(room):
            sums |= {a + b for a in sums for b in groups if a + b <= room}
        assert filled == max(sums)
