"""Simulated steps of equal stages: what papers say of time, bubble and memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from instances.pipelines import equal_stages
from partita.simulator.pipeline import Pipeline
from partita.simulator.schedules import DEFAULT_SCHEDULES, find_schedule
from partita.simulator.schedules.protocol import Schedule
from partita.simulator.simulate import Simulation, simulate
from partita.simulator.stages import staged_program

STAGES = (1, 2, 3, 4, 6)
TIMES = ((1.0, 1.0), (1.0, 2.0), (2.5, 1.5))
BATCHES = (1, 2, 3, 4, 7, 12)


def ran(pipeline: Pipeline, schedule: str, microbatches: int, chunks: int | None = None) -> Simulation:
    """A pipeline under a schedule."""
    return simulate(staged_program(pipeline, find_schedule(schedule), microbatches, chunks=chunks))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_one_stage_on_each_rank(schedule: str) -> None:
    """(M + S − 1) · (f + b), also for fewer microbatches than ranks; the rest of M · (f + b) is bubble."""
    cases = 0
    for stages, microbatches, (f, b) in product(STAGES, BATCHES, TIMES):
        found = ran(equal_stages(stages, f, b), schedule, microbatches)
        assert found.step_time == (microbatches + stages - 1) * (f + b)
        assert [use.busy for use in found.uses] == [microbatches * (f + b)] * stages
        work = stages * microbatches * (f + b)
        assert found.bubble_fraction == pytest.approx(1 - work / (stages * found.step_time), abs=1e-12)
        cases += 1
    assert cases == 90


def test_by_hand() -> None:
    """4 stages, 8 microbatches, f = 1, b = 2: 11 · 3 = 33, of which every device works 24."""
    found = ran(equal_stages(4, 1.0, 2.0), "1f1b", 8)
    assert found.step_time == 33.0
    assert found.bubble_fraction == pytest.approx(9 / 33)
    assert found.throughput == 8 / 33
    # The first microbatch goes forward for 4 · 1 and backward for 4 · 2.
    assert found.latencies[0] == 12.0


def test_replicas_divide_the_microbatches() -> None:
    """With R replicas of every stage each column of replicas has a batch of M/R of its own."""
    cases = 0
    for schedule in ("gpipe", "1f1b", "zero-bubble"):
        for stages, replicas, each in product((1, 2, 4), (2, 3), (4, 7)):
            found = ran(equal_stages(stages, 1.0, 2.0, replicas=replicas), schedule, replicas * each)
            assert found.step_time == ran(equal_stages(stages, 1.0, 2.0), schedule, each).step_time
            assert len(found.uses) == stages * replicas
            cases += 1
    assert cases == 36


def test_forward_only() -> None:
    """(M + S − 1) · f; a microbatch takes S · f where none waits."""
    cases = 0
    for stages, microbatches, f in product(STAGES, BATCHES, (1.0, 2.5)):
        found = ran(equal_stages(stages, f), "forward", microbatches)
        assert found.step_time == (microbatches + stages - 1) * f
        assert set(found.latencies.tolist()) == {stages * f}
        cases += 1
    assert cases == 60


def test_interleaved() -> None:
    """(M · v + S − 1) · (f + b) / v with v stages on each rank and M a multiple of S."""
    cases = 0
    for stages, chunks, rounds, (f, b) in product(STAGES, (1, 2, 4), (1, 2, 3), TIMES):
        microbatches = rounds * stages
        found = ran(equal_stages(stages, f, b), "interleaved", microbatches, chunks)
        # Parts of 1/2 and 1/4 of halves are exact.
        assert found.step_time == (microbatches * chunks + stages - 1) * (f + b) / chunks
        work = microbatches * (f + b)
        assert found.bubble_fraction == pytest.approx(1 - work / found.step_time, abs=1e-12)
        cases += 1
    assert cases == 135


def test_zero_bubble() -> None:
    """M · (f + b + w) + (S − 1) · (f + b − w) where f, b and w are equal: half of the backward work is weights'."""
    cases = 0
    for stages, microbatches, f in product(STAGES, (6, 7, 12, 18), (1.0, 2.5)):
        b = w = f
        found = ran(equal_stages(stages, f, b + w, weight_share=0.5), "zero-bubble", microbatches)
        assert found.step_time == microbatches * (f + b + w) + (stages - 1) * (f + b - w)
        assert found.bubble_fraction == pytest.approx(1 - microbatches * 3 * f / found.step_time, abs=1e-12)
        cases += 1
    assert cases == 40


def test_zero_bubble_v_waits_for_its_first_microbatch_only() -> None:
    """With f = b = w a rank works from its first action to its last, and rank r begins r parts of stages late."""
    for stages, more in product((1, 2, 3, 4), (0, 3)):
        microbatches = 2 * stages + more
        found = ran(equal_stages(stages, 2.0, 4.0), "zero-bubble-v", microbatches)
        # Each of 2 chunks takes 1 for each of f, b and w: 6 for a microbatch; the last rank begins S − 1 late.
        assert found.step_time == 6 * microbatches + stages - 1


