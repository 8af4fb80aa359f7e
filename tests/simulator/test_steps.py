"""Steps of long batches that are simulated in part: what simulating them whole says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, replace
from itertools import pairwise

import pytest

from instances.pipelines import equal_stages, random_pipeline
from partita.simulator import steps
from partita.simulator.pipeline import Pipeline, StageWork
from partita.simulator.program import CONTENTIONS, End, Program
from partita.simulator.schedules import find_schedule
from partita.simulator.simulate import Simulation, simulate
from partita.simulator.stages import staged_program
from partita.simulator.steps import StepSummary, step_summary, summary

#: Figures are compared within this share of the step.
SAME = 1e-9


class Counted:
    """``simulate``, which keeps how many microbatches each program has that it ran."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, program: Program) -> Simulation:
        self.batches.append(program.microbatches)
        return simulate(program)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """What ``step_summary`` simulates."""
    found = Counted()
    monkeypatch.setattr(steps, "simulate", found)
    return found


def batches_of(pipeline: Pipeline, schedule: str = "1f1b", **settings: object) -> Callable[[int], Program]:
    """The program of a batch of so many microbatches."""
    return lambda microbatches: staged_program(pipeline, find_schedule(schedule), microbatches, **settings)  # type: ignore[arg-type]


def whole(make: Callable[[int], Program], microbatches: int) -> StepSummary:
    """The step of a batch that is simulated whole."""
    return summary(simulate(make(microbatches)))


def differs(found: StepSummary, expected: StepSummary) -> float:
    """By how much of the step figures differ; by how much of what all devices spend where they are of all."""
    pairs = zip(astuple(found), astuple(expected), strict=True)
    return max(abs(a - b) for a, b in pairs) / (max(expected.time, 1e-12) * expected.devices)


def test_equal_stages_take_the_closed_form(counted: Counted) -> None:
    """(M + S − 1) · (f + b), then 1 for weights and 0.5 for the update; a million microbatches are no bother."""
    pipeline = equal_stages(4, 1.0, 2.0, end=End(sync=1.0, update=0.5))
    found = step_summary(batches_of(pipeline), 1_000_003)
    assert (found.pipeline, found.weight_sync, found.update) == (3 * (1_000_003 + 3), 1.0, 0.5)
    assert found.time == found.pipeline + 1.5
    # Stages synchronise and update as soon as they are done: each waits for 3 · 3 in all, and works or moves otherwise.
    assert found.idle == 4 * 3 * 3.0
    assert counted.batches
    assert max(counted.batches) < 100


def test_short_batches_are_simulated_whole(counted: Counted) -> None:
    """Two steps of 60 000 in all are not long yet, those of one more microbatch are."""
    make = batches_of(equal_stages(1, 1.0, 2.0))
    assert step_summary(make, 30_000).time == 90_000.0
    assert counted.batches == [30_000]
    counted.batches.clear()
    assert step_summary(make, 30_001).time == 90_003.0
    assert max(counted.batches) < 100


