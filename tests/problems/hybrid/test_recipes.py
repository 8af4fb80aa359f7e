"""Recipes: feasible plans of their kind, never better than the planner's."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import partita as pt
from partita.conductor.compare import run_baselines
from partita.conductor.judge import adopt_better, evaluate
from partita.engines.search.monitor import Monitor
from partita.ground.units import GIB
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions, Solver
from partita.problems.hybrid.report.limits import device_time, explain_slower, hybrid_sentences
from partita.problems.hybrid.steady.baselines import BASELINES
from partita.problems.hybrid.steady.baselines.layouts import LayoutPlanner, fastest_choices
from partita.problems.hybrid.steady.evaluate import step_time
from problems.hybrid.brute_force import best_objective
from problems.hybrid.independent_evaluator import judge, stage_cost
from problems.hybrid.strategies import hybrid_problems, machine_problems

#: Recipes of a step are held against it in the contract suite.
every_recipe = pytest.mark.parametrize("recipe", BASELINES, ids=[recipe.name for recipe in BASELINES])


def has_kind(recipe: Solver, problem: HybridProblem, plan: Plan) -> bool:
    """Whether a plan is of the kind that the recipe's name promises."""
    stages = plan.stages
    replicas = {stage.data_parallel for stage in stages}
    degrees = {stage.tensor_parallel for stage in stages}
    kinds = {
        "pure data parallel": len(stages) == 1 and degrees == {1},
        "pure tensor parallel": len(stages) == 1 and replicas == {1} and degrees != {1},
        "pure pipeline": replicas == {1} and degrees == {1},
        "Megatron's recipe": len(replicas) == 1 and len(degrees) == 1,
        "equal stages": len(replicas) == 1 and len(degrees) == 1,
        "equal stages, no tensor": len(replicas) == 1 and degrees == {1},
        "no data parallelism": replicas == {1},
        "no tensor parallelism": degrees == {1},
        "no recomputation": all(
            choice.time == min(c.time for c in layer.configurations[stage.tensor_parallel])
            for stage in stages
            for layer in problem.layers
            if layer.id in stage.configurations
            for choice in layer.configurations[stage.tensor_parallel]
            if choice.id == stage.configurations[layer.id]
        ),
    }
    return kinds[recipe.name]


@every_recipe
@given(problem=hybrid_problems())
@settings(max_examples=40)
def test_a_recipe_makes_a_plan_of_its_kind_or_says_why(recipe: Solver, problem: HybridProblem) -> None:
    outcome = recipe.solve(problem, HybridOptions(machine_devices=2), Monitor(30.0))
    if outcome.plan is None:
        assert outcome.reason
        return
    value, broken = judge(problem, outcome.plan)
    assert broken == []
    assert has_kind(recipe, problem, outcome.plan)
    best = best_objective(problem)
    assert best is not None
    assert value >= best - 1e-9 * max(1.0, best)


@given(problem=st.one_of(machine_problems(), hybrid_problems()))
@settings(max_examples=60)
def test_no_recipe_beats_the_planner(problem: HybridProblem) -> None:
    best = pt.solve(problem, explain=False)
    assert best.objective == 0 or best.status in (pt.Status.OPTIMAL, pt.Status.INFEASIBLE)
    for row in run_baselines(problem, HybridOptions()):
        if row.feasible:
            assert row.plan is not None
            value, broken = judge(problem, row.plan)
            assert broken == []
            assert best.objective is not None
            assert value >= best.objective * (1 - 1e-6) - 1e-9
            assert step_time(problem, row.plan, row.evaluation).per_microbatch >= value * (1 - 1e-9)
            spent = device_time(problem, row.plan, evaluate(problem, row.plan))
            assert spent.total == pytest.approx(problem.devices * value, rel=1e-9, abs=1e-9)
            assert min(spent.parts().values()) >= -1e-9 * max(1.0, value)
        else:
            assert row.note


def restricted(problem: HybridProblem, name: str) -> HybridProblem | None:
    """The problem that a restricted recipe solves, made in another way; None if it has no plan at all."""
    layers = []
    for layer in problem.layers:
        table = dict(layer.configurations)
        if name in ("no tensor parallelism", "pure pipeline"):
            table = {t: row for t, row in table.items() if t == 1}
        if name == "no recomputation":
            table = {
                t: (min(row, key=lambda c: (c.time, c.memory_per_microbatch_bytes, c.memory_bytes, c.weight_bytes)),)
                for t, row in table.items()
            }
        if not table:
            return None
        layers.append(Layer(id=layer.id, configurations=table))
    return problem.replace(layers=tuple(layers))


