"""Steps of stages with degrees of their own, and on several kinds of devices: against every plan and the simulator."""

from __future__ import annotations

import math
import random
from pathlib import Path

import msgspec
import pytest

import partita as pt
from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.facets.timeline import RunRequest
from partita.problems.hybrid.descriptor import STEP
from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.options import HybridChanges
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.step.baselines.restricted import FASTEST_KIND, PROPORTIONAL
from partita.problems.hybrid.step.solvers.free import FreeMesh, bound_of_free
from partita.problems.hybrid.step.solvers.uniform import UniformMesh
from partita.problems.hybrid.training import StageLimits, Training
from partita.simulator.simulate import simulate
from problems.hybrid.brute_force_rows import every_row, rows_of, shortest_row
from problems.hybrid.brute_force_step import shortest_step
from problems.hybrid.step_strategies import in_threes, limited, random_mixed, random_step, spread_step

EVERY = [("1f1b",), ("gpipe",), ("zero-bubble",), ("1f1b", "interleaved", "zero-bubble")]


def free(problem: HybridProblem) -> HybridProblem:
    """The problem with degrees of each stage's own, on few devices."""
    assert problem.training is not None
    size = 1 if problem.hierarchy is None else problem.hierarchy.devices_per_machine
    return problem.replace(
        devices=min(problem.devices, 6 // size * size),
        training=msgspec.structs.replace(problem.training, mesh="free"),
    )


def check(problem: HybridProblem, best: float) -> None:
    """The solver's answer is as good as the best of all plans, and proven."""
    outcome = FreeMesh().solve(problem, HybridOptions(), Monitor(300.0))
    if outcome.plan is None:
        assert (math.isinf(best), outcome.infeasible) == (True, True)
        return
    found = evaluate(problem, outcome.plan)
    assert found.feasible, found.violations
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert outcome.bound == pytest.approx(best, rel=1e-6)
    assert outcome.bound <= best * (1 + 1e-12)


def check_free(seed: int) -> None:
    problem = free(random_step(seed, EVERY[seed % len(EVERY)], most=4))
    check(problem, min(shortest_row(problem), shortest_step(problem)))


def check_mixed(seed: int) -> None:
    schedules = ("1f1b", "zero-bubble") if seed % 4 == 3 else EVERY[seed % 3]
    mesh = "free" if seed % 3 == 0 else "uniform"
    problem = random_mixed(seed, schedules, kinds=3 if seed % 5 == 0 else 2, mesh=mesh)
    check(problem, shortest_row(problem))


@pytest.mark.parametrize("seeds", [range(10), range(50, 60), range(104, 114)], ids=str)
def test_no_row_is_shorter(seeds: range) -> None:
    for seed in seeds:
        check_free(seed)


@pytest.mark.parametrize("seeds", [range(10), range(36, 44)], ids=str)
def test_no_row_on_several_kinds_is_shorter(seeds: range) -> None:
    for seed in seeds:
        check_mixed(seed)


def test_no_row_on_machines_that_groups_do_not_fill_is_shorter() -> None:
    for seed in range(24):
        problem = in_threes(free(random_step(seed, EVERY[seed % len(EVERY)], most=3)))
        rows = list(every_row(problem))
        # Each of the two machines has one group of two.
        for plan, _ in rows:
            assert sum(stage.data_parallel for stage in plan.stages if stage.tensor_parallel == 2) <= 2
        check(problem, min([shortest_step(problem), *(step for _, step in rows)]))


def test_no_row_within_the_limits_of_stages_is_shorter() -> None:
    for seed in (*range(8), 16, 17):
        problem = limited(free(random_step(seed, EVERY[seed % len(EVERY)], most=4)), seed)
        check(problem, min(shortest_row(problem), shortest_step(problem)))


def test_rows_pass_over_no_stage_that_they_must_not() -> None:
    """The middle layer runs on two devices only, the others on one."""
    layers = tuple(Layer(id=v, configurations={t: (Configuration(id="a", time=2.0),)}) for v, t in enumerate((1, 2, 1)))
    problem = HybridProblem(
        name="three",
        devices=4,
        bandwidth_bytes_per_unit=1.0,
        microbatches=3,
        layers=layers,
        edges=(Edge(source=0, target=1, bytes=0.0), Edge(source=1, target=2, bytes=0.0)),
        training=Training(mesh="free"),
    )
    assert pt.solve(problem).objective == pytest.approx(2 * 3 + 2 * 2)
    limits = StageLimits(handed=((0, 2),))
    kept = problem.replace(training=msgspec.structs.replace(problem.training, limits=limits))
    assert FreeMesh().solve(kept, HybridOptions(), Monitor(60.0)).infeasible


def test_no_row_is_shorter_beside_meshes_that_share_out_sequences_or_experts() -> None:
    shared = 0
    for seed in range(12):
        problem = free(spread_step(seed, EVERY[seed % len(EVERY)]))
        best = FreeMesh().solve(problem, HybridOptions(), Monitor(300.0)).plan
        check(problem, min(shortest_row(problem), shortest_step(problem)))
        shared += best is not None and best.stages[0].context_parallel * best.stages[0].expert_parallel > 1
    assert shared > 1


def test_rows_share_out_neither_sequences_nor_experts() -> None:
    problem = small_mixed()
    plan = pt.solve(problem).plan
    stages = tuple(msgspec.structs.replace(stage, context_parallel=2) for stage in plan.stages)
    judged = evaluate(problem, msgspec.structs.replace(plan, stages=stages))
    assert any("context degree 2 and expert degree 1" in text for text in judged.violations)
    (other,) = problem.others
    spread = ContextExpertLayers(context=2, expert=1, layers=other.layers)
    with pytest.raises(InputError, match="leave spreads out"):
        problem.replace(others=(other.replace(spreads=(spread,)),))


@pytest.mark.slow
def test_no_row_of_many_models_is_shorter() -> None:
    for seed in range(200):
        check_free(seed)
        check_mixed(seed)


def test_degrees_of_their_own_can_be_worth_it() -> None:
    """The search is about more than uniform meshes: the last layer is twice as long, and has twice the devices."""
    layers = tuple(Layer(id=v, configurations={1: (Configuration(id="a", time=t),)}) for v, t in enumerate((4.0, 8.0)))
    problem = HybridProblem(
        name="two",
        devices=3,
        bandwidth_bytes_per_unit=1.0,
        memory_bytes=1.0,
        microbatches=8,
        layers=tuple(
            msgspec.structs.replace(
                layer,
                configurations={
                    1: (msgspec.structs.replace(layer.configurations[1][0], memory_bytes=1.0),),
                },
            )
            for layer in layers
        ),
        edges=(Edge(source=0, target=1, bytes=0.0),),
        training=Training(mesh="free"),
    )
    result = pt.solve(problem)
    assert [(stage.data_parallel, stage.tensor_parallel) for stage in result.plan.stages] == [(1, 1), (2, 1)]
    # 4 for the first microbatch, then four of 8 on each of two replicas; or eight of 4 and one of 8.
    assert result.objective == pytest.approx(40.0)
    assert str(result.status) == "optimal"
    assert problem.replace(training=Training()).training is not None
    assert pt.solve(problem.replace(training=Training())).objective == pytest.approx(4 + 64.0)


def test_bounds_for_uniform_meshes_are_below_every_row() -> None:
    proven = 0
    for seed in range(12):
        problem = random_step(seed, ("1f1b",), most=4)
        result = pt.solve(problem)
        if result.plan is None:
            continue
        bound = bound_of_free(result, HybridOptions(), Monitor(60.0))
        best = min(shortest_row(free(problem).replace(devices=problem.devices)), result.objective)
        assert bound is not None
        assert best * (1 - 5e-3) <= bound <= best * (1 + 1e-9)
        proven += 1
    assert proven > 5


def random_row(seed: int, problem: HybridProblem) -> Plan | None:
    """Any pipeline that differ, with the fastest configurations."""
    assert problem.training is not None
    draw = random.Random(seed)
    rows = [(row, degrees) for row, degrees in rows_of(problem) if len(set(degrees)) > 1]
    if not rows:
        return None
    row, degrees = draw.choice(rows)
    stages = []
    for part, (k, d, t) in zip(row, degrees, strict=True):
        layers = {layer.id: layer for layer in problem.kinds[k].layers}
        if not all(layers[v].configurations.get(t) for v in part):
            return None
        stages.append(
            Stage(
                operators=tuple(part),
                data_parallel=d,
                tensor_parallel=t,
                kind=problem.kinds[k].device,
                configurations={v: layers[v].configurations[t][0].id for v in part},
            )
        )
    plan = Plan(stages=tuple(stages), schedule=problem.training.schedules[0], zero=problem.training.zero[0])
    return plan if evaluate(problem, plan).feasible else None


@pytest.mark.parametrize(("kinds", "most"), [(1, 1.15), (2, 1.0)])
def test_rows_under_1f1b_are_simulated_no_later(kinds: int, most: float) -> None:
    """With one data-parallel degree, that is; replicas that take turns with others may wait for them."""
    seen = 0
    for seed in range(60):
        problem = free(random_step(seed, ("1f1b",), most=4)) if kinds == 1 else random_mixed(seed, ("1f1b",), kinds)
        plan = random_row(seed, problem)
        if plan is None:
            continue
        evaluation = evaluate(problem, plan)
        request = msgspec.structs.replace(RunRequest(), microbatches=problem.microbatches)
        simulation = simulate(STEP.timeline.program(problem, plan, evaluation, request))
        assert simulation.step_time <= evaluation.objective * most * (1 + 1e-9)
        assert simulation.step_time >= 0.4 * evaluation.objective
        seen += 1
    assert seen > 5


def small_mixed() -> HybridProblem:
    """Four equal layers on two fast devices and two that are half as fast, in machines of two."""

    def on(device: str, time: float) -> HybridProblem:
        choice = Configuration(id="none", time=time, memory_per_microbatch_bytes=1.0)
        return HybridProblem(
            name=device,
            device=device,
            devices=2,
            memory_bytes=8.0,
            bandwidth_bytes_per_unit=8.0,
            hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=4.0),
            microbatches=8,
            layers=tuple(Layer(id=v, configurations={1: (choice,)}) for v in range(4)),
            edges=tuple(Edge(source=v, target=v + 1, bytes=0.0) for v in range(3)),
            training=Training(schedules=("1f1b",)),
        )

    return on("fast", 3.0).replace(name="mixed", others=(on("slow", 9.0),))


