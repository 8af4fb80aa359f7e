"""What the searches promise beyond the contract."""

from __future__ import annotations

import numpy as np
import pytest

from partita.engines.kernels.mapping.placing import covers
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.mapping import exact
from partita.problems.mapping.baselines import DEFAULT_BASELINES
from partita.problems.mapping.bisection import heavier_form
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import chains, consecutive, constructions, toured
from partita.problems.mapping.problem import MappingProblem, MappingStage
from partita.problems.mapping.samples import MACHINES, UNEQUAL
from partita.problems.mapping.solvers import MappingCombined, MappingExact
from problems.mapping.large_problems import pipeline_on
from problems.mapping.samples import grid


def shuffled(problem: MappingProblem, seed: int) -> MappingProblem:
    """The same with its devices in another order."""
    order = np.random.default_rng(seed).permutation(len(problem.bandwidth_bytes_per_s))
    matrix = np.array(problem.bandwidth_bytes_per_s, dtype=float)[np.ix_(order, order)]
    return problem.replace(bandwidth_bytes_per_s=tuple(map(tuple, matrix.tolist())))


@pytest.mark.parametrize("problem", [grid(4, 4, 4), MACHINES, UNEQUAL], ids=lambda problem: problem.name)
def test_never_worse_than_any_baseline(problem: MappingProblem) -> None:
    """Nor than the published search, in either form."""
    plan = MappingCombined().solve(problem, SearchOptions(), Monitor(30.0)).plan
    assert plan is not None
    found = evaluate(problem, plan).objective
    for baseline in DEFAULT_BASELINES:
        other = baseline.solve(problem, SearchOptions(), Monitor(30.0)).plan
        assert other is not None
        assert found <= evaluate(problem, other).objective * (1 + 1e-9), baseline.name


def test_devices_are_known_by_their_links_alone() -> None:
    """A grid whose devices are numbered at random: the same value, where orders by number are far off."""
    problem = shuffled(grid(4, 4, 4), 3)
    instance = MappingInstance(problem)
    by_number = evaluate(problem, instance.plan(consecutive(instance))).objective
    plan = MappingCombined().solve(problem, SearchOptions(), Monitor(30.0)).plan
    assert plan is not None
    found = evaluate(problem, plan).objective
    best = MappingCombined().solve(grid(4, 4, 4), SearchOptions(), Monitor(30.0))
    assert found == pytest.approx(evaluate(grid(4, 4, 4), best.plan).objective, rel=1e-6)
    assert found < by_number / 1.5


def test_the_orders_that_people_take() -> None:
    """Replicas of a stage side by side, or stages of a replica."""
    instance = MappingInstance(UNEQUAL)
    assert instance.plan(consecutive(instance)).placement == ((0, 1), (2, 3), (4, 5))
    assert instance.plan(chains(instance)).placement == ((0, 3), (1, 4), (2, 5))


@pytest.mark.parametrize("problem", [grid(4, 4, 4), MACHINES, UNEQUAL, grid(5, 3, 4), grid(1, 1, 1)])
def test_constructions_are_mappings(problem: MappingProblem) -> None:
    """Every device once; the slow device of the unequal ones is left out."""
    instance = MappingInstance(problem)
    for device in constructions(instance):
        assert len(set(device.tolist())) == instance.count
        if problem is UNEQUAL:
            assert 6 not in device.tolist()


def test_the_published_rule_picks_the_larger_traffic() -> None:
    """All-reduce of all stages against all transfers."""
    assert heavier_form(MappingInstance(UNEQUAL)) == "point-to-point"
    heavy = tuple(MappingStage(name=s.name, times_s=s.times_s, parameter_bytes=1e9) for s in UNEQUAL.stages)
    assert heavier_form(MappingInstance(UNEQUAL.replace(stages=heavy))) == "all-reduce"


def test_spare_and_slow_devices_are_left_out() -> None:
    """The last device is five times as slow."""
    plan = MappingCombined().solve(UNEQUAL, SearchOptions(), Monitor(30.0)).plan
    assert plan is not None
    assert 6 not in {device for row in plan.placement for device in row}


@pytest.mark.parametrize(
    ("allowed", "capacity", "expected"),
    [
        (((1, 1, 0), (1, 0, 0)), (1, 1), True),
        (((1, 0, 0), (1, 0, 0)), (1, 1), False),
        (((1, 1, 1), (0, 1, 1), (0, 0, 1)), (1, 1, 1), True),
        (((1, 1, 1, 0), (1, 1, 1, 1)), (2, 2), True),
        (((1, 1, 0, 0), (1, 1, 1, 0)), (2, 2), False),
    ],
)
def test_sharing_devices(allowed: tuple[tuple[int, ...], ...], capacity: tuple[int, ...], expected: bool) -> None:
    """Also where the first choice has to be taken back."""
    assert covers(np.array(allowed, dtype=np.int32), np.array(capacity, dtype=np.int32), False) is expected


@pytest.mark.parametrize("kept", [0.999, 0.5])
def test_a_bound_that_rounding_keeps_from_the_best_ends_the_search(
    monkeypatch: pytest.MonkeyPatch, kept: float
) -> None:
    """Where numbers differ by 10¹² so much is taken off it that no further search can close the gap."""
    monkeypatch.setattr(exact, "lowered", lambda instance, target: target * kept)
    problem = grid(2, 4, 4)
    monitor = Monitor(60.0)
    outcome = MappingExact().solve(problem, SearchOptions(), monitor)
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert not monitor.stopping
    assert 0.4 <= outcome.bound / evaluate(problem, outcome.plan).objective < 1.0


@pytest.mark.parametrize("where", ["mesh:8x8", "torus:6x8", "random-blk-2:48"])
def test_tours_keep_columns_and_shorten_rings(where: str) -> None:
    """Replicas of all stages change places together, and the way round is shorter than that by chance."""
    problem = pipeline_on(where, 4, 12, 1)
    instance = MappingInstance(problem)
    shorter = 0
    for seed in range(6):
        device = np.random.default_rng(seed).permutation(instance.devices)[: instance.count].astype(np.int32)
        found = toured(instance, device)
        columns = {tuple(column) for column in device.reshape(4, 12).T.tolist()}
        assert {tuple(column) for column in found.reshape(4, 12).T.tolist()} == columns
        shorter += _rings(instance, found) < 0.8 * _rings(instance, device)
    assert shorter == 6


def _rings(instance: MappingInstance, device: np.ndarray) -> float:
    """Seconds of the rings of all stages, link by link."""
    a = instance.arrays
    ends = range(instance.count)
    return sum(float(a.ring[x // a.replicas]) * float(a.inverse[device[x], device[a.after[x]]]) for x in ends)
