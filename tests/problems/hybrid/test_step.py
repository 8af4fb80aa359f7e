"""Steps of uniform meshes: against every plan, against the simulator, and against closed forms."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import RunRequest
from partita.problems.hybrid.descriptor import STEP
from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.step.baselines.recipes import FSDP, MEGATRON, TORCHTITAN, Recipe
from partita.problems.hybrid.step.costs import exchanges_of
from partita.problems.hybrid.step.layout import MeshLayout, check_layout, layout_plan, parse_layout, uniform_plan
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.uniform import UniformMesh
from partita.problems.hybrid.training import SCHEDULES, ZERO_STAGES, LayerState, StageLimits, Training
from partita.simulator.simulate import Simulation, simulate
from problems.hybrid.brute_force_step import shortest_step
from problems.hybrid.step_strategies import in_threes, limited, random_step, spread_step

EVERY = [("1f1b",), ("gpipe",), ("zero-bubble",), ("interleaved",), ("1f1b", "interleaved", "zero-bubble")]


def check(problem: HybridProblem) -> Plan | None:
    """The solver's answer is that of looking at every plan, and proven."""
    best = shortest_step(problem)
    outcome = UniformMesh().solve(problem, HybridOptions(), Monitor(300.0))
    if outcome.plan is None:
        assert (math.isinf(best), outcome.infeasible) == (True, True)
        return None
    found = evaluate(problem, outcome.plan)
    assert found.feasible, found.violations
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert outcome.bound == pytest.approx(best, rel=1e-6)
    assert outcome.bound <= best * (1 + 1e-12)
    return outcome.plan


@pytest.mark.parametrize("schedules", EVERY, ids="+".join)
def test_no_plan_within_the_limits_of_stages_is_shorter(schedules: tuple[str, ...]) -> None:
    for seed in range(25):
        check(limited(random_step(seed, schedules), seed))


def test_no_plan_on_machines_that_groups_do_not_fill_is_shorter() -> None:
    paired = 0
    for seed in range(40):
        problem = in_threes(random_step(seed, EVERY[seed % len(EVERY)]))
        plan = check(problem)
        paired += plan is not None and plan.stages[0].tensor_parallel == 2
        layout = MeshLayout(tensor=2, pipeline=3)
        if len(problem.layers) >= 3 and 2 in problem.shared_degrees():
            with pytest.raises(InputError, match="uses 6 devices, and there are 4 in groups of 2 that each lie"):
                check_layout(problem, layout)
    assert paired >= 5


def test_no_plan_on_machines_that_groups_of_experts_do_not_fill_is_shorter() -> None:
    halved = 0
    for seed in range(60):
        problem = in_threes(spread_step(seed, EVERY[seed % len(EVERY)], folds=True))
        plan = check(problem)
        if plan is not None and plan.stages[0].expert_tensor_parallel == 2:
            halved += 1
            # Each of the two machines has one group of two, however narrow tensor groups are.
            assert plan.device_count <= 4
    assert halved >= 3
    with pytest.raises(InputError, match="uses 6 devices, and there are 4 in groups of 2 that each lie"):
        check_layout(problem, MeshLayout(data=6, expert=3, expert_tensor=2))


def test_limits_of_stages_name_layers_that_exist() -> None:
    problem = random_step(1, ("1f1b",))
    with pytest.raises(InputError, match="layer 77, which does not exist"):
        problem.replace(training=msgspec.structs.replace(problem.training, limits=StageLimits(together=((0, 77),))))


@pytest.mark.parametrize("schedules", EVERY, ids="+".join)
def test_no_plan_is_shorter(schedules: tuple[str, ...]) -> None:
    for seed in range(120):
        check(random_step(seed, schedules))


@pytest.mark.parametrize("schedules", EVERY, ids="+".join)
def test_no_plan_that_shares_out_sequences_or_experts_is_shorter(schedules: tuple[str, ...]) -> None:
    found = [check(spread_step(seed, schedules)) for seed in range(60)]
    degrees = {(p.stages[0].context_parallel, p.stages[0].expert_parallel) for p in found if p is not None}
    assert {c for c, _ in degrees} >= {1, 2}
    assert {e for _, e in degrees} >= {1, 2}


