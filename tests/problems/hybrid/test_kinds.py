"""Bounds that count devices kind by kind: against linear programs, every plan, and searches that count nothing."""

from __future__ import annotations

import itertools
import math
import random
from unittest import mock

import msgspec
import numpy as np
import pytest
from scipy.optimize import linprog

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.evaluation import configurations_of
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.step.evaluate import stage_costs
from partita.problems.hybrid.step.solvers import free_family
from partita.problems.hybrid.step.solvers.degree_boxes import boxes_by_degrees, seats
from partita.problems.hybrid.step.solvers.free import FreeMesh, PipelineSearch
from partita.problems.hybrid.step.solvers.free_family import FreeBox
from partita.problems.hybrid.step.solvers.kind_weights import kinds_need
from partita.problems.hybrid.training import LayerState, Training
from problems.hybrid.brute_force_rows import every_row, shortest_row


def random_kinds(seed: int, layers: int, kinds: int = 2, machine: int = 2, most: int = 2) -> HybridProblem:
    """A row of layers that are too large for few devices, on several kinds of unlike speed, memory and links."""
    draw = random.Random(seed)
    replicated = draw.random() < 0.4
    work = [draw.choice((2.0, 3.0, 4.0)) if draw.random() < 0.7 else draw.uniform(0.5, 9.0) for _ in range(layers)]
    names = ("none", "full") if layers == 4 and kinds == 2 and draw.random() < 0.5 else ("none",)
    schedules = draw.choice((("1f1b",), ("1f1b",), ("gpipe",), ("zero-bubble",), ("1f1b", "zero-bubble")))
    zero = draw.choice(((0,), (1,), (0, 3), (2,)))
    state = LayerState(
        parameter_bytes=draw.randint(0, 2),
        gradient_bytes=1.0,
        optimizer_bytes=draw.randint(1, 4),
        update_time=draw.choice((0.0, 0.25, 2.0)),
        weight_gradient_time=draw.choice((None, 0.5)),
    )

    lacking = draw.randrange(layers) if draw.random() < 0.2 else -1

    def space(speed: float, number: int) -> dict[int, tuple[Configuration, ...]]:
        return {
            t: tuple(
                Configuration(
                    id=name,
                    time=work[number] * speed / t * (1.1 if t > 1 else 1.0) * (1.3 if name == "full" else 1.0),
                    forward_time=work[number] * speed / t / 3,
                    memory_per_microbatch_bytes=(2.0 if name == "none" else 0.5) / t,
                )
                for name in names
            )
            for t in range(1, machine + 1)
            if t == 1 or number != lacking
        }

    found = []
    edges = tuple(Edge(source=v, target=v + 1, bytes=draw.choice((0.0, 1.0, 3.0))) for v in range(layers - 1))
    for number in range(kinds):
        speed = draw.choice((1.0, 1.5, 3.0))
        found.append(
            HybridProblem(
                name=f"kind {number}",
                device=f"kind {number}",
                devices=machine * draw.randint(1, most),
                memory_bytes=draw.choice((None, draw.uniform(8.0, 30.0), draw.uniform(8.0, 30.0))),
                bandwidth_bytes_per_unit=draw.choice((4.0, 8.0)),
                microbatches=draw.choice((4, 6)) if replicated else draw.choice((5, 7, 11)),
                layers=tuple(
                    Layer(id=v, configurations=space(speed, v), states={1: state, 2: state}) for v in range(layers)
                ),
                edges=edges,
                hierarchy=Hierarchy(devices_per_machine=machine, machine_bandwidth_bytes_per_unit=4.0),
                training=Training(
                    schedules=schedules, zero=zero, call_times=(0.0, draw.choice((0.0, 0.25))), reserves={1: 0.5}
                ),
            )
        )
    same = found[0].microbatches
    others = tuple(one.replace(microbatches=same) for one in found[1:])
    return found[0].replace(name=f"kinds {seed}", others=others)


