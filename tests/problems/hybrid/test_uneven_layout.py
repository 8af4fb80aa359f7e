"""Layouts with unlike numbers of layers in their parts, and with little recomputation: against every plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import msgspec
import pytest

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.step.interleaved import single_slots
from partita.problems.hybrid.step.layout import MeshLayout, layout_plan, parse_layout, uniform_plan
from partita.problems.hybrid.step.least_recompute import stated_plan
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.uneven import decided, tries_all, uneven_cuts
from partita.problems.hybrid.step.solvers.uniform import UniformMesh
from partita.problems.hybrid.training import LayerState, Training
from problems.hybrid.step_strategies import random_step


def uneven(seed: int) -> HybridProblem:
    problem = random_step(seed, ("interleaved",), in_a_row=True, most=4)
    return problem.replace(training=msgspec.structs.replace(problem.step, uneven=True))


def cuts(layers: int, parts: int) -> Iterator[list[range]]:
    for ends in itertools.combinations(range(1, layers), parts - 1):
        yield [range(a, b) for a, b in itertools.pairwise((0, *ends, layers))]


def ways_to_run(problem: HybridProblem, parts: list[range], layout: MeshLayout) -> Iterator[Plan]:
    order = [problem.layers[place] for place in problem.order()]
    names = [[choice.id for choice in layer.configurations.get(layout.tensor, ())] for layer in order]
    for chosen in itertools.product(*names):
        configurations = {layer.id: name for layer, name in zip(order, chosen, strict=True)}
        yield uniform_plan(problem, order, parts, configurations, layout)


def shortest(problem: HybridProblem) -> float:
    """The least step of all uneven interleaved plans, as they are judged."""
    best, layers = math.inf, len(problem.layers)
    for p, v, d, t, zero in itertools.product(
        (2, 3), (2, 3), range(1, problem.microbatches + 1), (1, 2, 3), problem.step.zero
    ):
        if p * v > layers or p * d * t > problem.devices or problem.microbatches % d:
            continue
        layout = MeshLayout(tensor=t, pipeline=p, data=d, chunks=v, zero=zero)
        for parts in cuts(layers, p * v):
            for plan in ways_to_run(problem, parts, layout):
                found = evaluate(problem, plan)
                if found.feasible:
                    best = min(best, found.objective)
    return best


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1200), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_bound_is_above_the_best_uneven_plan(seeds: range) -> None:
    seen = 0
    for seed in seeds:
        problem = uneven(seed)
        best = shortest(problem)
        outcome = UniformMesh().solve(problem, HybridOptions(), Monitor(60.0))
        if math.isinf(best):
            continue
        seen += 1
        assert not outcome.infeasible
        assert outcome.bound is None or outcome.bound <= best * (1 + 1e-9)
        if outcome.plan is not None:
            assert evaluate(problem, outcome.plan).objective >= best * (1 - 1e-9)
    assert seen > len(seeds) // 4


def row(count: int, memory: float, schedule: str = "1f1b") -> HybridProblem:
    def ways(v: int) -> dict[int, tuple[Configuration, ...]]:
        time = 3.0 + v % 3
        return {
            1: (
                Configuration(id="none", time=time, memory_per_microbatch_bytes=4.0 + v % 2),
                Configuration(id="elementwise", time=time + 0.25, memory_per_microbatch_bytes=2.0),
                Configuration(id="full", time=time + 1.0 + 0.1 * v, memory_per_microbatch_bytes=0.5),
            )
        }

    names = ["input", *(f"layers.{v}" for v in range(count)), "output"]
    return HybridProblem(
        name="row",
        devices=4,
        microbatches=4,
        memory_bytes=memory,
        bandwidth_bytes_per_unit=8.0,
        layers=tuple(Layer(id=v, name=name, configurations=ways(v)) for v, name in enumerate(names)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=1.0) for v in range(count + 1)),
        training=Training(schedules=(schedule,), uneven=True),
    )


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1), (3, 0)])
def test_the_least_recomputation_is_the_fastest_that_fits(numbers: tuple[int, ...]) -> None:
    layout = MeshLayout(pipeline=2, layers=numbers, recompute="least")
    parts = [range(numbers[0] + 1), range(numbers[0] + 1, 5)]
    for memory in range(3, 34, 3):
        problem = row(3, float(memory))
        found = evaluate(problem, stated_plan(problem, layout))
        every = [evaluate(problem, plan) for plan in ways_to_run(problem, parts, layout)]
        best = min((one.objective for one in every if one.feasible), default=math.inf)
        assert found.feasible == (best < math.inf)
        if found.feasible:
            assert found.objective == pytest.approx(best, rel=1e-9)


def test_a_layout_says_how_many_layers_each_part_has() -> None:
    problem = row(6, 1e9, "interleaved")
    layout = parse_layout("pipeline=2,chunks=2,layers=1,2,3,0,zero=0")
    assert layout.layers == (1, 2, 3, 0)
    plan = layout_plan(problem, layout)
    assert [stage.chunks for stage in plan.stages] == [((0, 1), (4, 5, 6)), ((2, 3), (7,))]
    assert evaluate(problem, plan).feasible
    # Otherwise parts are alike.
    alike = problem.replace(training=Training(schedules=("interleaved",)))
    assert not evaluate(alike, plan).feasible
    ends = layout_plan(problem, parse_layout("pipeline=2,chunks=2,ends=yes"))
    assert [len(part) for stage in ends.stages for part in stage.chunks] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipeline=2,layers=7,x", "layers has 'x'; give a whole number for each part"),
        ("pipeline=2,layers=1,2,3", "layers has 3 numbers; give one of at least 0 for each of the 2 parts"),
        ("pipeline=2,layers=2,2", "layers adds up to 4; row has 6 repeated layers"),
        ("pipeline=3,ends=yes", "has 8 layers, which 3 parts do not share evenly"),
        ("pipeline=2,layers=3,3,ends=yes", "leave ends out"),
        ("pipeline=4,chunks=1,layers=0,6,0,0", "part 2 of row has no layers"),
        ("pipeline=2,recompute=some", "it must be one of none, selective, full, elementwise, least"),
    ],
)
def test_layouts_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layout_plan(row(6, 1e9), parse_layout(text))


def least_uneven(seeds: range, most: int) -> tuple[int, int]:
    """How many problems have an uneven plan, and of how many the solver proves the one it finds to be the best."""
    seen = proven = 0
    for seed in seeds:
        problem = random_step(seed, ("interleaved",), in_a_row=True, most=most)
        problem = problem.replace(training=msgspec.structs.replace(problem.step, uneven=True))
        if math.prod(max(map(len, layer.configurations.values())) for layer in problem.layers) > 40:
            continue
        best = shortest(problem)
        outcome = UniformMesh().solve(problem, HybridOptions(), Monitor(60.0))
        if math.isinf(best):
            assert outcome.plan is None
            continue
        seen += 1
        assert outcome.plan is not None
        found = evaluate(problem, outcome.plan)
        assert found.feasible
        assert found.objective == pytest.approx(best, rel=1e-9)
        assert outcome.bound is not None
        assert outcome.bound <= best * (1 + 1e-9)
        proven += outcome.bound >= best * (1 - 1e-6)
    return seen, proven


def test_uneven_stages_are_the_best_there_are() -> None:
    seen, proven = least_uneven(range(2000, 2070), 4)
    assert seen > 20
    assert proven == seen


@pytest.mark.slow
def test_many_uneven_stages_are_the_best_there_are() -> None:
    """Rows of up to six layers, every cut of them and every way to recompute."""
    found = [least_uneven(range(3000, 3700), 4), least_uneven(range(4000, 4250), 6)]
    seen, proven = (sum(column) for column in zip(*found, strict=True))
    assert seen >= 300
    assert proven == seen


def large(count: int, memory: float, bytes_handed: float = 1.0) -> HybridProblem:
    """A model with so many equal layers and lighter ends, on 32 devices."""
    names = ["embed", *(f"layers.{v}" for v in range(count)), "head"]

    def ways(v: int) -> dict[int, tuple[Configuration, ...]]:
        time = 4.0 if 0 < v <= count else 3.0
        return {
            t: (
                Configuration(id="none", time=time / t, memory_per_microbatch_bytes=4.0 / t),
                Configuration(id="full", time=(time + 1.0) / t, memory_per_microbatch_bytes=0.5 / t),
            )
            for t in (1, 2)
        }

    state = {t: LayerState(parameter_bytes=2.0 / t, gradient_bytes=4.0 / t, optimizer_bytes=12.0 / t) for t in (1, 2)}
    return HybridProblem(
        name="large",
        devices=32,
        microbatches=32,
        memory_bytes=memory,
        bandwidth_bytes_per_unit=64.0,
        layers=tuple(Layer(id=v, name=name, configurations=ways(v), states=state) for v, name in enumerate(names)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=bytes_handed) for v in range(count + 1)),
        training=Training(schedules=("1f1b", "interleaved"), zero=(0, 1)),
    )


@pytest.mark.parametrize("memory", [90.0, 200.0, 2000.0])
def test_a_search_with_uneven_parts_is_no_worse_than_without_and_than_layouts_of_it(memory: float) -> None:
    """30 layers: with the ends 32, which 8 and 16 stages share out."""
    equal = large(30, memory)
    problem = equal.replace(training=msgspec.structs.replace(equal.step, uneven=True))
    without = UniformMesh().solve(equal, HybridOptions(), Monitor(60.0))
    outcome = UniformMesh().solve(problem, HybridOptions(), Monitor(60.0))
    assert outcome.plan is not None
    found = evaluate(problem, outcome.plan).objective
    assert outcome.bound is not None
    assert outcome.bound <= found * (1 + 1e-9)
    if without.plan is not None:
        assert found <= evaluate(equal, without.plan).objective * (1 + 1e-9)
    tried = 0
    for p, c, t, zero in itertools.product((2, 4, 8, 16), (2, 4, 8), (1, 2), (0, 1)):
        if p * c * t > 32 or 32 % (p * t) or 32 // (32 // (p * t)) % p:
            continue
        layout = MeshLayout(tensor=t, pipeline=p, data=32 // (p * t), chunks=c, zero=zero, ends=True, recompute="least")
        mine = evaluate(problem, stated_plan(problem, layout))
        if mine.feasible:
            tried += 1
            assert found <= mine.objective * (1 + 1e-9), layout
            assert outcome.bound <= mine.objective * (1 + 1e-9)
    assert tried > (memory > 100)


def test_cuts_are_called_all_only_where_each_layer_recomputes_what_it_likes() -> None:
    """Where every part has one layer there is one cut, of stages that may be large."""
    called = 0
    for count, p, c in itertools.product((4, 8, 24, 26, 50, 98), (2, 3, 13), (2, 3, 13, 26, 50)):
        if p * c > count + 2:
            continue
        problem = row(count, 1e9, "interleaved")
        order = [problem.layers[place] for place in problem.order()]
        mesh = DeviceMesh(problem, p, 1, 1, "interleaved", c)
        if not tries_all(mesh, order, chain=True):
            continue
        called += 1
        assert not tries_all(mesh, order, chain=False)
        every, proven = uneven_cuts(mesh, order, chain=True)
        assert proven
        for parts in every:
            for rank in range(p):
                mine = parts[rank::p]
                assert decided(order, mine, 1) == single_slots(order, mine, 1)
    assert called > 5