def experts_apart(seeds: range) -> tuple[int, int, int]:
    """Problems with a plan whose experts may have groups of their own: all, those where they do, and where these span
    more groups than hold the same weights."""
    found = [check(spread_step(seed, names, folds=True)) for names in EVERY for seed in seeds]
    first = [plan.stages[0] for plan in found if plan is not None]
    apart = [stage for stage in first if stage.expert_tensor_parallel not in (0, stage.tensor_parallel)]
    wide = [s for s in apart if s.data_parallel * s.context_parallel % s.expert_parallel]
    return len(first), len(apart), len(wide)


def test_no_plan_whose_experts_have_groups_of_their_own_is_shorter() -> None:
    seen, apart, _ = experts_apart(range(40))
    assert seen >= 60
    assert apart >= 8


@pytest.mark.slow
def test_no_plan_of_many_whose_experts_have_groups_of_their_own_is_shorter() -> None:
    seen, apart, wide = experts_apart(range(1000, 1200))
    assert seen >= 300
    assert apart >= 60
    assert wide >= 3


@pytest.mark.parametrize("recipe", [MEGATRON, TORCHTITAN, FSDP], ids=lambda recipe: recipe.name)
def test_recipes_share_out_sequences_and_experts(recipe: Recipe) -> None:
    """Feasible, never better than the best plan, with experts inside machines."""
    used = set()
    for seed in range(80):
        problem = spread_step(seed, ("1f1b",), folds=seed % 4 == 3)
        outcome = recipe.solve(problem, HybridOptions(), Monitor(60.0))
        if outcome.plan is None:
            assert outcome.reason
            continue
        found, stage = evaluate(problem, outcome.plan), outcome.plan.stages[0]
        assert found.feasible
        best = UniformMesh().solve(problem, HybridOptions(), Monitor(60.0))
        assert best.bound is not None
        assert found.objective >= best.bound * (1 - 1e-9)
        assert (
            stage.expert_parallel == 1 or stage.shared.experts_on(stage.tensor_parallel) <= problem.devices_per_machine
        )
        used.add((stage.context_parallel > 1, stage.expert_parallel > 1))
    # Plain FSDP shares out neither.
    assert (used == {(False, False)}) == (recipe is FSDP)


@pytest.mark.slow
@pytest.mark.parametrize("schedules", EVERY, ids="+".join)
def test_no_plan_of_a_thousand_models_is_shorter(schedules: tuple[str, ...]) -> None:
    for seed in range(120, 1120):
        check(random_step(seed, schedules))
        check(spread_step(seed, schedules))


# -- the simulator ----------------------------------------------------------------------------------------------------


@st.composite
def equal_meshes(draw: st.DrawFn) -> tuple[HybridProblem, Plan]:
    """A chain of equal layers without transfers, on any mesh."""
    schedule = draw(st.sampled_from(SCHEDULES))
    interleaved = schedule == "interleaved"
    stages, chunks = draw(st.integers(2, 4) if interleaved else st.integers(1, 5)), 1
    rounds = draw(st.integers(1, 9))
    if interleaved:
        chunks, rounds = draw(st.integers(2, 3)), stages * draw(st.integers(1, 4))
    elif schedule == "zero-bubble":
        rounds += stages - 1
    data, forward, inputs = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 6))
    weights = draw(st.integers(0, 4))
    state = LayerState(
        parameter_bytes=3.0, gradient_bytes=4.0, optimizer_bytes=8.0, update_time=0.5, weight_gradient_time=weights
    )
    choice = Configuration(
        id="none",
        time=forward + inputs + weights,
        forward_time=forward,
        memory_per_microbatch_bytes=draw(st.integers(0, 5)),
        memory_bytes=1.0,
    )
    count = stages * chunks * draw(st.integers(1, 2))
    problem = HybridProblem(
        name="equal",
        devices=stages * data,
        bandwidth_bytes_per_unit=2.0,
        microbatches=rounds * data,
        layers=tuple(Layer(id=v, configurations={1: (choice,)}, states={1: state}) for v in range(count)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=0.0) for v in range(count - 1)),
        training=Training(schedules=SCHEDULES, zero=ZERO_STAGES, overlap=draw(st.booleans())),
    )
    context = draw(st.integers(1, 2))
    expert = draw(st.sampled_from([e for e in (1, 2, 3) if data * context % e == 0]))
    if context * expert > 1:
        mine = msgspec.structs.replace(state, experts=LayerState(gradient_bytes=2.0, optimizer_bytes=3.0))
        layers = tuple(msgspec.structs.replace(layer, states={1: mine}) for layer in problem.layers)
        problem = problem.replace(
            devices=problem.devices * context,
            training=msgspec.structs.replace(problem.training, context=(context,), expert=(expert,)),
            spreads=(ContextExpertLayers(context=context, expert=expert, layers=layers),),
        )
    layout = MeshLayout(
        pipeline=stages,
        data=data,
        chunks=chunks,
        zero=draw(st.sampled_from(ZERO_STAGES[:2] if schedule == "zero-bubble" and stages > 1 else ZERO_STAGES)),
        schedule=schedule,
        context=context,
        expert=expert,
    )
    return problem, layout_plan(problem, layout)