def cases(seeds: range) -> list[tuple[int, HybridProblem]]:
    """Problems of two and three kinds, with and without tensor-parallel degrees."""
    shapes = ((4, 2, 2, 1), (5, 2, 1, 3), (4, 2, 1, 3), (4, 3, 1, 2), (5, 2, 1, 2))
    return [(seed, random_kinds(seed, *shapes[seed % len(shapes)])) for seed in seeds]


def solved(problem: HybridProblem) -> tuple[float, Plan | None]:
    """The proven least time of a step, infinite if there is none, and its plan."""
    outcome = FreeMesh().solve(problem, HybridOptions(), Monitor(300.0))
    if outcome.plan is None:
        assert outcome.infeasible
        return math.inf, None
    found = evaluate(problem, outcome.plan)
    assert found.feasible
    assert outcome.bound is not None
    assert found.objective * (1 - 1e-6) <= outcome.bound <= found.objective
    return found.objective, outcome.plan


def check_all_plans(seeds: range) -> tuple[int, int]:
    """How many have a plan, and how many of these plans are on several kinds."""
    plans = mixed = 0
    for seed, problem in cases(seeds):
        value, plan = solved(problem)
        assert value == pytest.approx(shortest_row(problem), rel=1e-6), seed
        plans += plan is not None
        mixed += plan is not None and len({stage.kind for stage in plan.stages}) > 1
    return plans, mixed


@pytest.mark.parametrize("seeds", [range(20), range(40, 60)], ids=str)
def test_no_pipeline_on_kinds_is_shorter(seeds: range) -> None:
    plans, mixed = check_all_plans(seeds)
    assert plans >= 13
    assert mixed >= 8


def test_a_beginning_with_fewer_stages_does_not_stand_for_longer_pipelines() -> None:
    """All stages hold what the first one does, so that pipelines are looked for by their number of stages."""
    check_all_plans(range(447, 448))


@pytest.mark.slow
def test_no_pipeline_of_many_is_shorter() -> None:
    plans, mixed = check_all_plans(range(200, 500))
    assert plans >= 200
    assert mixed >= 120


def test_counting_devices_changes_no_answer() -> None:
    """Rows that are longer than all plans can be looked at, with and without bounds by what is left of each kind."""
    mixed = 0
    for seed in range(14):
        problem = random_kinds(seed, 9, kinds=2 + seed % 2, machine=2, most=2)
        value, plan = solved(problem)
        with mock.patch.object(free_family, "_STEPS", 0), mock.patch.object(free_family, "_AHEAD", ()):
            assert solved(problem)[0] == pytest.approx(value, rel=1e-6), seed
        mixed += plan is not None and len({stage.kind for stage in plan.stages}) > 1
    assert mixed >= 8


def test_units_of_several_widths_are_no_more_than_the_devices() -> None:
    """Stages with degrees of their own, where devices count in units that are too coarse for some."""
    plans = 0
    for seed in range(16):
        problem = random_kinds(seed, 5, machine=2, most=2)
        kinds = tuple(
            kind.replace(training=msgspec.structs.replace(kind.step, mesh="free"), others=()) for kind in problem.kinds
        )
        problem = kinds[0].replace(others=kinds[1:])
        value, plan = solved(problem)
        # Room for a few columns.
        with mock.patch.object(free_family, "_STEPS", 1200):
            assert solved(problem)[0] == pytest.approx(value, rel=1e-6), seed
        plans += plan is not None
    assert plans >= 8


def program(alone: np.ndarray, shared: np.ndarray, seats: list[int]) -> float:
    """The same as a linear program: the most that layers pay, one variable for each, and weights of kinds."""
    kinds, layers = alone.shape
    rows, limits = [], []
    for k, v in itertools.product(range(kinds), range(layers)):
        if math.isfinite(alone[k, v]):
            row = np.zeros(layers + kinds)
            row[v], row[layers + k] = 1.0, -shared[k, v]
            rows.append(row)
            limits.append(alone[k, v])
    rows.append(np.concatenate([np.zeros(layers), seats]))
    limits.append(1.0)
    found = linprog(np.concatenate([-np.ones(layers), np.zeros(kinds)]), np.array(rows), limits, bounds=(0, None))
    return float(-found.fun)