@pytest.mark.parametrize("schedule", ["pipedream", "2bw"])
def test_without_a_flush_a_batch_takes_what_a_device_works(schedule: str) -> None:
    """M · (f + b), however few microbatches: the batches before and after fill the pipeline.

    Two versions of the weights need as many microbatches as stages.
    """
    cases = 0
    for stages, microbatches, (f, b) in product(STAGES, BATCHES, TIMES):
        if schedule == "2bw" and microbatches < stages:
            continue
        found = ran(equal_stages(stages, f, b), schedule, microbatches)
        assert found.step_time == microbatches * (f + b)
        assert found.bubble_fraction == 0.0
        assert [use.busy for use in found.uses] == [microbatches * (f + b)] * stages
        cases += 1
    assert cases == {"pipedream": 90, "2bw": 60}[schedule]


@pytest.mark.parametrize(("schedule", "versions"), [("pipedream", (4, 3, 2, 1)), ("2bw", (2, 2, 2, 1))])
def test_without_a_flush_ranks_keep_versions_of_their_weights(schedule: str, versions: tuple[int, ...]) -> None:
    """PipeDream one for each of the S − i microbatches in flight, 2BW two; the current one is in the stage's memory."""
    pipeline = equal_stages(4, 1.0, 2.0, activations=3.0, weights=10.0)
    pipeline = replace(pipeline, stages=tuple(replace(s, memory={"weights": 10.0}) for s in pipeline.stages))
    found = ran(pipeline, schedule, 8)
    for rank, (use, kept) in enumerate(zip(found.uses, versions, strict=True)):
        parts = found.timeline.memory[rank].parts
        extra = parts.get("weight versions")
        assert (0.0 if extra is None else set(extra.tolist())) in (0.0, {(kept - 1) * 10.0})
        assert (extra is None) == (kept == 1)
        # 10 for each version, and 3 for each of 4 − i microbatches.
        assert use.peak_memory_bytes == kept * 10.0 + (4 - rank) * 3.0


def peaks(found: Simulation) -> list[float]:
    """The most bytes of activations that every rank holds."""
    return [float(curve.parts["activations"].max()) for curve in found.timeline.memory]


def test_microbatches_in_flight_of_1f1b_and_gpipe() -> None:
    """min(S − i, M) and M, of 5 bytes each."""
    cases = 0
    for stages, microbatches, (f, b) in product(STAGES, BATCHES, TIMES):
        pipeline = equal_stages(stages, f, b, activations=5.0)
        assert peaks(ran(pipeline, "1f1b", microbatches)) == [
            5.0 * min(stages - i, microbatches) for i in range(stages)
        ]
        assert peaks(ran(pipeline, "gpipe", microbatches)) == [5.0 * microbatches] * stages
        cases += 2
    assert cases == 180


TRAINING = [schedule for schedule in DEFAULT_SCHEDULES if schedule.training]

#: Of 56 pipelines under each schedule, and twice as many with 2 and 4 chunks, how many it runs.
PIPELINES = {
    **dict.fromkeys(["gpipe", "1f1b", "zero-bubble", "zero-bubble-v"], 56),
    **dict.fromkeys(["interleaved", "interleaved-zero-bubble"], 104),
    "looped-bfs": 112,
    # As many microbatches as ranks; as stages.
    **dict.fromkeys(["pipedream", "2bw"], 44),
    "dualpipe-v": 28,
}


@pytest.mark.parametrize("schedule", TRAINING, ids=lambda schedule: schedule.name)
def test_memory_is_the_schedules_formula(schedule: Schedule) -> None:
    """A rank holds at its peak as many parts of microbatches as its schedule says, and in the end nothing."""
    cases = 0
    chunked = schedule.default_chunks > 1 and schedule.refusal(2, 4, 8) is None
    for stages, microbatches, times in product((1, 2, 3, 4), (1, 2, 3, 4, 6, 7, 12), ((1.0, 2.0), (2.5, 1.0))):
        for chunks in (2, 4) if chunked else (schedule.default_chunks,):
            if schedule.refusal(stages, chunks, microbatches) is not None:
                continue
            if not schedule.flush and microbatches < stages:
                # The formula is for one batch, and so few microbatches follow each other without a break.
                continue
            pipeline = equal_stages(stages, *times, activations=12.0)
            found = ran(pipeline, schedule.name, microbatches, chunks)
            expected = [schedule.in_flight(rank, stages, chunks, microbatches) for rank in range(stages)]
            assert None not in expected
            # A rank's activations are shared evenly by its chunks: 12 / 4 = 3 is exact.
            assert peaks(found) == [12.0 / chunks * number for number in expected]
            if schedule.flush:
                assert [curve.parts["activations"][-1] for curve in found.timeline.memory] == [0.0] * stages
            cases += 1
    assert cases == PIPELINES[schedule.name]


def test_memory_is_the_schedules_formula_in_inference() -> None:
    """The one microbatch that is being run, which is held to the end of its forward action."""
    found = ran(equal_stages(2, 1.0, activations=5.0), "forward", 4)
    assert [use.peak_memory_bytes for use in found.uses] == [5.0, 5.0]


def test_what_is_waited_for_is_the_bubble_under_every_schedule() -> None:
    """1 − work / (S · step)."""
    counted: Counter[str] = Counter()
    for schedule in TRAINING:
        for stages, microbatches in product((1, 2, 4), (8, 16)):
            found = ran(equal_stages(stages, 1.5, 3.0), schedule.name, microbatches)
            work = stages * microbatches * 4.5
            assert sum(use.busy for use in found.uses) == work
            assert found.bubble_fraction == pytest.approx(1 - work / (stages * found.step_time), abs=1e-12)
            counted[schedule.name] += 1
    assert set(counted.values()) == {6}
    assert len(counted) == len(DEFAULT_SCHEDULES) - 1 == 10