#: How much later than the formula says a step may be where stages differ, by schedule.
LATER = {"1f1b": 1e-9, "gpipe": 1e-9, "zero-bubble": 0.03, "interleaved": 0.1}


@st.composite
def unlike_meshes(draw: st.DrawFn) -> tuple[HybridProblem, Plan]:
    """Equal blocks with heavier ends, some stages of which recompute, on any mesh that runs."""
    schedule = draw(st.sampled_from(SCHEDULES))
    stages, chunks = draw(st.integers(2, 5)), 1
    rounds = stages + draw(st.integers(0, 12))
    if schedule == "interleaved":
        chunks, rounds = draw(st.integers(2, 3)), stages * draw(st.integers(1, 4))
    data = draw(st.integers(1, 2))
    state = LayerState(parameter_bytes=1.0, gradient_bytes=2.0, optimizer_bytes=4.0, update_time=0.5)

    def layer(number: int, size: float) -> Layer:
        plain = {"forward_time": 100 * size, "memory_per_microbatch_bytes": 1.0}
        ways = (Configuration(id="none", time=300 * size, **plain), Configuration(id="full", time=380 * size, **plain))
        return Layer(id=number, configurations={1: ways}, states={1: state})

    count = stages * chunks
    sizes = [1.0 + draw(st.floats(0, 0.3)), *[1.0] * (count - 2), 1.0 + draw(st.floats(0, 0.6))]
    problem = HybridProblem(
        name="unlike",
        devices=stages * data,
        bandwidth_bytes_per_unit=draw(st.sampled_from((0.1, 4.0))),
        microbatches=rounds * data,
        layers=tuple(layer(v, size) for v, size in enumerate(sizes)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=1.0) for v in range(count - 1)),
        training=Training(schedules=SCHEDULES, zero=ZERO_STAGES, overlap=draw(st.booleans()), occupied=0.2),
    )
    zero = draw(st.sampled_from(ZERO_STAGES[:2] if schedule == "zero-bubble" else ZERO_STAGES))
    ways = draw(st.lists(st.sampled_from(("none", "full")), min_size=stages, max_size=stages))
    layout = MeshLayout(pipeline=stages, data=data, chunks=chunks, zero=zero, schedule=schedule)
    rows = [[v] for v in range(count)]
    configurations = {v: ways[v % stages] for v in range(count)}
    return problem, uniform_plan(problem, problem.layers, rows, configurations, layout)


def simulated(problem: HybridProblem, plan: Plan) -> Simulation:
    return simulate(STEP.timeline.program(problem, plan, evaluate(problem, plan), RunRequest()))


@given(equal_meshes())
@settings(max_examples=150)
def test_equal_stages_take_and_hold_just_that(case: tuple[HybridProblem, Plan]) -> None:
    problem, plan = case
    found, run = evaluate(problem, plan), simulated(problem, plan)
    assert found.feasible, found.violations
    assert run.step_time == pytest.approx(found.objective, rel=1e-9)
    peaks = [use.peak_memory_bytes for use in run.uses]
    assert max(p for p in peaks if p is not None) == pytest.approx(max(s.memory_bytes for s in found.stages), rel=1e-9)


