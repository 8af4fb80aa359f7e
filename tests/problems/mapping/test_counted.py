"""Counted machines against the same devices listed, and bounds against trying everything."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import partita as pt
from partita.checker.certificate import as_in_file
from partita.checker.mapping.plan import worth
from partita.documents.stated import write_problem
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.machines import AlikeMachines
from partita.nouns.topology.counted import CountedLinks, counted
from partita.problems.mapping import instance as instances
from partita.problems.mapping.bounds.counted_machines import CountedBounds
from partita.problems.mapping.bounds.domains import Thresholds
from partita.problems.mapping.bounds.neighbours import Neighbours, assignment_bound
from partita.problems.mapping.certifying import certify
from partita.problems.mapping.counted import CountedInstance
from partita.problems.mapping.counted_search import counted_search
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer, Placement
from partita.problems.mapping.solvers import DEFAULT_SOLVERS


def alike(count: int, devices: int, inside: float, outside: float) -> AlikeMachines:
    return AlikeMachines(count=count, devices=devices, inside_bytes_per_s=inside, outside_bytes_per_s=outside)


def drawn(seed: int, most: int, *, uneven: bool = False) -> MappingProblem:
    """Stages in a row, rings, and machines of up to three entries, of so many devices at most."""
    rng = random.Random(seed)
    while True:
        machines = tuple(
            alike(rng.randint(1, 4), rng.randint(1, 4), rng.choice((4.0, 8.0)), rng.choice((0.5, 1.0, 2.0)))
            for _ in range(rng.randint(1, 3))
        )
        devices = CountedLinks(machines).device_count
        if 2 <= devices <= most:
            break
    replicas = rng.randint(1, devices)
    stages = rng.randint(1, devices // replicas)
    times = [rng.choice((1.0, 2.0)) for _ in range(devices)] if rng.random() < 0.3 else None
    counts = [replicas] * stages
    if uneven:
        counts = [rng.randint(1, replicas) for _ in counts]
    return MappingProblem(
        replicas=replicas,
        stages=tuple(
            MappingStage(
                name=f"{s}",
                time_s=None if times else rng.choice((1.0, 3.0)),
                times_s=tuple(times) if times else None,
                parameter_bytes=rng.choice((0.0, 2.0, 5.0)),
                replicas=counts[s] if uneven else None,
            )
            for s in range(stages)
        ),
        transfers=tuple(
            MappingTransfer(source=s, target=s + 1, bytes=rng.choice((1.0, 3.0))) for s in range(stages - 1)
        ),
        form=rng.choice(("both", "point-to-point", "all-reduce")),
        machines=machines,
    )


def listed(problem: MappingProblem) -> MappingProblem:
    """The same with a matrix."""
    matrix = CountedLinks(problem.machines).matrix()
    np.fill_diagonal(matrix, 0.0)
    return problem.replace(machines=(), bandwidth_bytes_per_s=tuple(map(tuple, matrix.tolist())))


@pytest.mark.parametrize("uneven", [False, True])
def test_a_plan_is_worth_the_same_counted_and_listed(uneven: bool) -> None:
    for seed in range(60):
        problem = drawn(seed, 20, uneven=uneven)
        device = np.random.default_rng(seed).permutation(problem.device_count)[: problem.used].astype(np.int32)
        instance = CountedInstance(problem)
        plan = instance.plan(device)
        found = pt.evaluate(problem, plan)
        assert found == pt.evaluate(listed(problem), plan)
        loads = [load.total for row in found.loads for load in row]
        assert instance.loads(device) == pytest.approx(loads, rel=1e-12)


@pytest.mark.parametrize("uneven", [False, True])
def test_the_bound_of_the_fastest_links_is_the_same_counted_and_listed(uneven: bool) -> None:
    for seed in range(60):
        problem = drawn(seed, 16, uneven=uneven)
        found = CountedBounds(CountedInstance(problem)).neighbours()
        assert found == pytest.approx(assignment_bound(MappingInstance(listed(problem))), rel=1e-12)


def best_of_all(problem: MappingProblem) -> float:
    """The least objective of all mappings."""
    instance = CountedInstance(problem)
    every = permutations(range(problem.device_count), problem.used)
    return min(float(instance.loads(np.array(one, dtype=np.int32)).max()) for one in every)


@pytest.mark.parametrize("uneven", [False, True])
def test_no_bound_is_above_the_best_mapping_and_no_mapping_below_it(uneven: bool) -> None:
    for seed in range(40):
        problem = drawn(1000 + seed, 6, uneven=uneven)
        best = best_of_all(problem)
        bounds = CountedBounds(CountedInstance(problem))
        first = max(bounds.neighbours(), bounds.left())
        assert first <= best * (1 + 1e-12)
        assert bounds.thresholds(first, 10 * best, lambda: False) <= best * (1 + 1e-12)
        found = counted_search(problem, Monitor(20.0))
        assert found.plan is not None
        assert found.bound is not None
        assert found.bound <= best * (1 + 1e-12)
        assert pt.evaluate(problem, found.plan).objective >= best * (1 - 1e-12)


def test_no_counted_bound_is_above_a_plan_of_the_listed_search() -> None:
    for seed in range(8):
        problem = drawn(2000 + seed, 24)
        found = pt.solve(listed(problem), time_limit_s=2.0)
        other = counted_search(problem, Monitor(20.0))
        assert found.objective is not None
        assert other.bound is not None
        assert other.plan is not None
        assert other.bound <= found.objective * (1 + 1e-9)
        value = pt.evaluate(problem, other.plan).objective
        assert found.bound is None or found.bound.value <= value * (1 + 1e-9)


def row(stages: int, replicas: int, machines: int, devices: int, ring: float, moved: float) -> MappingProblem:
    return MappingProblem(
        replicas=replicas,
        stages=tuple(MappingStage(name=f"{s}", time_s=1.0, parameter_bytes=ring) for s in range(stages)),
        transfers=tuple(MappingTransfer(source=s, target=s + 1, bytes=moved) for s in range(stages - 1)),
        machines=(alike(machines, devices, 10.0, 1.0),),
    )


def test_tiles_keep_inside_machines_what_costs_more() -> None:
    # Transfers are large: all stages of a replica share a machine, and only rings leave it.
    found = pt.solve(row(4, 1024, 1024, 4, 0.001, 5.0))
    assert all(len({device // 4 for device in chain}) == 1 for chain in zip(*found.plan.placement, strict=True))
    # Rings are large, and fit.
    found = pt.solve(row(1024, 4, 1024, 4, 5.0, 0.001))
    assert all(len({device // 4 for device in replicas}) == 1 for replicas in found.plan.placement)


def test_many_devices_are_mapped_with_a_bound_and_never_worse_than_in_order() -> None:
    problem = row(16, 1024, 2048, 8, 1.0, 1.0)
    found = pt.solve(problem, time_limit_s=20.0)
    assert problem.device_count == problem.used == 16384
    assert found.evaluation == pt.evaluate(problem, found.plan)
    in_order = np.arange(16384).reshape(16, 1024).tolist()
    assert found.objective <= pt.evaluate(problem, Placement(placement=tuple(map(tuple, in_order)))).objective
    assert found.bound is not None
    assert 0 < found.bound.value <= found.objective
    for method in (Neighbours(), Thresholds()):
        assert method.bound(problem, Monitor(5.0)).value <= found.objective


def test_what_lists_all_links_refuses_many_devices() -> None:
    problem = row(16, 256, 512, 8, 1.0, 1.0)
    exact = next(one for one in DEFAULT_SOLVERS if one.name == "branch-and-bound")
    with pytest.raises(UnsupportedError, match=r"counts 4096 devices; .* --solver combined"):
        pt.solve(problem, solver=exact.name)
    assert instances.MAX_TOPOLOGY < 4096


def test_a_problem_states_its_devices_once() -> None:
    problem = row(2, 2, 2, 2, 1.0, 1.0)
    with pytest.raises(InputError, match="has machines, and bandwidth_bytes_per_s beside them"):
        listed(problem).replace(machines=problem.machines)
    with pytest.raises(InputError, match=r"machines: entry 0: outside_bytes_per_s is 0.0; it must be finite"):
        problem.replace(machines=(alike(2, 2, 1.0, 0.0),))


def test_a_counted_problem_is_read_as_it_was_written(tmp_path: Path) -> None:
    problem = row(2, 2, 2, 2, 1.0, 1.0)
    path = tmp_path / "p.json"
    write_problem(path, problem)
    assert pt.read_problem(path) == problem
    assert problem.device_name(3) == "machine1/1"
    assert counted([(2, 10.0, 1.0), (2, 10.0, 1.0)]).machines == problem.machines


def test_the_check_of_a_plan_knows_counted_machines(tmp_path: Path) -> None:
    proven = 0
    for seed in range(20):
        problem = drawn(3000 + seed, 12)
        found = pt.solve(problem, time_limit_s=2.0)
        document = as_in_file(problem)
        plan = {"placement": [list(devices) for devices in found.plan.placement]}
        assert float(worth(document, plan)) == pytest.approx(found.objective, rel=1e-12)
        other = as_in_file(listed(problem))
        certificate = certify(problem, Bound(assignment_bound(MappingInstance(problem)) * (1 - 1e-9), "", "", 0.0))
        if certificate is not None:
            proven += 1
            assert certificate.proves(document) == certificate.proves(other)
    assert proven


def test_fewer_devices_than_replicas_are_refused_with_what_is_missing() -> None:
    found = pt.solve(row(16, 1024, 2000, 8, 1.0, 1.0))
    assert str(found.status) == "infeasible"
    assert "need 16384 devices, and there are 16000" in found.reason
