"""Steps of plans on given devices: replicas that do the same at the same times are simulated once."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from partita.simulator.pipeline import Handover, Pipeline, PipelineStage, StageWork
from partita.simulator.placed import alike_replicas, placed_program, placed_step
from partita.simulator.steps import StepSummary, step_summary


def drawn(seed: int) -> tuple[Pipeline, tuple[tuple[tuple[int, ...], ...], ...], np.ndarray, list[str], list[int]]:
    """A pipeline in a row on machines of some devices of two kinds, with replicas in any order."""
    draw = random.Random(seed)
    stages, replicas, width = draw.randint(1, 4), draw.choice((1, 2, 4, 6)), draw.choice((1, 1, 2))
    counts = [replicas] * stages if draw.random() < 0.8 else [draw.choice((1, 2, 4)) for _ in range(stages)]
    size, devices = draw.choice((2, 4, 8)), width * sum(counts)
    machine = [device // size for device in range(devices)]
    near, far = 100.0, draw.choice((10.0, 50.0))
    links = np.array([[near if a == b else far for b in machine] for a in machine])
    slow = draw.randrange(devices)
    if draw.random() < 0.5:
        links[slow, :] = links[:, slow] = 3.0
    kinds = ["b" if draw.random() < 0.2 else "a" for _ in range(devices)]
    places = list(range(devices // width))
    if draw.random() < 0.7:
        draw.shuffle(places)
    rows, start = [], 0
    for count in counts:
        mine = places[start : start + count]
        rows.append(tuple(tuple(range(place * width, (place + 1) * width)) for place in mine))
        start += count
    several = draw.random() < 0.4
    plan = Pipeline(
        name=f"drawn {seed}",
        unit="s",
        stages=tuple(
            PipelineStage(
                replicas=tuple(tuple(map(str, group)) for group in row),
                kind="a" if several else "",
                forward=StageWork(a := draw.uniform(1, 3)),
                backward=StageWork(2 * a),
                work_s={"a": (a, 2 * a), "b": (1.5 * a, 3 * a)} if several else {},
                parameter_bytes=draw.choice((0.0, 50.0)),
                update_s=draw.choice((0.0, 0.5)),
            )
            for row in rows
        ),
        handovers=tuple(
            Handover(source=a, target=b, bytes=draw.uniform(1, 9), backward=back)
            for number in range(stages - 1)
            for a, b, back in ((number, number + 1, False), (number + 1, number, True))
        ),
        microbatches=max(counts) * draw.randint(1, 6),
        schedule=draw.choice(("1f1b", "gpipe", "zero-bubble") if len(set(counts)) == 1 else ("1f1b", "gpipe")),
        duplex=draw.random() < 0.5,
    )
    return plan, tuple(rows), links, kinds if several else [], machine


def test_replicas_that_are_alike_are_simulated_once() -> None:
    found = Counter[str]()
    for seed in range(150):
        plan, layout, links, kinds, machine = drawn(seed)
        settings = {"kinds": kinds, "machine_of": machine}

        def whole(microbatches: int) -> object:
            return placed_program(plan, layout, links, microbatches=microbatches, **settings)  # noqa: B023

        expected = step_summary(whole, plan.microbatches)  # type: ignore[arg-type]
        step = placed_step(plan, layout, links, **settings)
        for name in StepSummary.__dataclass_fields__:
            assert getattr(step, name) == pytest.approx(getattr(expected, name), rel=1e-9), (seed, name)
        groups = alike_replicas(plan, layout, links, plan.microbatches, kinds)
        count = plan.stages[0].data_parallel
        assert sorted(replica for group in groups for replica in group) == list(range(count)) or not groups
        found["none"] += not groups
        found["fewer"] += 0 < len(groups) < count
        found["several"] += 1 < len(groups) < count
    assert found["none"] >= 5
    assert found["fewer"] >= 40
    assert found["several"] >= 10


def test_many_replicas_take_no_longer_than_few() -> None:
    """Of thousands that are alike one runs, with the devices of all."""
    row = tuple((device,) for device in range(4096))
    plan = Pipeline(
        name="many",
        unit="s",
        stages=(PipelineStage(tuple((str(g[0]),) for g in row), StageWork(1.0), StageWork(2.0)),),
        microbatches=4 * 4096,
        schedule="1f1b",
    )
    links = np.broadcast_to(np.array(10.0), (4096, 4096))
    assert len(alike_replicas(plan, (row,), links, plan.microbatches)) == 1
    step = placed_step(plan, (row,), links)
    assert (step.time, step.devices, step.idle) == (12.0, 4096, 0.0)