def test_weights_of_kinds_are_the_best_of_two_and_close_of_three() -> None:
    for seed in range(60):
        draw = np.random.default_rng(seed)
        kinds, layers = 1 + seed % 3, int(draw.integers(1, 9))
        alone = draw.integers(0, 9, (kinds, layers)) * draw.choice((0.0, 1.0))
        shared = draw.uniform(0.0, 9.0, (kinds, layers)) if seed % 2 else draw.integers(0, 5, (kinds, layers)) * 1.0
        if kinds > 1:
            alone[0, draw.random(layers) < 0.2] = math.inf
        seats = draw.integers(1, 5, kinds).tolist()
        best, found = program(alone, shared, seats), kinds_need(alone, shared, np.ones(layers), seats)
        assert found <= best * (1 + 1e-9) + 1e-12, seed
        assert found >= best * (1 - (1e-9 if kinds < 3 else 0.02)) - 1e-12, seed


def test_kinds_without_room_or_degrees_run_nothing() -> None:
    ones = np.ones(2)
    one, dear = np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([[4.0, 4.0], [1.0, 1.0]])
    assert kinds_need(one, dear, ones, [2, 0]) == pytest.approx(3.0 + 4.0)
    assert math.isinf(kinds_need(one, dear, ones, [0, 0]))
    nowhere = np.where([[True, False], [True, False]], math.inf, one)
    assert math.isinf(kinds_need(nowhere, dear, ones, [2, 2]))


def test_stages_that_do_not_fill_machines_leave_devices_idle() -> None:
    kind = random_kinds(0, 4, machine=2, most=2).replace(
        others=(), devices=24, hierarchy=Hierarchy(devices_per_machine=8, machine_bandwidth_bytes_per_unit=4.0)
    )
    assert [seats(kind, width) for width in (1, 2, 3, 5, 8, 12, 16, 24, 25)] == [24, 12, 6, 3, 3, 1, 1, 1, 0]


def test_every_pipeline_is_in_a_box_that_bounds_it() -> None:
    seen = 0
    for seed, problem in cases(range(100, 112)):
        boxes: dict[object, tuple[float, FreeBox]] = {}
        for bound, make in boxes_by_degrees(problem):
            box = make()
            boxes[box.schedule, box.zero, box.data, box.tensors] = bound, box
        assert len(boxes) == len(list(boxes_by_degrees(problem)))
        all_work = PipelineSearch(problem, HybridOptions())._work()
        for plan, step in every_row(problem):
            assert all_work <= step * (1 + 1e-12)
            if len({(s.kind, s.data_parallel, s.tensor_parallel) for s in plan.stages}) == 1:
                continue
            data = plan.stages[0].data_parallel
            at = {stage.kind: stage.tensor_parallel for stage in plan.stages}
            mine = [
                (bound, box)
                for bound, box in boxes.values()
                if (box.schedule, box.data) == (plan.schedule, data)
                and (box.zero == plan.zero or data == 1)
                and box.tensors is not None
                and all(at.get(kind.device, t) == t for kind, t in zip(problem.kinds, box.tensors, strict=True))
            ]
            assert mine, seed
            costs = stage_costs(problem, plan, configurations_of(problem, plan))[1]
            most = [max(row) for row in zip(*((c.holding, c.ahead, c.sync + c.update) for c in costs), strict=True)]
            for bound, box in mine:
                assert bound <= step * (1 + 1e-12), seed
                assert all(low <= cost * (1 + 1e-12) for low, cost in zip(box.lows, most, strict=True)), seed
                assert box.fewest <= plan.microbatches <= box.replicas, seed
            seen += 1
    assert seen >= 500