def best_without_replicas(problem: HybridProblem) -> float | None:
    """The smallest time per sample with d = 1, by trying everything from the last stage on."""
    layers = {layer.id: layer for layer in problem.layers}

    def rows(left: frozenset[int], devices: int, later: int) -> Fraction | None:
        if not left:
            return Fraction(0)
        if later >= problem.microbatches:
            return None
        best: Fraction | None = None
        for size in range(1, len(left) + 1):
            for members in map(frozenset, itertools.combinations(sorted(left), size)):
                earlier = left - members
                if any(edge.source in members and edge.target in earlier for edge in problem.edges):
                    continue
                for t in range(1, devices + 1):
                    rest = rows(earlier, devices - t, later + 1)
                    if rest is None:
                        continue
                    for choice in itertools.product(*(layers[v].configurations.get(t, ()) for v in sorted(members))):
                        chosen = dict(zip(sorted(members), choice, strict=True))
                        time, memory = stage_cost(problem, members, earlier, 1, later + 1, chosen)
                        if problem.memory_bytes is not None and memory > Fraction(problem.memory_bytes):
                            continue
                        here = max(time, rest)
                        best = here if best is None or here < best else best
        return best

    answer = rows(frozenset(layers), problem.devices, 0)
    return None if answer is None else float(answer)


@pytest.mark.parametrize("name", ["no tensor parallelism", "no recomputation", "no data parallelism", "pure pipeline"])
@given(problem=hybrid_problems(max_layers=4, max_devices=4))
@settings(max_examples=40)
def test_restricted_planners_are_exact(name: str, problem: HybridProblem) -> None:
    (recipe,) = [recipe for recipe in BASELINES if recipe.name == name]
    outcome = recipe.solve(problem, HybridOptions(), Monitor(30.0))
    less = restricted(problem, name)
    single = name in ("no data parallelism", "pure pipeline")
    expected = None if less is None else (best_without_replicas if single else best_objective)(less)
    if expected is None:
        assert outcome.plan is None
        return
    assert outcome.plan is not None
    assert evaluate(problem, outcome.plan).objective == pytest.approx(expected, rel=1e-6, abs=1e-9)


def transformer(count: int, **changes: object) -> HybridProblem:
    """An embedding, like blocks of two layers, and a head, on sixteen devices."""

    def space(time: float, weights: float) -> dict[int, tuple[Configuration, ...]]:
        return {
            t: (
                Configuration(id="plain", time=time / t, weight_bytes=weights / t, memory_per_microbatch_bytes=4.0 / t),
                Configuration(id="full", time=4 / 3 * time / t, weight_bytes=weights / t, memory_bytes=1.0),
            )
            for t in (1, 2, 4, 8, 16)
        }

    shapes = [space(1.0, 3.0), *([space(2.0, 1.0), space(4.0, 2.0)] * count), space(0.5, 3.0)]
    fields = {
        "name": "transformer",
        "devices": 16,
        "microbatches": 64,
        "bandwidth_bytes_per_unit": 100.0,
        "layers": tuple(Layer(id=i, configurations=shape) for i, shape in enumerate(shapes)),
        "edges": tuple(Edge(source=i, target=i + 1, bytes=1.0) for i in range(len(shapes) - 1)),
    }
    return HybridProblem(**(fields | changes))


def test_blocks_are_found_between_the_ends() -> None:
    blocks = find_blocks(LayoutPlanner(transformer(4)).order)
    assert blocks.starts == (1, 3, 5, 7)
    assert (blocks.end, blocks.layers) == (9, 10)


def plan_of(name: str, problem: HybridProblem, machine: int = 8) -> Plan:
    (recipe,) = [recipe for recipe in BASELINES if recipe.name == name]
    outcome = recipe.solve(problem, HybridOptions(machine_devices=machine), Monitor(30.0))
    assert outcome.plan is not None, outcome.reason
    return outcome.plan


@pytest.mark.parametrize(
    ("machine", "memory", "expected"),
    [(8, None, [(10, 2, 8)]), (4, None, [(10, 4, 4)]), (4, 6.0, [(5, 2, 4), (5, 2, 4)])],
    ids=["a machine of eight", "a machine of four", "two stages for memory"],
)
def test_megatron(machine: int, memory: float | None, expected: list[tuple[int, int, int]]) -> None:
    """Ten layers: with 6 bytes two stages are needed, five layers each, the first with two microbatches in flight."""
    plan = plan_of("Megatron's recipe", transformer(4).replace(memory_bytes=memory), machine)
    assert [(len(stage.operators), stage.data_parallel, stage.tensor_parallel) for stage in plan.stages] == expected