@given(unlike_meshes())
@settings(max_examples=120)
def test_unlike_stages_take_about_that(case: tuple[HybridProblem, Plan]) -> None:
    problem, plan = case
    found, run = evaluate(problem, plan), simulated(problem, plan)
    assert found.step is not None
    # Stages that are done early exchange and update while others work, so that the step may be earlier.
    assert run.step_time <= found.objective * (1 + LATER[plan.schedule])
    assert run.step_time >= found.objective * 0.85
    peaks = [use.peak_memory_bytes for use in run.uses]
    held = [stage.memory_bytes for stage in found.stages]
    assert max(p for p in peaks if p is not None) == pytest.approx(max(held), rel=1e-9)


@given(unlike_meshes())
@settings(max_examples=80)
def test_all_forward_first_takes_just_that(case: tuple[HybridProblem, Plan]) -> None:
    problem, plan = case
    if plan.chunks > 1:
        return
    plan = msgspec.structs.replace(plan, schedule="gpipe")
    alone = problem.replace(layers=tuple(msgspec.structs.replace(layer, states={}) for layer in problem.layers))
    assert simulated(alone, plan).step_time == pytest.approx(evaluate(alone, plan).objective, rel=1e-9)


@given(st.integers(0, 2000))
@settings(max_examples=60)
@example(299)
def test_one_forward_one_backward_is_hardly_later(seed: int) -> None:
    problem = random_step(seed, ("1f1b",))
    outcome = UniformMesh().solve(problem, HybridOptions(), Monitor(60.0))
    if outcome.plan is not None:
        found = evaluate(problem, outcome.plan)
        assert simulated(problem, outcome.plan).step_time <= found.objective * 1.01


# -- what replicas share out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zero", ZERO_STAGES)
def test_bytes_of_every_stage_of_zero(zero: int) -> None:
    """Rajbhandari et al., "ZeRO", SC 2020, §5 and §7: memory, and bytes that each device sends at one byte a unit."""
    weights, gradients, states, d = 6.0, 12.0, 24.0, 4
    state = LayerState(parameter_bytes=weights, gradient_bytes=gradients, optimizer_bytes=states, update_time=8.0)
    problem = HybridProblem(
        name="zero",
        devices=d,
        bandwidth_bytes_per_unit=1.0,
        microbatches=8,
        layers=(Layer(id=0, configurations={1: (Configuration(id="none", time=0.0),)}, states={1: state}),),
        training=Training(zero=ZERO_STAGES, overlap=False),
    )
    found, share = exchanges_of(problem, d, 1, zero), (d - 1) / d
    held = {
        0: weights + gradients + states,
        1: weights + gradients + states / d,
        2: weights + (gradients + states) / d,
        3: (weights + gradients + states) / d,
    }
    assert found.state[0] == held[zero]
    once = {0: 2 * share * gradients, 1: share * (gradients + weights), 2: share * weights, 3: 0.0}
    each = {0: 0.0, 1: 0.0, 2: share * gradients, 3: share * (gradients + 2 * weights)}
    assert found.reduce_once[0] + found.gather_once[0] == pytest.approx(once[zero])
    assert found.reduce_each[0] + 2 * found.gather_each[0] == pytest.approx(each[zero])
    assert found.update[0] == (8.0 if zero == 0 else 2.0)


def test_gathers_hide_behind_the_layer_before() -> None:
    """Three layers of 4 units forward and 8 backward, whose weights take 3, 6 and 9 units, and gradients twice that."""
    problem = HybridProblem(
        name="gathers",
        devices=2,
        bandwidth_bytes_per_unit=1.0,
        microbatches=2,
        layers=tuple(
            Layer(
                id=v,
                configurations={1: (Configuration(id="none", time=12.0, forward_time=4.0),)},
                states={1: LayerState(parameter_bytes=6.0 * (v + 1), gradient_bytes=12.0 * (v + 1))},
            )
            for v in range(3)
        ),
        edges=(Edge(source=0, target=1, bytes=0.0), Edge(source=1, target=2, bytes=0.0)),
        training=Training(zero=ZERO_STAGES),
    )
    third = exchanges_of(problem, 2, 1, 3)
    # Forward: 3 at first, 6 behind 4, 9 behind 4. Backward: 6 behind 8; 3 and 18 behind 8; 12 behind 8.
    assert third.exposed_each([0, 1, 2]) == (3 + 2 + 5, 0 + 13 + 4)
    assert third.exposed_once([0, 1, 2]) == 6
    # Weights: 6, 12 and 18 bytes, half of each held; two layers whole at once; the largest gradient whole.
    assert third.held([0, 1, 2]) == (36 + 72) / 2 + 30 + 36
    first = exchanges_of(problem, 2, 1, 1)
    assert first.exposed_each([0, 1, 2]) == (0, 0)
    # Gradients of 18, 12 and 6 are ready after 8 each: 10, 14 and 12 are left. Weights: 3 + 6 + 9 before the last ends.
    assert first.exposed_once([0, 1, 2]) == (18 - 8 + 12 - 8 + 6) + (18 + 4 - 12)