def test_several_kinds_by_hand(tmp_path: Path) -> None:
    problem = small_mixed()
    result = pt.solve(problem)
    # Two replicas of two stages, three layers on the fast devices: 9 + 9 and three more of 9 each.
    assert result.objective == pytest.approx(18 + 3 * 9)
    assert [(stage.kind, len(stage.operators), stage.data_parallel) for stage in result.plan.stages] in (
        [("fast", 3, 2), ("slow", 1, 2)],
        [("slow", 1, 2), ("fast", 3, 2)],
    )
    assert str(result.status) == "optimal"
    pt.write_problem(tmp_path / "p.json", problem)
    again = pt.read_problem(tmp_path / "p.json")
    assert again == problem
    assert evaluate(again, result.plan).objective == result.objective
    alone = FASTEST_KIND.solve(problem, HybridOptions(), Monitor(10.0)).plan
    assert evaluate(problem, alone).objective == pytest.approx(48.0)
    shares = PROPORTIONAL.solve(problem, HybridOptions(), Monitor(10.0)).plan
    assert {stage.kind for stage in shares.stages} == {"fast", "slow"}
    assert evaluate(problem, shares).objective == pytest.approx(45.0)
    assert [each.name for each in STEP.baselines_of(problem)] == [FASTEST_KIND.name, PROPORTIONAL.name]
    assert FASTEST_KIND not in STEP.baselines_of(problem.replace(others=()))


