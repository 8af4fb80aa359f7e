"""Hybrid plans on the simulator: the steady state against the objective, memory, the step and what ends it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instances.strategies import examples
from partita.conductor.judge import evaluate
from partita.conductor.simulate import Simulated, simulate, simulate_plan
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.steady.evaluate import step_time
from partita.problems.hybrid.steady.timeline import simulated_step
from partita.simulator.timeline import SORTS
from problems.hybrid.strategies import hybrid_problems, machine_problems

SAME = 1e-9


@st.composite
def hybrid_plans(draw: Any, problem: HybridProblem) -> Plan | None:
    """Any pipeline, whatever it needs of devices and memory; None where stages have no degree in common."""
    order = problem.order()
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=3))) if len(order) > 1 else []
    stages: list[Stage] = []
    group, machines = 0, 0
    for first, last in itertools.pairwise([0, *cuts, len(order)]):
        layers = [problem.layers[place] for place in sorted(order[first:last])]
        degrees = set.intersection(*({t for t, row in layer.configurations.items() if row} for layer in layers))
        if not degrees:
            return None
        t, more = draw(st.sampled_from(sorted(degrees))), {}
        d = draw(st.sampled_from([1, 1, 2, 3, 4]))
        if problem.hierarchy is not None:
            if stages and draw(st.booleans()):
                group, machines = group + 1, 0
            machines = machines or draw(st.sampled_from([1, 1, 2]))
            d, more = machines * draw(st.sampled_from([1, 2])), {"machines": machines, "machine_group": group}
        chosen = {layer.id: draw(st.sampled_from([c.id for c in layer.configurations[t]])) for layer in layers}
        ids = tuple(layer.id for layer in layers)
        stages.append(Stage(operators=ids, data_parallel=d, tensor_parallel=t, configurations=chosen, **more))
    return Plan(stages=tuple(stages))


def windows(plan: Plan) -> list[int]:
    """How many microbatches behind its forward work each stage goes back: d · ⌈s/d⌉ − d."""
    degrees = [stage.data_parallel for stage in plan.stages]
    return [-(-sum(degrees[i:]) // d) * d - d for i, d in enumerate(degrees)]


def windows_nest(plan: Plan) -> bool:
    """Whether each stage may hold what the next one may, and what goes back and forth between them."""
    degrees, held = [stage.data_parallel for stage in plan.stages], windows(plan)
    return all(a >= b + d for a, b, d in zip(held, held[1:], degrees[1:], strict=False))


def over_random_plans(problems: st.SearchStrategy[HybridProblem], count: int, check: Any) -> int:
    """Check random plans in long batches, twice as many as are wanted at least; how many could run."""
    accepted = 0

    @settings(examples(2 * count), suppress_health_check=list(HealthCheck))
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        nonlocal accepted
        problem = data.draw(problems)
        plan = data.draw(hybrid_plans(problem))
        if plan is not None and evaluate(problem, plan).objective > 0:
            check(simulate_plan(problem, plan, microbatches=180))
            accepted += 1

    draw()
    return accepted


@pytest.mark.parametrize("name", ["flat", "machines"])
def test_the_steady_state_is_the_objective(name: str) -> None:
    """Exactly where the documentation says so, and never below it."""
    problems = {"flat": hybrid_problems(), "machines": machine_problems()}[name]
    met: Counter[bool] = Counter()

    def check(found: Simulated) -> None:
        problem, plan = found.problem, found.plan
        replicas = max(stage.data_parallel for stage in plan.stages) > 1
        claimed = problem.hierarchy is None and not (replicas and problem.weight_sync_per_batch) and windows_nest(plan)
        met[claimed] += 1
        assert found.steady_period >= found.evaluation.objective * (1 - SAME)
        if claimed:
            assert found.steady_period == pytest.approx(found.evaluation.objective, rel=SAME)

    assert over_random_plans(problems, 50, check) >= 50
    assert met[False] >= 7
    assert met[True] >= (0 if name == "machines" else 20)


def test_turns_that_do_not_nest_take_no_longer_than_is_documented() -> None:
    """At most the time of a microbatch on a replica over the difference of two stages' windows."""
    met = 0

    def check(found: Simulated) -> None:
        nonlocal met
        plan, held = found.plan, windows(found.plan)
        apart = [a - b for a, b in itertools.pairwise(held)]
        replicas = max(stage.data_parallel for stage in plan.stages) > 1
        if windows_nest(plan) or min(apart) <= 0 or (replicas and found.problem.weight_sync_per_batch):
            return
        stages = zip(plan.stages[1:], found.evaluation.stages[1:], strict=True)
        times = [worth.time_per_microbatch * stage.data_parallel for stage, worth in stages]
        limit = max(time / difference for time, difference in zip(times, apart, strict=True))
        assert found.steady_period <= max(found.evaluation.objective, limit) * (1 + SAME)
        met += 1

    assert over_random_plans(hybrid_problems(), 120, check) >= 120
    assert met >= 2