def test_what_is_left_over_from_whole_turns_counts(counted: Counted) -> None:
    """Three replicas share M microbatches: the last turn has M mod 3 of them, and the step is that of ⌈M/3⌉."""
    make = batches_of(equal_stages(2, 1.0, 2.0, replicas=3))
    for microbatches in (30_000, 30_001, 30_002, 30_003):
        counted.batches.clear()
        found = step_summary(make, microbatches)
        # ⌈M/3⌉ microbatches of one column, and one more for the pipeline of two stages.
        assert found.time == (-(-microbatches // 3) + 1) * 3.0
        assert found.idle == pytest.approx(6 * found.time - 2 * microbatches * 3.0)
        assert {batch % 3 for batch in counted.batches} == {microbatches % 3}
        assert max(counted.batches) < 100


def one_busiest(rng: random.Random, **drawn: object) -> Pipeline:
    """A random pipeline in which one stage does so much more than the others that it never waits once it has begun."""
    pipeline = random_pipeline(rng, **drawn)  # type: ignore[arg-type]
    number = rng.randrange(len(pipeline.stages))
    stage = pipeline.stages[number]
    # Whatever its replicas: the others, their links and their copies take less than 100 for a microbatch.
    times = 200.0 * len(stage.replicas)
    stage = replace(
        stage,
        forward=replace(stage.forward, time=times),
        backward=None if stage.backward is None else replace(stage.backward, time=times),
    )
    return replace(pipeline, stages=(*pipeline.stages[:number], stage, *pipeline.stages[number + 1 :]))


def test_long_batches_are_what_whole_ones_are(counted: Counted) -> None:
    """Random pipelines with one busiest stage, just beyond the length that is simulated whole: every figure."""
    rng = random.Random(1)
    met: Counter[str] = Counter()
    for _ in range(14):
        pipeline = one_busiest(rng, streams="sum")
        make = batches_of(pipeline)
        microbatches = 60_000 // len(make(6).steps) + 1 + rng.randrange(6)
        counted.batches.clear()
        found = step_summary(make, microbatches)
        assert max(counted.batches) < microbatches // 4
        assert differs(found, whole(make, microbatches)) < SAME
        met["replicas"] += any(len(stage.replicas) > 1 for stage in pipeline.stages)
        met["links"] += bool(pipeline.links)
        met["ends"] += any(stage.end != End() for stage in pipeline.stages)
    assert min(met["replicas"], met["links"], met["ends"]) >= 4


def test_all_schedules(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for batches of some hundreds, for which the length is lowered."""
    monkeypatch.setattr(steps, "_WHOLE", 1_000)
    rng = random.Random(2)
    parts: Counter[tuple[str, str, str]] = Counter()
    for schedule in ("1f1b", "gpipe", "forward"):
        for streams, contention in (*(("sum", contention) for contention in CONTENTIONS), ("duplex", "dedicated")):
            for _ in range(8):
                # One engine or link for what is ready first is another matter: see below.
                pipeline = one_busiest(rng, training=schedule != "forward", streams=streams, links=False)
                make = batches_of(pipeline, schedule, contention=contention)
                microbatches = max(1_000 // len(make(6).steps), 250) + rng.randrange(1, 7)
                counted.batches.clear()
                found = step_summary(make, microbatches)
                assert differs(found, whole(make, microbatches)) < SAME
                parts[schedule, streams, contention] += max(counted.batches) < microbatches
    assert len(parts) == 12
    # GPipe never settles inside a batch; forward passes do where no rank runs ahead of the next ones.
    assert all(number == 0 for (schedule, _, _), number in parts.items() if schedule == "gpipe")
    assert all(
        number == 8 for (schedule, streams, _), number in parts.items() if (schedule, streams) == ("1f1b", "sum")
    )
    assert sum(parts.values()) >= 32


# -- where figures alone would mislead --------------------------------------------------------------------------------


def two_paces() -> Pipeline:
    """1F1B on three stages of which the first works 5.5 + 6 = 11.5 for a microbatch, the last 6.5 + 4.5 = 11."""
    pipeline = equal_stages(3, 0.0, 0.0)
    times = ((5.5, 6.0), (0.0, 0.0), (6.5, 4.5))
    stages = [
        replace(stage, forward=StageWork(f), backward=StageWork(b))
        for stage, (f, b) in zip(pipeline.stages, times, strict=True)
    ]
    return replace(pipeline, stages=tuple(stages))


def test_short_batches_have_another_pace_than_long_ones() -> None:
    """For the first twenty microbatches the last stage decides, which works 11 for each, then the first, 11.5."""
    make = batches_of(two_paces())
    times = [simulate(make(microbatches)).step_time for microbatches in range(12, 15)]
    assert [b - a for a, b in pairwise(times)] == [11.0, 11.0]
    # In the end the first stage, which works first and last, never waits: 11.5 for each.
    assert simulate(make(120)).step_time == 120 * 11.5


def test_a_batch_takes_no_less_than_its_busiest_device_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is worked out."""
    monkeypatch.setattr(steps, "_WHOLE", 500)
    assert step_summary(batches_of(two_paces()), 120).time == 1380.0


def test_any_long_batch_is_what_a_whole_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random pipelines without links, copies by the devices themselves: nothing takes turns."""
    monkeypatch.setattr(steps, "_WHOLE", 1_000)
    wrong = []
    for seed in range(60):
        rng = random.Random(seed)
        make = batches_of(random_pipeline(rng, streams="sum", links=False, replicas=False, skips=False))
        if differs(step_summary(make, 400), whole(make, 400)) >= SAME:
            wrong.append(seed)
    assert wrong == []


def test_any_long_batch_in_which_transfers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine for copies, or links, that take what is ready first, with any contention."""
    monkeypatch.setattr(steps, "_WHOLE", 1_000)
    wrong = []
    for seed in range(80):
        pipeline = random_pipeline(random.Random(seed), streams="overlap", ends=False)
        make = batches_of(pipeline, contention=CONTENTIONS[seed % 3])
        if differs(step_summary(make, 300), whole(make, 300)) >= SAME:
            wrong.append(seed)
    assert wrong == []


def test_ends_of_stages_that_are_not_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPipe on stages with b = 2.25 and 2; the second updates for 100, which is the end of 399 microbatches at most."""
    monkeypatch.setattr(steps, "_WHOLE", 4_000)
    pipeline = equal_stages(2, 1.0, 2.0)
    first, second = pipeline.stages
    first = replace(first, backward=StageWork(2.25))
    make = batches_of(replace(pipeline, stages=(first, replace(second, end=End(update=100.0)))), "gpipe")
    assert differs(step_summary(make, 2_000), whole(make, 2_000)) < SAME


def test_long_windows_are_not_taken_for_a_steady_pace() -> None:
    """Two stages that may hold 500 microbatches each only warm up for long; f = b, so that every turn looks alike."""
    pipeline = equal_stages(2, 1.0, 1.0)
    pipeline = replace(pipeline, stages=tuple(replace(stage, in_flight=500) for stage in pipeline.stages))
    make = batches_of(pipeline)
    assert step_summary(make, 40_000).time == whole(make, 40_000).time


def test_schedules_that_refuse_short_batches_are_simulated_whole() -> None:
    make = batches_of(equal_stages(4, 1.0, 2.0), "2bw")
    assert step_summary(make, 8_000).time == 8_000 * 3.0
