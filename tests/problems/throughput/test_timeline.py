"""Throughput plans on the simulator: the steady state against the objective, for any split and every variant."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instances.strategies import examples, plans, random_problem, throughput_problems
from partita.conductor.simulate import Simulated, simulate, simulate_plan
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    ThroughputProblem,
    TimedOperator,
)

#: The pace of long runs is compared within this share.
SAME = 1e-9

VARIANTS: tuple[tuple[str, ...], ...] = (
    (),
    ("overlap",),
    ("duplex",),
    ("replicas",),
    ("streaming",),
    ("groups",),
    ("overlap", "replicas"),
    ("groups", "replicas", "duplex"),
    ("streaming", "overlap"),
)


def windows_nest(found: Simulated) -> bool:
    """Whether each stage may hold what the next one may, and what goes back and forth between them."""
    degrees = [len(stage.devices) for stage in found.plan.stages if stage.operators]
    held = [-(-sum(degrees[i:]) // d) * d - d for i, d in enumerate(degrees)]
    return all(a >= b + d for a, b, d in zip(held, held[1:], degrees[1:], strict=False))


def claims_equality(found: Simulated) -> bool:
    """What docs/simulator.md says of throughput plans."""
    problem, plan, schedule = found.problem, found.plan, found.simulation.program.schedule
    reloads = any(stage.reload > 0 for stage in found.evaluation.stages)
    if schedule in ("forward", "rounds"):
        return not reloads or problem.communication == "sum"
    replicas = max(len(stage.devices) for stage in plan.stages) > 1
    plain = problem.communication == "sum" and not problem.groups
    return plain and not (replicas and problem.weight_sync_per_batch) and windows_nest(found)


def over_random_plans(variants: tuple[str, ...], count: int, check: Any, microbatches: int = 96, **drawn: Any) -> int:
    """Check random plans, twice as many as are wanted at least; how many could run."""
    accepted = 0

    @settings(examples(2 * count), suppress_health_check=list(HealthCheck))
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        nonlocal accepted
        problem = data.draw(throughput_problems(variants=variants, unsupported=False, **drawn))
        plan = data.draw(plans(problem))
        if evaluate(problem, plan).objective > 0:
            check(simulate_plan(problem, plan, microbatches=microbatches))
            accepted += 1

    draw()
    return accepted


@pytest.mark.parametrize("variants", VARIANTS, ids="-".join)
def test_the_steady_state_is_the_objective(variants: tuple[str, ...]) -> None:
    """Exactly where the documentation says so, and never below it."""
    met: Counter[bool] = Counter()

    def check(found: Simulated) -> None:
        objective, claimed = found.evaluation.objective, claims_equality(found)
        met[claimed] += 1
        assert found.steady_period >= objective * (1 - SAME)
        if claimed:
            assert found.steady_period == pytest.approx(objective, rel=SAME)

    assert over_random_plans(variants, 16, check) >= 16
    assert met[True] >= 4


@pytest.mark.parametrize("variant", ["overlap", "duplex"])
def test_what_is_in_flight_costs_no_more_than_is_documented(variant: str) -> None:
    """Under 1F1B microbatches are also on their way: never longer than with all work and transfers added."""
    met = above = 0

    def check(found: Simulated) -> None:
        nonlocal met, above
        if found.simulation.program.schedule != "1f1b":
            return
        added = max(stage.compute + stage.communication for stage in found.evaluation.stages)
        assert found.steady_period <= added * (1 + SAME)
        met += 1
        above += found.steady_period > found.evaluation.objective * (1 + SAME)

    drawn = {"training": True, "schedules": ("inference", "1f1b")}
    assert over_random_plans((variant,), 50, check, **drawn) >= 50
    assert met >= 33
    assert above >= 2


def test_other_contention_is_never_faster_than_the_objective() -> None:
    met = 0

    def check(found: Simulated) -> None:
        nonlocal met
        if found.simulation.program.schedule not in ("forward", "1f1b"):
            return
        for contention in ("shared", "serial"):
            other = simulate_plan(found.problem, found.plan, microbatches=48, contention=contention)
            # Whatever a device works and moves takes time of its own.
            assert other.simulation.step_time >= 48 * work_of_busiest(found) * (1 - SAME)
            met += 1

    assert over_random_plans((), 30, check) >= 30
    assert met >= 30


def work_of_busiest(found: Simulated) -> float:
    """The most that a device of the plan works for a microbatch."""
    return max(stage.compute / stage.replicas for stage in found.evaluation.stages)


def test_memory_never_exceeds_the_plans_table_under_its_schedule() -> None:
    """In the steady state of 1F1B and GPipe a device holds just what its table says."""
    met: Counter[str] = Counter()

    def check(found: Simulated) -> None:
        program = found.simulation.program
        if program.schedule not in ("1f1b", "gpipe") or found.problem.schedule.name != program.schedule:
            return
        for use in found.simulation.uses:
            stage = next(
                worth
                for worth, entry in zip(found.evaluation.stages, found.plan.stages, strict=True)
                if use.devices[0] in entry.devices
            )
            assert use.peak_memory_bytes is None or use.peak_memory_bytes <= stage.memory.total * (1 + SAME)
            met[program.schedule] += 1

    for schedule in ("1f1b", "gpipe"):
        problems = {"training": True, "memory": True, "schedules": (schedule,)}

        def own_batch(found: Simulated) -> None:
            check(found.again(found.problem.schedule.microbatches))

        assert over_random_plans((), 40, own_batch, microbatches=4, **problems) >= 40
    assert min(met["1f1b"], met["gpipe"]) >= 20


def row(times: list[float], microbatches: int = 8, schedule: str = "1f1b", transfer: float = 0.0) -> tuple[Any, Plan]:
    """A training row: stage i takes times[i] forward and twice that backward."""
    n = len(times)
    operators = [TimedOperator(id=i, times=(time,), colocation=i, memory_bytes=1.0) for i, time in enumerate(times)]
    operators += [
        TimedOperator(id=n + i, times=(2 * time,), colocation=i, backward=True) for i, time in enumerate(times)
    ]
    tensors = [MovedTensor(producer=i, consumers=(i + 1,), size=transfer) for i in range(n - 1)]
    tensors += [MovedTensor(producer=n + i + 1, consumers=(n + i,), size=transfer) for i in range(n - 1)]
    tensors += [MovedTensor(producer=n - 1, consumers=(2 * n - 1,), size=0.0)]
    problem = ThroughputProblem(
        name="row",
        kinds=(DeviceKind(name="gpu", count=n),),
        operators=tuple(operators),
        tensors=tuple(tensors),
        schedule=MicrobatchSchedule(name=schedule, microbatches=microbatches),  # type: ignore[arg-type]
        unit="ms",
    )
    stages = tuple(Stage(devices=(f"gpu:{i}",), kind="gpu", operators=(i, n + i)) for i in range(n))
    return problem, Plan(stages=stages)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_equal_stages_take_the_closed_form(schedule: str) -> None:
    problem, plan = row([1.0] * 4, microbatches=8, schedule=schedule)
    found = simulate(problem, plan)
    # (M + S − 1) · (f + b) = (8 + 4 − 1) · 3
    assert found.step_time == 33.0
    # Each of 4 devices works 8 · 3 of that.
    assert found.bubble_fraction == pytest.approx(1 - 24 / 33)
    assert [use.busy for use in found.uses] == [24.0] * 4


def test_inference_streams_and_a_sample_takes_the_sum_of_stages() -> None:
    problem, plan = row([1.0, 2.0, 1.0])
    inference = msgspec.structs.replace(
        problem,
        operators=problem.operators[:3],
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(2)),
    )
    stages = tuple(msgspec.structs.replace(stage, operators=stage.operators[:1]) for stage in plan.stages)
    found = simulate_plan(inference, Plan(stages=stages), microbatches=10)
    # Stage 1 takes 0.5 in, 2 work, 0.5 out for each; before it 1 + 0.5, after it 0.5 + 1.
    assert found.steady_period == 3.0
    assert found.simulation.step_time == 1.5 + 10 * 3.0 + 1.5
    assert found.simulation.latencies[0] == 6.0


def test_replicas_take_turns() -> None:
    problem, _ = row([3.0, 1.0])
    operators = problem.operators[:2]
    inference = msgspec.structs.replace(
        problem,
        operators=operators,
        tensors=(MovedTensor(producer=0, consumers=(1,), size=0.0),),
        kinds=(DeviceKind(name="gpu", count=4),),
        max_replicas=3,
    )
    stages = (
        Stage(
            devices=(
                "gpu:0",
                "gpu:1",
                "gpu:2",
            ),
            kind="gpu",
            operators=(0,),
            data_parallel=3,
        ),
        Stage(devices=("gpu:3",), kind="gpu", operators=(1,)),
    )
    found = simulate_plan(inference, Plan(stages=stages), microbatches=12)
    assert found.steady_period == 1.0
    # Three at a time: the first three are done at 3, then one follows every 1.
    assert found.simulation.step_time == 3.0 + 12.0
    assert [use.devices for use in found.simulation.uses] == [("gpu:0",), ("gpu:1",), ("gpu:2",), ("gpu:3",)]


def test_a_free_split_runs_as_virtual_stages() -> None:
    problem = random_problem(3, 12, devices=2)
    members = [tuple(op.id for op in problem.operators if op.id % 2 == d) for d in range(2)]
    plan = Plan(
        stages=tuple(Stage(devices=(f"gpu:{d}",), kind="gpu", operators=members[d]) for d in range(2)),
        contiguity="free",
    )
    found = simulate_plan(problem, plan, microbatches=64)
    assert not found.evaluation.acyclic
    assert len(found.simulation.program.steps) > 2
    assert found.steady_period == pytest.approx(found.evaluation.objective, rel=SAME)


def test_a_schedule_of_rows_refuses_a_free_training_split() -> None:
    problem = random_problem(3, 12, devices=2, training=True)
    members = [tuple(op.id for op in problem.operators if op.colocation % 2 == d) for d in range(2)]  # type: ignore[operator]
    stages = tuple(Stage(devices=(f"gpu:{d}",), kind="gpu", operators=members[d]) for d in range(2))
    plan = Plan(stages=stages, contiguity="free")
    assert simulate_plan(problem, plan, microbatches=64).simulation.program.schedule == "rounds"
    with pytest.raises(InputError, match="wait for each other in a circle"):
        simulate(problem, plan, schedule="1f1b")


def test_inference_refuses_training_schedules_and_the_other_way_round() -> None:
    problem, plan = row([1.0, 1.0])
    with pytest.raises(InputError, match="is for inference"):
        simulate(problem, plan, schedule="forward")
    free = random_problem(3, 6, devices=1)
    alone = Plan(stages=(Stage(devices=("gpu:0",), kind="gpu", operators=tuple(op.id for op in free.operators)),))
    with pytest.raises(InputError, match="is for training; use --schedule forward"):
        simulate(free, alone, schedule="1f1b")


def test_unknown_settings_and_operators_without_a_device_are_refused() -> None:
    problem, plan = row([1.0, 1.0])
    with pytest.raises(InputError, match=r"row.*unknown field"):
        simulate(problem, plan, speed=3)
    nowhere = msgspec.structs.replace(
        problem, operators=(msgspec.structs.replace(problem.operators[0], times=(None,)), *problem.operators[1:])
    )
    with pytest.raises(InputError, match="cannot run: operator 0 cannot run on gpu"):
        simulate(nowhere, plan)


def test_every_other_schedule_runs_a_row_and_splitting_backward_work_shortens_the_drain() -> None:
    problem, plan = row([1.0] * 4, microbatches=8, transfer=0.125)
    steps = {
        name: simulate(problem, plan, schedule=name).step_time
        for name in ("1f1b", "gpipe", "interleaved", "looped-bfs", "zero-bubble", "zero-bubble-v", "dualpipe-v")
    }
    assert steps["zero-bubble"] < steps["1f1b"]
    assert steps["interleaved"] < steps["1f1b"]
    assert steps["1f1b"] <= steps["gpipe"]
    # Without a flush there is no bubble: a batch takes what the busiest device does.
    objective = evaluate(problem, plan).objective
    for name in ("pipedream", "2bw"):
        assert simulate(problem, plan, schedule=name).step_time == pytest.approx(8 * objective)