# -- layouts ----------------------------------------------------------------------------------------------------------


def row(count: int = 8, **changes: object) -> HybridProblem:
    """Like blocks between two ends, with a way to recompute."""

    def layer(v: int, time: float) -> Layer:
        plain = Configuration(id="none", time=time, memory_per_microbatch_bytes=4.0)
        full = Configuration(id="full", time=1.5 * time, memory_per_microbatch_bytes=1.0)
        choices = (plain, full) if 0 < v <= count else (plain,)
        return Layer(id=v, configurations={1: choices, 2: choices}, states={})

    problem = HybridProblem(
        name="row",
        devices=8,
        bandwidth_bytes_per_unit=1.0,
        microbatches=8,
        layers=tuple(layer(v, 1.0 if 0 < v <= count else 0.5) for v in range(count + 2)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=0.0) for v in range(count + 1)),
        training=Training(schedules=SCHEDULES, zero=ZERO_STAGES),
    )
    return problem.replace(**changes)  # type: ignore[arg-type]


def test_a_layout_deals_out_equal_blocks() -> None:
    problem = row()
    plan = layout_plan(problem, parse_layout("tensor=2,pipeline=2,data=2,chunks=2,recompute=full,zero=1"))
    assert [stage.chunks for stage in plan.stages] == [((0, 1, 2), (5, 6)), ((3, 4), (7, 8, 9))]
    assert (plan.schedule, plan.zero, plan.chunks) == ("interleaved", 1, 2)
    assert [plan.stages[0].configurations[v] for v in (0, 1, 5)] == ["none", "full", "full"]
    found = evaluate(problem, plan)
    assert found.feasible
    # Four microbatches of 3 chunks of 3 and a last one of 3.5 on two ranks: see the formula of interleaved schedules.
    taus = [0.5 + 6.0, 6.0 + 0.5]
    assert found.objective == pytest.approx(sum(taus) / 2 + (4 - 1 / 2) * max(taus))
    assert layout_plan(problem, MeshLayout(pipeline=3)).stages[0].operators == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensor", "is not one of tensor="),
        ("speed=2", "'speed=2' is not one of"),
        ("tensor=2,tensor=4", "gives tensor twice"),
        ("tensor=many", "a whole number"),
        ("sequence_parallel=maybe", "yes or no"),
        ("tensor=0", "tensor is 0"),
        ("recompute=some", "must be one of none, selective, full"),
        ("zero=4", "zero is 4"),
    ],
)
def test_layouts_that_mean_nothing(text: str, message: str) -> None:
    with pytest.raises(InputError, match="layout"):
        parse_layout(text)
    with pytest.raises(InputError) as caught:
        parse_layout(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (MeshLayout(pipeline=16), "16 stages and parts are more than the 8 blocks"),
        (MeshLayout(pipeline=3, chunks=2), "do not divide the 8 blocks"),
        (MeshLayout(tensor=4), "has no tensor-parallel degree 4; it has 1, 2"),
        (MeshLayout(recompute="selective"), "cannot recompute 'selective'"),
    ],
)
def test_layouts_that_do_not_suit_the_model(layout: MeshLayout, message: str) -> None:
    with pytest.raises(InputError) as caught:
        layout_plan(row(), layout)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("problem", "layout", "message"),
    [
        (row(memory_bytes=20.0), MeshLayout(), "each device of stage 0 needs 40 B, 20 B more than its 20 B"),
        (row(), MeshLayout(data=3), "does not divide the 8 microbatches"),
        (row(), MeshLayout(pipeline=4, data=4), "the stages use 16 devices, the problem has 8"),
        (row(devices=1), MeshLayout(tensor=2), "tensor-parallel degree 2 is more than the 1 of a machine"),
        (row(training=Training()), MeshLayout(data=2, zero=1), "ZeRO stage 1 is not one of 0"),
        (row(training=Training()), MeshLayout(pipeline=2, schedule="gpipe"), "schedule gpipe is not one of 1f1b"),
        (
            row(),
            MeshLayout(pipeline=8, schedule="zero-bubble", data=4, tensor=1),
            "as many microbatches as its 8 stages",
        ),
        (row(), MeshLayout(pipeline=4, chunks=2, data=4), "a multiple of its 4 stages"),
    ],
)
def test_the_evaluator_says_what_cannot_run(problem: HybridProblem, layout: MeshLayout, message: str) -> None:
    found = evaluate(problem, layout_plan(problem, layout))
    assert not found.feasible
    assert any(message in text for text in found.violations), found.violations


