"""Pipelines for the simulator: equal stages, and random ones of which all times are small multiples of a half.

Sums of such times are exact, so that what is computed in different orders can be compared with ``==``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from partita.simulator.engine import run
from partita.simulator.pipeline import NOTHING, Hop, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Message, Place, Program
from partita.simulator.rounds import IN, OUT, WORK
from partita.simulator.simulate import build, simulate
from partita.simulator.timeline import COPY_IN, COPY_OUT, SORTS, SYNC, TRANSFER, UPDATE

Floats = npt.NDArray[np.float64]


def row_edges(stages: int, training: bool) -> list[tuple[int, int]]:
    """Forward along the row, backward against it, and from each stage's forward work to its backward work."""
    edges = list(pairwise(range(stages)))
    if training:
        edges += [(stages + b, stages + a) for a, b in edges]
        edges += [(s, stages + s) for s in range(stages)]
    return edges


def equal_stages(
    stages: int,
    forward: float,
    backward: float | None = None,
    *,
    replicas: int = 1,
    weight_share: float = 0.5,
    activations: float = 0.0,
    weights: float = 0.0,
    end: End = NOTHING,
) -> Pipeline:
    """Stages that all take the same time and hand over for nothing; rank i may hold S − i microbatches."""
    return Pipeline(
        name="equal",
        unit="ms",
        stages=tuple(
            PipelineStage(
                replicas=tuple((f"device:{s * replicas + r}",) for r in range(replicas)),
                forward=StageWork(forward),
                backward=None if backward is None else StageWork(backward),
                weight_share=weight_share,
                in_flight=stages - s,
                activation_bytes=activations,
                weight_bytes=weights,
                end=end,
            )
            for s in range(stages)
        ),
        edges=tuple(row_edges(stages, backward is not None)),
    )


def halves(rng: random.Random, low: int, high: int) -> float:
    """A multiple of one half."""
    return rng.randint(2 * low, 2 * high) / 2