def test_plans_on_several_kinds_are_judged() -> None:
    problem = small_mixed()
    best = pt.solve(problem).plan
    first, second = best.stages
    one = msgspec.structs.replace(first, data_parallel=1)
    uneven = evaluate(problem, msgspec.structs.replace(best, stages=(one, second)))
    assert "in a uniform mesh every stage has the same data-parallel degree" in uneven.violations
    many = evaluate(
        problem, msgspec.structs.replace(best, stages=(msgspec.structs.replace(first, data_parallel=4), second))
    )
    assert any("take 4 devices and there are 2" in text for text in many.violations)
    with pytest.raises(InputError, match="no devices 'other'"):
        evaluate(problem, msgspec.structs.replace(best, stages=(msgspec.structs.replace(first, kind="other"), second)))
    parts = tuple(
        msgspec.structs.replace(stage, chunks=((stage.operators[0],), stage.operators[1:])) for stage in (first, second)
    )
    woven = msgspec.structs.replace(best, stages=(*parts[:1], second), schedule="interleaved")
    assert any("interleaved" in text for text in evaluate(problem, woven).violations)


def test_what_makes_no_sense_is_refused() -> None:
    problem = small_mixed()
    (other,) = problem.others
    for changed, text in (
        (other.replace(device="fast"), "give each its own name"),
        (other.replace(microbatches=4), "they must be the same"),
        (other.replace(training=None), "are for steps"),
        (other.replace(edges=()), "layers or edges differ"),
        (other.replace(others=(other.replace(device="third"),)), "has others of its own"),
    ):
        with pytest.raises(InputError, match=text):
            problem.replace(others=(changed,))
    assert problem.replace(microbatches=16).others[0].microbatches == 16
    assert [kind.memory_bytes for kind in problem.replace(memory_bytes=5.0).kinds] == [5.0, 5.0]
    with pytest.raises(InputError, match="several kinds of devices"):
        STEP.change(problem, HybridChanges(devices=3))
    assert UniformMesh().supports(problem, HybridOptions()) is not None
    assert FreeMesh().supports(other, HybridOptions()) is not None
    with pytest.raises(InputError, match="mesh is 'odd'"):
        other.replace(training=Training(mesh="odd"))


def test_zero_bubble_rows_have_one_data_degree() -> None:
    problem = free(random_step(3, ("1f1b",), most=4)).replace(memory_bytes=math.inf)
    for seed in range(40):
        problem = free(random_step(seed, ("1f1b",), most=4)).replace(memory_bytes=math.inf)
        plan = random_row(seed, problem)
        if plan is not None and len({stage.data_parallel for stage in plan.stages}) > 1:
            break
    else:
        raise AssertionError("no pipeline with different data-parallel degrees")
    allowed = problem.replace(training=msgspec.structs.replace(problem.training, schedules=("zero-bubble",)))
    judged = evaluate(allowed, msgspec.structs.replace(plan, schedule="zero-bubble"))
    assert any("same data-parallel degree in every stage" in text for text in judged.violations)