def test_memory_is_that_of_the_plan() -> None:
    """In a batch that is long enough, each device holds at its peak what the evaluator says, and never more."""
    met = 0

    def check(found: Simulated) -> None:
        nonlocal met
        for use in found.simulation.uses:
            worth = found.evaluation.stages[use.place]
            # What takes no time holds nothing for any time.
            if use.peak_memory_bytes is not None and worth.compute > 0:
                assert use.peak_memory_bytes == pytest.approx(worth.memory_bytes)
                met += 1

    assert over_random_plans(hybrid_problems(), 60, check) >= 50
    assert met >= 60


def row(
    times: list[float], microbatches: int = 8, *, replicas: int = 1, bandwidth: float = 1.0, **changes: Any
) -> tuple[HybridProblem, Plan]:
    """One layer a stage; a third of its time is forward."""
    per_batch = changes.pop("weight_sync_per_batch", False)
    weights, size = changes.pop("weights", 0.0), changes.pop("size", 0.0)
    layers = tuple(
        Layer(
            id=i,
            configurations={1: (Configuration(id="c", time=time, weight_bytes=weights, **changes),)},
            update_times={1: 0.5},
        )
        for i, time in enumerate(times)
    )
    problem = HybridProblem(
        name="row",
        devices=len(times) * replicas,
        microbatches=microbatches,
        bandwidth_bytes_per_unit=bandwidth,
        layers=layers,
        edges=tuple(Edge(source=i, target=i + 1, bytes=size) for i in range(len(times) - 1)),
        weight_sync_per_batch=per_batch,
    )
    stages = tuple(
        Stage(operators=(i,), data_parallel=replicas, tensor_parallel=1, configurations={i: "c"})
        for i in range(len(times))
    )
    return problem, Plan(stages=stages)


def test_the_step_of_equal_stages_is_the_formulas() -> None:
    problem, plan = row([3.0] * 4)
    found, formula = simulate_plan(problem, plan), step_time(problem, plan, evaluate(problem, plan))
    # (8 + 4 − 1) · 3 for the pipeline and 0.5 for the update: the first stage is the last to go back.
    assert found.simulation.step_time == formula.step == 33.5
    assert found.expected["the step"] == 33.5


def test_weights_are_synchronised_after_the_batch_or_behind_its_last_backward_part() -> None:
    # Two replicas synchronise 4 · (2 − 1)/2 · 8 bytes once per batch.
    problem, plan = row([3.0] * 2, replicas=2, weights=4.0, weight_sync_per_batch=True)
    after = simulate(problem, plan)
    behind = simulate(problem, plan, weight_sync="behind")
    sync = evaluate(problem, plan).stages[0].weight_sync * problem.microbatches
    assert sync > 0
    # (4 + 2 − 1) · 3 for each replica's half of the batch.
    assert after.step_time == pytest.approx(15 + sync + 0.5)
    # A single layer's gradients are there when its backward part is done: nothing hides.
    assert behind.step_time == after.step_time
    layers = (problem.layers[0], msgspec.structs.replace(problem.layers[1], id=1))
    one = Plan(stages=(Stage(operators=(0, 1), data_parallel=2, tensor_parallel=1, configurations={0: "c", 1: "c"}),))
    problem = problem.replace(layers=layers, devices=2)
    apart = [simulate(problem, one, weight_sync=how) for how in ("after", "behind")]
    # One stage of two layers: half of the synchronisation runs while the first layer goes back, which takes 2.
    sync = evaluate(problem, one).stages[0].weight_sync * problem.microbatches
    assert apart[0].step_time - apart[1].step_time == pytest.approx(min(sync / 2, 2.0))
    hidden = [sum(use.communication_hidden for use in found.uses) for found in apart]
    assert hidden == [0.0, pytest.approx(2 * min(sync / 2, 2.0))]