def windows(degrees: list[int]) -> list[int]:
    """What each replica may hold: its share of the microbatches that the replicas from its stage on have."""
    return [-(-sum(degrees[s:]) // degree) for s, degree in enumerate(degrees)]


def random_pipeline(
    rng: random.Random,
    *,
    training: bool = True,
    streams: str | None = None,
    replicas: bool = True,
    links: bool = True,
    copies: bool = True,
    ends: bool = True,
    skips: bool = True,
    traffic: bool = True,
    most_stages: int = 6,
) -> Pipeline:
    """Up to six stages in a row, perhaps over links between groups of stages, with everything that pipelines have."""
    count = rng.randint(1, most_stages)
    degrees = [rng.choice([1, 1, 2, 3]) if replicas else 1 for _ in range(count)]
    chosen = streams or rng.choice(["sum", "overlap", "duplex"])
    linked = links and count > 1 and rng.random() < 0.6
    group = sorted(rng.randrange(3) for _ in range(count)) if linked else [0] * count
    places = [
        Place(f"link {number}", instances=rng.choice([1, 1, 2]), streams=chosen, capacity=rng.choice([1.0, 2.0, 4.0]))
        for number in range(1 + max(group) if linked else 0)
    ]
    ahead = list(pairwise(range(count)))
    if skips and count > 2 and rng.random() < 0.3:
        first = rng.randrange(count - 2)
        ahead.append((first, first + 2))
    hops: list[Hop] = []
    edges = [(s, count + s) for s in range(count)] if training else []
    messages: list[Message] = []
    nodes = 2 * count
    for a, b in ahead:
        for source, target, ends_ in [(a, b, (a, b)), *([(count + b, count + a, (b, a))] if training else [])]:
            over = (group[ends_[0]], group[ends_[1]])
            crosses = over[0] != over[1]
            way = [source]
            if crosses:
                for link, outward in ((over[0], True), (over[1], False)):
                    way.append(nodes + len(hops))
                    hops.append(Hop(link, halves(rng, 0, 3), outward))
            edges += pairwise([*way, target])
            size, latency = rng.choice([0.0, 1.0, 2.0, 4.0, 6.0]), rng.choice([0.0, 0.0, 0.5])
            messages.append(Message(source, target, size, latency, over if crosses else ()))

    def work() -> StageWork:
        moved = [halves(rng, 0, 2) if copies else 0.0 for _ in range(2)]
        return StageWork(halves(rng, 0, 5), *moved, rng.choice([0.0, 0.0, 0.5]) if traffic else 0.0)

    def end(number: int) -> End:
        if not ends or rng.random() < 0.3:
            return NOTHING
        sync = halves(rng, 0, 4)
        behind = ((0.25, sync / 4), (0.5, sync / 4), (1.0, sync / 2)) if sync and rng.random() < 0.5 else ()
        over = rng.random() < 0.5 and bool(places)
        return End(
            sync=sync,
            behind=behind,
            link=group[number] if over else -1,
            link_sync=halves(rng, 0, 3) if over else 0.0,
            update=halves(rng, 0, 2),
        )

    device = 0
    stages = []
    for number, (degree, window) in enumerate(zip(degrees, windows(degrees), strict=True)):
        # Replicas of several devices run in lockstep.
        together = rng.choice([1, 1, 2])
        names = tuple(tuple(f"device:{device + r * together + k}" for k in range(together)) for r in range(degree))
        device += degree * together
        stages.append(
            PipelineStage(
                replicas=names,
                forward=work(),
                backward=work() if training else None,
                weight_share=rng.choice([0.25, 0.5]),
                in_flight=window,
                activation_bytes=float(rng.randint(0, 4)),
                memory={"weights": float(rng.randint(0, 5))},
                workspace=float(rng.randint(0, 2)),
                weight_bytes=float(rng.randint(0, 3)),
                end=end(number) if training else NOTHING,
                link=group[number] if linked else -1,
                capacity=rng.choice([1.0, 2.0, 4.0]),
            )
        )
    # Nodes of hops follow those of the backward works, which there are none of without training.
    return Pipeline(
        name="random",
        unit="ms",
        stages=tuple(stages),
        edges=tuple(edges),
        links=tuple(places),
        hops=tuple(hops),
        messages=tuple(messages),
        streams=chosen,  # type: ignore[arg-type]
    )


def without_transfers(pipeline: Pipeline) -> Pipeline:
    """The pipeline with copies and hops that take no time."""

    def alone(work: StageWork | None) -> StageWork | None:
        return None if work is None else replace(work, incoming=0.0, outgoing=0.0)

    return replace(
        pipeline,
        stages=tuple(replace(s, forward=alone(s.forward), backward=alone(s.backward)) for s in pipeline.stages),
        hops=tuple(replace(hop, time=0.0) for hop in pipeline.hops),
    )


class Ran:
    """A program that ran: when each part of each step was, task by task.

    Attributes
    ----------
    program, simulation, tasks, times
        What ran, what is said of it, and what the engine ran for it.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.simulation = simulate(program)
        self.tasks = build(program)
        self.times = run(self.tasks.graph)
        self._parts: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
        kinds = {COPY_IN: IN, COPY_OUT: OUT}
        for task, (step, sort) in enumerate(zip(self.tasks.step.tolist(), self.tasks.sort.tolist(), strict=True)):
            message = sort == TRANSFER and step >= 0 and not program.places[program.steps[step].place].is_link
            if step >= 0 and not message:
                start, end = float(self.times.start[task]), float(self.times.end[task])
                key = step, int(self.tasks.microbatch[task])
                self._parts.setdefault(key, []).append((kinds.get(sort, WORK), start, end))

    @property
    def in_messages(self) -> bool:
        """Whether tensors move as messages: not where nothing contends, nor where transfers take the devices' time."""
        return self.program.contention != "dedicated" and self.program.places[0].streams != "sum"

    def parts(self, step: int, microbatch: int) -> list[tuple[int, float, float]]:
        """Which part, and its start and end, of what a step does for a microbatch, in the order in, work, out."""
        return sorted(self._parts.get((step, microbatch), []))

    def begins(self, step: int, microbatch: int) -> float:
        """When the first part of a step starts."""
        return self.parts(step, microbatch)[0][1]

    def ends(self, step: int, microbatch: int) -> float:
        """When the last part of a step ends."""
        return self.parts(step, microbatch)[-1][2]

    def work(self, step: int, microbatch: int) -> tuple[float, float]:
        """When the work of a step starts and ends."""
        return next((start, end) for part, start, end in self.parts(step, microbatch) if part == WORK)

    def steps(self) -> Iterator[tuple[int, int]]:
        """Every step and microbatch of which something ran."""
        return iter(self._parts)

    def lanes(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Every lane with the starts and ends of its slices, as they follow each other."""
        line = self.simulation.timeline
        for lane in range(len(line.lanes)):
            mine = np.flatnonzero(line.lane == lane)
            mine = mine[np.lexsort((line.end[mine], line.start[mine]))]
            yield lane, line.start[mine], line.end[mine]

    def at_ends(self, place: int, sort: int) -> list[tuple[float, float]]:
        """When the devices of a place synchronise or update."""
        assert sort in (SYNC, UPDATE)
        line = self.simulation.timeline
        devices = {number for number, use in enumerate(self.simulation.uses) if use.place == place}
        own = [
            slice_ for slice_ in np.flatnonzero(line.sort == sort) if line.lanes[line.lane[slice_]].device in devices
        ]
        return [(float(line.start[slice_]), float(line.end[slice_])) for slice_ in own]


#: Sorts that are a device's work.
WORKING = frozenset(number for number, sort in enumerate(SORTS) if sort.work)