def test_parts_of_an_interleaved_schedule_are_alike() -> None:
    problem = row()
    plan = layout_plan(problem, MeshLayout(pipeline=2, chunks=2))
    one = msgspec.structs.replace(
        plan.stages[0], configurations={**plan.stages[0].configurations, 1: "full"}, chunks=plan.stages[0].chunks
    )
    found = evaluate(problem, msgspec.structs.replace(plan, stages=(one, plan.stages[1])))
    assert any("differ in configurations" in text for text in found.violations)


def test_context_and_expert_degrees_are_those_that_there_are() -> None:
    problem = row()
    assert problem.training is not None
    with pytest.raises(InputError, match="does not say what layers cost with context degree 2 and expert degree 1"):
        layout_plan(problem, MeshLayout(context=2))
    spread = ContextExpertLayers(context=2, expert=2, layers=problem.layers)
    training = msgspec.structs.replace(problem.training, context=(1, 2), expert=(1, 2))
    with pytest.raises(InputError, match="allows context degree 1 and expert degree 2, and"):
        problem.replace(training=training, spreads=(spread,))
    training = msgspec.structs.replace(training, context=(2,), expert=(2,))
    both = problem.replace(training=training, spreads=(spread,))
    plan = layout_plan(both, MeshLayout(context=2, expert=2, pipeline=2))
    assert plan.device_count == 4
    assert evaluate(both, plan).feasible
    whole = evaluate(both, layout_plan(both, MeshLayout(pipeline=2)))
    assert [text.partition(" is")[0] for text in whole.violations] == [
        "context-parallel degree 1",
        "expert-parallel degree 1",
    ]
    other = msgspec.structs.replace(plan.stages[1], context_parallel=4)
    uneven = evaluate(both, msgspec.structs.replace(plan, stages=(plan.stages[0], other)))
    assert any(
        "has context degree 4 and expert degree 2, stage 0 has context degree 2 and expert degree 2" in text
        for text in uneven.violations
    )
    odd = [msgspec.structs.replace(stage, expert_parallel=4) for stage in plan.stages]
    wrong = evaluate(both, msgspec.structs.replace(plan, stages=tuple(odd)))
    assert any("4 does not divide the 2 groups of 1 devices" in text for text in wrong.violations)


def test_stages_share_degrees() -> None:
    problem = row()
    plan = layout_plan(problem, MeshLayout(pipeline=2, data=2))
    other = msgspec.structs.replace(plan.stages[1], data_parallel=4)
    found = evaluate(problem, msgspec.structs.replace(plan, stages=(plan.stages[0], other)))
    assert any("in a uniform mesh they are the same" in text for text in found.violations)


def test_handing_over_between_machines_takes_longer() -> None:
    """Four stages of two devices on machines of four: stages 1 and 2 are in different ones."""
    machines = Hierarchy(devices_per_machine=4, machine_bandwidth_bytes_per_unit=1.0)
    mesh = DeviceMesh(row(hierarchy=machines), stages=4, data=1, tensor=2)
    inside, outside = 0.5 / (2 * 1.0), 0.5 / (2 * 0.25)
    assert [mesh.handover(rank)[:2] for rank in range(4)] == [
        (outside, inside),
        (inside, outside),
        (outside, inside),
        (inside, outside),
    ]


