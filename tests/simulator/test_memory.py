"""Peaks of memory, as simulated and by formula, against a plain walk through the orders of devices.

``SEEDS`` makes it longer: ``SEEDS=0:30000 pytest tests/simulator/test_memory.py``.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import product

import pytest

from instances.pipelines import row_edges
from partita.ground.errors import InputError
from partita.problems.hybrid.step.pipeline import held, refusal
from partita.simulator.pipeline import Pipeline, PipelineStage, StageWork
from partita.simulator.schedules import DEFAULT_SCHEDULES as SCHEDULES
from partita.simulator.schedules import find_schedule
from partita.simulator.schedules.protocol import InTurns, Schedule
from partita.simulator.simulate import simulate
from partita.simulator.stages import rows_of, staged_program
from second_opinions.plain_memory import plain_peak

FIRST, LAST = (int(part) for part in os.environ.get("SEEDS", "0:400").split(":"))


def pipeline_of(draw: random.Random, schedule: Schedule) -> tuple[Pipeline, int, int]:
    """Stages of any times, sizes and replicas, some whose work takes no time; their microbatches and chunks."""
    ranks = draw.randint(1, 5)
    chunks = 1 if schedule.default_chunks == 1 else draw.choice((2, 2, 3, 4))
    alike = not isinstance(schedule, InTurns) or draw.random() < 0.6
    replicas = [draw.randint(1, 3)] * ranks if alike else [draw.randint(1, 3) for _ in range(ranks)]
    total = draw.randint(1, 9) * replicas[0] if len(set(replicas)) == 1 else draw.randint(1, 14)
    # The parts of a rank are given with sizes of their own, where they follow each other rank by rank.
    given = schedule.rank_of(ranks, chunks) == [stage % ranks for stage in range(ranks * chunks)]
    least = draw.choice((0.0, 1.0))

    def time() -> float:
        return draw.choice((least, 0.5, 1.0, 2.0, 3.5, 1e6))

    def stage(number: int) -> PipelineStage:
        rank = number % ranks
        copies = (time(), time()) if given and draw.random() < 0.3 else (0.0, 0.0)
        return PipelineStage(
            replicas=tuple((f"{rank}:{replica}",) for replica in range(replicas[rank])),
            forward=StageWork(time(), *copies),
            backward=StageWork(time(), *copies[::-1]) if schedule.training else None,
            weight_share=draw.choice((0.0, 0.25, 0.5, 1.0)),
            in_flight=-(-sum(replicas[rank:]) // replicas[rank]),
            activation_bytes=draw.choice((0.0, 1.0, 3.0, 7.0, 1e9)),
            memory={"state": draw.choice((0.0, 5.0))} if number < ranks else {},
            workspace=draw.choice((0.0, 0.0, 2.0)),
        )

    parts = chunks if given else 1
    stages = tuple(stage(number) for number in range(ranks * parts))
    edges = tuple(row_edges(len(stages), schedule.training))
    return Pipeline("random", "s", stages, edges, parts=parts), total, chunks


def test_simulated_peaks_are_those_of_a_walk_through_the_orders() -> None:
    """Also where work takes no time: a device that makes room at an instant has needed it."""
    tried, peaks, refused = Counter[str](), 0, 0
    for seed in range(FIRST, LAST):
        draw = random.Random(seed)
        schedule = draw.choice(SCHEDULES)
        pipeline, total, chunks = pipeline_of(draw, schedule)
        ranks = len(pipeline.stages) // pipeline.parts
        try:
            program = staged_program(pipeline, schedule, total, chunks=chunks)
        except InputError:
            refused += 1
            continue
        rank_of = schedule.rank_of(ranks, chunks)
        shared = chunks // pipeline.parts
        stages = pipeline.stages if shared == 1 else [pipeline.stages[rank] for rank in rank_of]
        sizes = [stage.activation_bytes / shared for stage in stages]
        curves = iter(simulate(program).timeline.memory)
        degrees = [len(stage.replicas) for stage in pipeline.stages[:ranks]]
        held = [stage.in_flight for stage in pipeline.stages[:ranks]]
        orders = {
            (row.rank, row.first + k): [a._replace(microbatch=a.microbatch * row.replicas + k) for a in row.actions]
            for row in rows_of("", schedule, degrees, held, chunks, total, program.batches)
            for k in range(row.replicas)
        }
        for rank in range(ranks):
            mine = pipeline.stages[rank::ranks]
            for replica in range(len(mine[0].replicas)):
                curve = next(curves, None)
                versions = {} if curve is None else {k: v[0] for k, v in curve.parts.items() if k == "weight versions"}
                expected = plain_peak(
                    orders[rank, replica],
                    sizes,
                    fixed=mine[0].memory["state"] + sum(versions.values()),
                    workspace=max(stage.workspace for stage in mine),
                )
                found = 0.0 if curve is None else curve.peak_bytes
                assert found == pytest.approx(expected, rel=1e-9), (seed, schedule.name, rank, replica)
                peaks += 1
        tried[schedule.name] += 1
    assert set(tried) == {schedule.name for schedule in SCHEDULES}
    assert peaks > 4 * (LAST - FIRST)
    assert refused < (LAST - FIRST) / 3


def test_schedules_say_what_their_orders_hold() -> None:
    cases = 0
    for schedule, ranks, chunks, microbatches in product(SCHEDULES, range(1, 7), range(1, 5), range(1, 15)):
        if schedule.refusal(ranks, chunks, microbatches) is not None:
            continue
        for rank, order in enumerate(schedule.orders(ranks, chunks, microbatches)):
            said = schedule.in_flight(rank, ranks, chunks, microbatches)
            assert said == plain_peak(order, [1.0] * (ranks * chunks)), (schedule.name, ranks, chunks, microbatches)
            cases += 1
    assert cases > 5000


def test_hybrid_stages_hold_what_their_orders_hold() -> None:
    """Whatever the parts of a rank keep of each microbatch."""
    draw = random.Random(1)
    cases = Counter[str]()
    schedules = ("1f1b", "gpipe", "zero-bubble", "interleaved")
    for name, stages, chunks, microbatches in product(schedules, range(1, 7), range(1, 5), range(1, 27)):
        if refusal(name, stages, chunks, microbatches, 0) is not None:
            continue
        for rank, order in enumerate(find_schedule(name).orders(stages, chunks, microbatches)):
            of_part = [draw.choice((0.0, 1.0, 3.0, 10.0)) for _ in range(chunks)]
            sizes = [of_part[stage // stages] for stage in range(stages * chunks)]
            counts = held(name, stages, chunks, microbatches, rank)
            most = max(sum(a * b for a, b in zip(row, of_part, strict=True)) for row in counts)
            assert most == plain_peak(order, sizes), (name, stages, chunks, microbatches, rank)
            cases[name] += 1
    assert min(cases[name] for name in schedules) > 300


def test_an_instant_comes_twice_where_work_takes_no_time() -> None:
    """By hand: a forward part of no time comes before the backward part of no time that makes room."""
    stage = PipelineStage(
        replicas=(("0",),), forward=StageWork(0.0), backward=StageWork(0.0), in_flight=2, activation_bytes=4.0,
        memory={"state": 1.0}, workspace=2.0,
    )  # fmt: skip
    last = PipelineStage(
        replicas=(("1",),), forward=StageWork(1.0), backward=StageWork(1.0), activation_bytes=4.0, memory={"state": 1.0}
    )
    pipeline = Pipeline("two", "s", (stage, last), tuple(row_edges(2, True)))
    curve = simulate(staged_program(pipeline, find_schedule("1f1b"), 3)).timeline.memory[0]
    # Two at once; at 2 one goes and another one comes; then one after the other goes.
    assert curve.times.tolist() == [0.0, 0.0, 2.0, 2.0, 4.0, 4.0, 6.0, 6.0]
    assert curve.total.tolist() == [11.0, 9.0, 11.0, 9.0, 11.0, 5.0, 7.0, 1.0]
    assert curve.peak_bytes == 11.0
    assert curve.peak_time == 0.0