def test_tensor_parallel_traffic_is_exposed() -> None:
    problem, plan = row([3.0] * 2, traffic_time=1.0, forward_time=1.5)
    found = simulate(problem, plan)
    for use in found.uses:
        # 8 microbatches of 3, a third of it traffic, and the update.
        assert (use.busy, use.communication_exposed) == (pytest.approx(16.5), pytest.approx(8.0))
    forward = found.timeline.sort == [sort.name for sort in SORTS].index("forward")
    assert set((found.timeline.end - found.timeline.start)[forward].tolist()) == {1.5}


def test_machine_links_are_passed_one_after_the_other() -> None:
    problem, plan = row([3.0] * 2, size=2.0, bandwidth=1e9)
    problem = problem.replace(hierarchy=Hierarchy(devices_per_machine=1, machine_bandwidth_bytes_per_unit=1.0))
    stages = tuple(
        msgspec.structs.replace(stage, machines=1, machine_group=number) for number, stage in enumerate(plan.stages)
    )
    found = simulate_plan(problem, Plan(stages=stages))
    # 2 bytes leave one machine and enter the other, forward and back, for each of 8 microbatches.
    busy = {lane.owner: 0.0 for lane in found.simulation.timeline.lanes if lane.device < 0}
    line = found.simulation.timeline
    for slice_ in range(line.count):
        lane = line.lanes[int(line.lane[slice_])]
        if lane.device < 0:
            busy[lane.owner] += float(line.end[slice_] - line.start[slice_])
    assert busy == {
        "network of machine group 0": pytest.approx(32.0),
        "network of machine group 1": pytest.approx(32.0),
    }
    # The only microbatch in flight beside another: forward 1, 2 + 2 over the links, forward 1, backward 2, and back.
    assert simulate(problem, Plan(stages=stages), microbatches=1).step_time == pytest.approx(1 + 4 + 3 + 4 + 2 + 0.5)


def test_microbatches_that_arrive_one_by_one() -> None:
    """Every 100: the last of eight starts at 700 and takes 2 · 3 alone, and then there is the update."""
    problem, plan = row([3.0] * 2)
    assert simulate(problem, plan, interval=100.0).step_time == 706.5


def test_plans_that_cannot_run_are_refused() -> None:
    problem, plan = row([3.0] * 2)
    turned = Plan(stages=plan.stages[::-1])
    with pytest.raises(InputError, match="goes from stage 1 back to stage 0"):
        simulate(problem, turned)
    wider = Plan(stages=(msgspec.structs.replace(plan.stages[0], tensor_parallel=2), plan.stages[1]))
    with pytest.raises(InputError, match="has no configuration 'c' of degree 2"):
        simulate(problem, wider)
    with pytest.raises(InputError, match="is for inference"):
        simulate(problem, plan, schedule="forward")
    uneven = Plan(stages=(msgspec.structs.replace(plan.stages[0], data_parallel=2), plan.stages[1]))
    with pytest.raises(InputError, match="needs as many replicas of every stage, here are 2, 1"):
        simulate(problem, uneven, schedule="interleaved")
    assert simulated_step(problem, turned, evaluate(problem, turned)) is None


def test_long_batches_are_extended_as_they_would_run() -> None:
    """A batch that is simulated in part has the step of one that is simulated whole."""
    met = 0

    def check(found: Simulated) -> None:
        nonlocal met
        problem = found.problem.replace(microbatches=12_012)
        worth = evaluate(problem, found.plan)
        step = simulated_step(problem, found.plan, worth)
        whole = simulate(problem, found.plan)
        assert step.step == pytest.approx(whole.step_time, rel=1e-9)
        assert step.bubble == pytest.approx(whole.bubble_fraction, rel=1e-6, abs=1e-9)
        met += 1

    assert over_random_plans(hybrid_problems(), 6, check) >= 6
    assert over_random_plans(machine_problems(), 4, check) >= 4
    assert met >= 10
