"""Hybrid problems for the contract suite."""

from __future__ import annotations

import math
import random
from functools import lru_cache

import msgspec
import pytest

from contracts.samples import Family, Samples
from partita.conductor.judge import evaluate
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.options import HybridOptions
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.training import SCHEDULES, ZERO_STAGES, LayerState, Training
from problems.hybrid.brute_force import best_objective
from problems.hybrid.brute_force_machines import best_objective_on_machines
from problems.hybrid.brute_force_rows import shortest_row
from problems.hybrid.brute_force_step import shortest_step
from problems.hybrid.independent_evaluator import judge
from problems.hybrid.step_strategies import (
    mixed_problems,
    random_mixed,
    random_row_problem,
    row_problems,
    step_problems,
)
from problems.hybrid.strategies import hybrid_problems, machine_problems

__all__ = ["SAMPLES"]


def _row(**changes: object) -> HybridProblem:
    """Four layers in a row, each fast or small, on one device or split over two."""
    ways = (
        Configuration(id="fast", time=4.0, weight_bytes=0.5, memory_per_microbatch_bytes=2.0),
        Configuration(id="small", time=5.0, weight_bytes=0.5, memory_per_microbatch_bytes=1.0),
    )
    split = tuple(msgspec.structs.replace(way, id=f"{way.id} half", time=way.time * 0.6) for way in ways)
    problem = HybridProblem(
        name="row",
        devices=4,
        memory_bytes=16.0,
        bandwidth_bytes_per_unit=4.0,
        microbatches=4,
        layers=tuple(Layer(id=v, configurations={1: ways, 2: split}) for v in range(4)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=0.5) for v in range(3)),
    )
    return problem.replace(**changes)


def _step(problem: HybridProblem) -> HybridProblem:
    """The same as a step, with configurations that recipes know."""
    words = ("none", "full", "selective")
    layers = tuple(
        msgspec.structs.replace(
            layer,
            configurations={
                t: tuple(msgspec.structs.replace(c, id=words[k]) for k, c in enumerate(row))
                for t, row in layer.configurations.items()
            },
            states={t: LayerState(parameter_bytes=0.5, gradient_bytes=0.5) for t in layer.configurations},
        )
        for layer in problem.layers
    )
    return problem.replace(layers=layers, training=Training(schedules=SCHEDULES, zero=ZERO_STAGES))


def _large(seed: int, columns: int = 4, rows: int = 7, devices: int = 24) -> HybridProblem:
    """Parallel chains of layers with random costs, which meet at the ends: a great many suffix sets."""
    rng = random.Random(seed)
    middle = columns * rows

    def ways(v: int, degree: int) -> tuple[Configuration, ...]:
        time = rng.randint(8, 40) / degree
        return tuple(
            Configuration(
                id=f"{degree}.{k}",
                time=time * (1 + 0.3 * k),
                weight_bytes=rng.randint(1, 4) / degree,
                memory_per_microbatch_bytes=rng.randint(4, 9) / degree / (1 + k),
                memory_bytes=rng.randint(1, 6) / degree,
            )
            for k in range(3)
        )

    layers = tuple(Layer(id=v, configurations={t: ways(v, t) for t in (1, 2, 4)}) for v in range(middle + 2))
    edges = [Edge(source=v, target=v + columns, bytes=rng.randint(1, 6)) for v in range(middle - columns)]
    edges += [Edge(source=middle, target=v, bytes=1.0) for v in range(columns)]
    edges += [Edge(source=v, target=middle + 1, bytes=1.0) for v in range(middle - columns, middle)]
    return HybridProblem(
        name=f"columns {seed}",
        devices=devices,
        memory_bytes=60.0,
        bandwidth_bytes_per_unit=2.0,
        microbatches=32,
        layers=layers,
        edges=tuple(edges),
    )


def optimum(problem: HybridProblem, options: HybridOptions) -> float | None:
    """By trying everything; remembered, because every component asks."""
    return _remembered(msgspec.json.encode(problem))


@lru_cache(maxsize=5_000)
def _remembered(encoded: bytes) -> float | None:
    problem = msgspec.json.decode(encoded, type=HybridProblem)
    if problem.training is not None:
        step = math.inf if problem.others else shortest_step(problem)
        if problem.others or problem.training.mesh == "free":
            step = min(step, shortest_row(problem))
        return None if math.isinf(step) else step
    return best_objective(problem) if problem.hierarchy is None else best_objective_on_machines(problem)


def check(problem: HybridProblem, plan: Plan, options: HybridOptions) -> None:
    """The evaluator agrees with an independent one."""
    found = evaluate(problem, plan)
    if problem.training is not None:
        # Trying everything and simulations check these.
        return
    value, broken = judge(problem, plan)
    assert found.feasible == (not broken), (found.violations, broken)
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-12)


def _free(problem: HybridProblem) -> HybridProblem:
    """A step with degrees of each stage's own."""
    return problem.replace(training=msgspec.structs.replace(problem.training, mesh="free"))


def _twice(problem: HybridProblem) -> HybridProblem:
    """A step on two kinds of devices that differ in name only."""
    return problem.replace(device="one", others=(problem.replace(device="two"),))


def _cut(problem: HybridProblem) -> HybridProblem:
    """Its first two layers under one schedule: few enough rows to look at all."""
    training = Training(schedules=("1f1b",), zero=(3,))
    return problem.replace(layers=problem.layers[:2], edges=problem.edges[:1], training=training)


_MACHINES = Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=1.0)

SAMPLES = Samples(
    families=(
        Family("flat", hybrid_problems(), _row()),
        Family("machines", machine_problems(), _row(hierarchy=_MACHINES)),
        Family("steps", step_problems(), _step(_row())),
        Family("rows", row_problems(), random_row_problem(0, ("1f1b",))),
        Family("kinds", mixed_problems(), random_mixed(5, ("1f1b",)).replace(memory_bytes=math.inf)),
    ),
    optimum=optimum,
    check=check,
    # Too little memory for a layer; enough for each, but not for all.
    infeasible=(
        _row(memory_bytes=0.5),
        _row(memory_bytes=1.5, devices=2),
        _row(memory_bytes=0.5, hierarchy=_MACHINES),
        _step(_row(memory_bytes=0.5)),
        _free(_cut(_step(_row(memory_bytes=0.5)))),
        _twice(_cut(_step(_row(memory_bytes=0.5)))),
    ),
    floors=(),
    large=(
        _large(1),
        _large(2, columns=2, rows=10),
        _large(3, devices=24).replace(hierarchy=_MACHINES),
        _step(_large(4)),
        _free(_step(_large(4))),
        _twice(_step(_large(4))),
    ),
)