def test_training_settings_are_checked() -> None:
    for training, message in (
        (Training(schedules=()), "allows no schedule"),
        (Training(schedules=("spiral",)), "'spiral' is unknown"),
        (Training(zero=(1, 1)), "appears twice"),
        (Training(call_times=(-1.0, 0.0)), "call time"),
    ):
        with pytest.raises(InputError) as caught:
            row(training=training)
        assert message in str(caught.value)


# -- recipes ----------------------------------------------------------------------------------------------------------


def recipe_layout(name: str, problem: HybridProblem) -> tuple[int, int, int, int, str] | None:
    """What a recipe sets up: t, p, d, ZeRO stage, and what the first block recomputes."""
    (recipe,) = [each for each in STEP.baselines_of(problem) if each.name == name]
    plan = recipe.solve(problem, HybridOptions(), Monitor(30.0)).plan
    if plan is None:
        return None
    first = plan.stages[0]
    way = first.configurations[first.operators[-1]]
    return first.tensor_parallel, len(plan.stages), first.data_parallel, plan.zero, way


def trained(memory: float) -> HybridProblem:
    """Eight blocks of 8 bytes of weights, 8 of gradients and 16 of states, split over up to four devices."""
    layers = []
    for v in range(8):
        configurations, states = {}, {}
        for t in (1, 2, 4):
            time = 6.0 / t + 0.3 * (t - 1)
            configurations[t] = tuple(
                Configuration(id=name, time=time * slower, memory_per_microbatch_bytes=kept / t, forward_time=time / 3)
                for name, slower, kept in (("none", 1.0, 4.0), ("selective", 1.1, 2.0), ("full", 4 / 3, 1.0))
            )
            states[t] = LayerState(parameter_bytes=8 / t, gradient_bytes=8 / t, optimizer_bytes=16 / t)
        layers.append(Layer(id=v, configurations=configurations, states=states))
    return HybridProblem(
        name="trained",
        devices=16,
        memory_bytes=memory,
        bandwidth_bytes_per_unit=1e6,
        microbatches=32,
        layers=tuple(layers),
        edges=tuple(Edge(source=v, target=v + 1, bytes=0.0) for v in range(7)),
        hierarchy=Hierarchy(devices_per_machine=4, machine_bandwidth_bytes_per_unit=1e6),
        training=Training(schedules=("1f1b",), zero=ZERO_STAGES),
    )


@pytest.mark.parametrize(
    ("memory", "name", "layout"),
    [
        # All eight blocks with ZeRO-1: 128 + 128/16 bytes of state on 16 replicas, 32, 16 or 8 of activations.
        (170.0, "Megatron's recipe", (1, 1, 16, 1, "none")),
        (153.0, "Megatron's recipe", (1, 1, 16, 1, "selective")),
        (145.0, "Megatron's recipe", (1, 1, 16, 1, "full")),
        (100.0, "Megatron's recipe", (2, 1, 8, 1, "none")),
        # A quarter of it on groups of four, half of that on two stages, with two microbatches in flight.
        (39.0, "Megatron's recipe", (4, 2, 2, 1, "none")),
        # A sixteenth of 256 bytes, two layers' weights and a gradient whole, and activations.
        (80.0, "FSDP only", (1, 1, 16, 3, "none")),
        (60.0, "FSDP only", (1, 1, 16, 3, "selective")),
        (80.0, "DeepSpeed ZeRO-3", (1, 1, 16, 3, "full")),
        (80.0, "torchtitan's defaults", (1, 1, 16, 3, "selective")),
        (25.0, "torchtitan's defaults", (4, 1, 4, 3, "full")),
        (80.0, "nanotron's defaults", (4, 1, 4, 1, "none")),
        (1000.0, "pure data parallel", (1, 1, 16, 0, "none")),
        (1000.0, "pure tensor parallel", (4, 1, 1, 0, "none")),
        (1000.0, "pure pipeline", (1, 8, 1, 0, "none")),
        (10.0, "FSDP only", None),
    ],
)
def test_recipes_are_as_their_users_set_them_up(memory: float, name: str, layout: object) -> None:
    assert recipe_layout(name, trained(memory)) == layout