def test_what_does_not_fit_is_said_with_bytes() -> None:
    (recipe,) = [recipe for recipe in BASELINES if recipe.name == "pure data parallel"]
    outcome = recipe.solve(transformer(4).replace(memory_bytes=6.0), HybridOptions(), Monitor(30.0))
    assert outcome.plan is None
    assert outcome.reason == (
        "its smallest setting (1 stage, data 1, tensor 1) needs 4 B more on a device than the 6 B there are"
    )


def test_layers_recompute_no_more_than_they_must() -> None:
    ways = (
        Configuration(id="plain", time=4.0, memory_per_microbatch_bytes=4.0),
        Configuration(id="some", time=4.5, memory_per_microbatch_bytes=3.0),
        Configuration(id="full", time=6.0, memory_per_microbatch_bytes=1.0),
    )
    assert fastest_choices([(ways, 4)], 2, 32.0) == ((4, 0, 0),)
    assert fastest_choices([(ways, 4)], 2, 26.0) == ((1, 3, 0),)
    assert fastest_choices([(ways, 4)], 2, 25.9) == ((0, 4, 0),)
    assert fastest_choices([(ways, 4)], 2, 8.0) == ((0, 0, 4),)
    assert fastest_choices([(ways, 4)], 2, 7.9) is None


#: Devices and the best equal partition at 8 GiB that the published program gives.
EQUAL = ((8, 0.230978), (64, 0.02910369), (512, 0.00386940))


@pytest.mark.parametrize(("devices", "published"), EQUAL)
def test_published_equal_stages_are_reached(devices: int, published: float, published_data: Path) -> None:
    """Recomputation is chosen layer by layer here, for the whole model there: the times are near, and no worse."""
    problem = pt.read_problem(published_data / "piper" / "bert32a100.json")
    problem = problem.replace(
        devices=devices,
        memory_bytes=8 * GIB,
        microbatches=512,
        weight_sync_per_batch=True,
        bandwidth_bytes_per_unit=25.0 * GIB,
    )
    value = evaluate(problem, plan_of("equal stages", problem)).objective
    assert published * (1 - 0.01) <= value <= published
    best = pt.solve(problem)
    assert best.status is pt.Status.OPTIMAL
    assert best.objective <= value


def test_a_better_recipe_replaces_an_unfinished_plan() -> None:
    """Only a search that was cut short can be beaten, and a proof that is contradicted is a defect."""
    problem = transformer(4)
    rows = run_baselines(problem, HybridOptions())
    best = pt.solve(problem)
    (worse,) = [row for row in rows if row.name == "pure pipeline"]
    cut = dataclasses.replace(
        best, plan=worse.plan, evaluation=worse.evaluation, bound=None, status=pt.Status.FEASIBLE, reason=""
    )
    found = adopt_better(cut, rows, HybridOptions())
    assert found.objective == min(row.evaluation.objective for row in rows if row.evaluation is not None)
    assert found.status is pt.Status.FEASIBLE
    assert "adopted" in found.statistics.events[-1].note
    assert adopt_better(best, rows, HybridOptions()) is best
    lost = dataclasses.replace(best, plan=None, evaluation=None, bound=None, status=pt.Status.INFEASIBLE)
    with pytest.raises(pt.DisagreementError, match="no plan"):
        adopt_better(lost, rows, HybridOptions())
    assert best.objective is not None
    high = dataclasses.replace(best, bound=pt.Bound(2 * best.objective, "wrong", "acyclic"))
    with pytest.raises(pt.DisagreementError, match="claims bound"):
        adopt_better(high, rows, HybridOptions())


def test_what_a_slower_layout_spends_more_on() -> None:
    problem = transformer(4)
    rows = {row.name: row for row in run_baselines(problem, HybridOptions())}
    plan = pt.solve(problem)
    mine = device_time(problem, plan.plan, plan.evaluation)
    alone = rows["pure pipeline"]
    spent = device_time(problem, alone.plan, alone.evaluation)
    assert spent.idle == pytest.approx((16 - len(alone.plan.stages)) * alone.evaluation.objective)
    assert explain_slower(spent, mine).startswith("devices without work +")
    assert spent.binding == "devices"
    tight = problem.replace(memory_bytes=1.0)
    best = pt.solve(tight)
    sentences = hybrid_sentences(tight, best.plan, best.evaluation, plan.objective)
    assert "without memory limit the plan would be" in sentences[1]
    assert sentences[0].endswith("memory binds")
