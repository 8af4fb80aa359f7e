"""Shapes of hybrid plans in the search over stages and replicas: bounds against plans of every mesh."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

import partita as pt
from partita.conductor import search as module
from partita.conductor.judge import evaluate
from partita.conductor.search import search_stages
from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.topology.topology import Topology
from partita.problems.hybrid.descriptor import STEP
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.replicas import StepReplicas
from problems.hybrid.brute_force_step import rows_of
from problems.hybrid.step_strategies import random_step, sharded_step

FACET = StepReplicas(STEP)
SCHEDULES = ("1f1b", "gpipe", "zero-bubble")


def links(draw: random.Random, devices: int) -> Topology:
    """Random links about as fast as those that the problems are priced with."""
    band = np.random.default_rng(draw.randrange(2**31)).uniform(0.5, 3.0, (devices, devices))
    return Topology(
        name="links", names=tuple(map(str, range(devices))), bandwidth_bytes_per_s=(band + band.T) / 2,
        machine_of=(0,) * devices,
    )  # fmt: skip


def problem_of(seed: int, *, sharded: bool = False) -> HybridProblem:
    drawn = sharded_step(seed, SCHEDULES) if sharded else random_step(seed, SCHEDULES, most=4)
    found: HybridProblem = drawn.replace(unit="s")
    return found


def plans(mesh: DeviceMesh, draw: random.Random) -> Iterator[Plan]:
    """Every pipeline of a mesh, with any configurations."""
    tables = {layer.id: layer.configurations[mesh.tensor] for layer in mesh.problem.layers}
    for row in rows_of(mesh, mesh.problem):
        stages = tuple(
            Stage(
                operators=tuple(part), data_parallel=mesh.data, tensor_parallel=mesh.tensor,
                configurations={v: draw.choice(tables[v]).id for v in part},
            )
            for part in row
        )  # fmt: skip
        yield Plan(stages=stages, schedule=mesh.schedule, zero=mesh.zero, zero_shards=mesh.zero_shards)


@pytest.mark.parametrize("seed", range(0, 25, 3))
def test_a_shape_is_split_for_its_mesh(seed: int) -> None:
    problem = problem_of(seed)
    least = math.inf
    for shape in FACET.shapes(problem):
        found = FACET.split(shape, HybridOptions(), Monitor(None))
        plan = found.plan
        assert found.infeasible == (plan is None)
        if plan is None:
            continue
        assert len(plan.stages) == shape.stages
        assert {(s.data_parallel, s.tensor_parallel) for s in plan.stages} == {(shape.replicas, shape.group)}
        assert (plan.zero, plan.schedule) == (shape.zero, shape.schedule)
        least = min(least, evaluate(problem, plan).objective)
    best = pt.solve(problem).objective
    assert (math.inf if best is None else best) == pytest.approx(least, rel=1e-6)


def test_bounds_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # A few shapes: each takes a split and a mapping.
    seed = next(s for s in range(100) if 5 < len(FACET.shapes(problem_of(s))) < 9)
    problem = problem_of(seed)
    where = links(random.Random(seed), problem.devices)
    quick = search_stages(problem, where, time_limit_s=None)
    monkeypatch.setattr(module, "shape_bound", lambda shape, links: 0.0)
    monkeypatch.setattr(module, "least_step", lambda staged, links: 0.0)
    whole = search_stages(problem, where, time_limit_s=None)
    assert quick.best.step == pytest.approx(whole.best.step)
    assert sum(one.outcome == "placed" for one in quick.explored) < sum(o.outcome == "placed" for o in whole.explored)


def test_endless_rows_are_refused() -> None:
    problem = problem_of(1).replace(training=None)
    with pytest.raises(pt.InputError, match="searched for steps"):
        search_stages(problem, links(random.Random(1), problem.devices))
