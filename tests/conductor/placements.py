"""Small problems and topologies of every sort, with every split of a shape and every placement of a split."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np

import partita as pt
from partita.conductor.place import runs, step_on
from partita.nouns.topology.topology import Topology
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import (
    MicrobatchSchedule,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from partita.simulator.pipeline import Pipeline
from partita.simulator.placed import Layout

#: Machines of up to four devices.
MACHINES = ((4,), (3,), (2, 2), (3, 1), (1, 1, 1, 1), (2, 1), (1, 3))


def topology(draw: random.Random, kinds: tuple[str, ...] = ("gpu",), fast: float = 1e9) -> Topology:
    """Links all alike, random, or of two speeds, the same both ways or not; devices of these kinds in any order."""
    machines = draw.choice(MACHINES)
    machine_of = tuple(number for number, size in enumerate(machines) for _ in range(size))
    count = len(machine_of)
    rng = np.random.default_rng(draw.randrange(2**31))
    sort = draw.choice(("alike", "two", "two", "random", "both"))
    band = np.full((count, count), fast)
    if sort in ("two", "both"):
        # Usually slow between machines, sometimes inside them.
        machine = np.array(machine_of)
        band[machine[:, None] != machine[None, :]] = fast / draw.choice((0.3, 2, 9, 100))
    if sort in ("random", "both"):
        band = band * rng.uniform(0.2, 1.0, (count, count))
    if draw.random() < 0.6:
        band = (band + band.T) / 2
    kinds = (*kinds, *(draw.choice(kinds) for _ in range(count - len(kinds))))
    return Topology(
        name="small", names=tuple(map(str, range(count))), bandwidth_bytes_per_s=band, machine_of=machine_of,
        kinds=tuple(draw.sample(kinds, count)),
    )  # fmt: skip


def training(draw: random.Random, kinds: int, devices: dict[str, int]) -> ThroughputProblem:
    """A chain of operators, perhaps with a skip, whose forward and backward times differ by kind and by operator."""
    count = draw.randint(1, 4)
    pairs = [(i, i + 1) for i in range(count - 1)]
    if count > 2 and draw.random() < 0.4:
        pairs.append((0, count - 1))

    def times() -> tuple[float, ...]:
        scale = draw.choice((1.0, 1.0, 10.0, 0.0 if draw.random() < 0.3 else 1.0))
        return tuple(draw.randint(1, 9) / 100 * scale for _ in range(kinds))

    operators = [
        TimedOperator(
            id=i + part * count, times=times(), colocation=i, backward=bool(part), memory_bytes=draw.randint(0, 9) * 1e6
        )
        for part in (0, 1)
        for i in range(count)
    ]
    tensors = []
    for a, b in pairs:
        size = draw.choice((0.0, 1.0, 30.0)) * draw.randint(1, 9) * 1e5
        tensors.append(MovedTensor(producer=a, consumers=(b,), size=size))
        tensors.append(MovedTensor(producer=count + b, consumers=(count + a,), size=size))
    tensors.append(MovedTensor(producer=count - 1, consumers=(2 * count - 1,), size=0.0))
    scale = draw.choice((1e5, 1e6, 1e8))
    parameters = [
        StoredParameter(
            name=f"w{i}", users=(i, count + i), weight_bytes=size, gradient_bytes=size * draw.choice((0, 1, 2)),
            optimizer_bytes=size,
        )
        for i in range(count) for size in (draw.randint(1, 30) * scale,)
    ]  # fmt: skip
    if count > 1 and draw.random() < 0.3:
        shared = (0, count - 1, count, 2 * count - 1)
        parameters.append(StoredParameter(name="tied", users=shared, weight_bytes=scale, gradient_bytes=scale))
    return ThroughputProblem(
        name="small",
        kinds=tuple(
            DeviceKind(name=name, count=number, memory_bytes=None, transfer_time_per_unit=1e-9)
            for name, number in devices.items()
        ),
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=tuple(parameters) if draw.random() < 0.8 else (),
        schedule=MicrobatchSchedule(name="1f1b", microbatches=draw.choice((1, 2, 4, 6))),
    )


def instance(seed: int) -> tuple[ThroughputProblem, Topology]:
    """A problem and the devices that it is about, of one kind or two."""
    draw = random.Random(seed)
    kinds = ("gpu",) if draw.random() < 0.4 else ("gpu", "old")
    where = topology(draw, kinds)
    counts = {kind: where.kinds.count(kind) for kind in kinds}
    return training(draw, len(kinds), counts), where


def splits(problem: ThroughputProblem, stages: int, replicas: int = 1) -> Iterator[pt.Plan]:
    """Every plan of so many stages that follow the row, on any kinds that have devices for so many replicas of each."""
    count = len(problem.operators) // 2
    counts = {kind.name: kind.count // replicas for kind in problem.kinds}
    for inner in itertools.combinations(range(1, count), stages - 1):
        for kinds in itertools.product(counts, repeat=stages):
            if any(kinds.count(name) > count for name, count in counts.items()):
                continue
            used = {name: itertools.count() for name in counts}
            yield pt.Plan(
                stages=tuple(
                    pt.Stage(
                        devices=(f"{kind}:{next(used[kind])}",), kind=kind,
                        operators=(*range(a, b), *range(count + a, count + b)),
                    )
                    for (a, b), kind in zip(itertools.pairwise((0, *inner, count)), kinds, strict=True)
                )
            )  # fmt: skip


def layouts(staged: Pipeline, devices: int) -> Iterator[Layout]:
    """Every layout; devices of a group in any order."""
    sizes = [stage.group for stage in staged.stages for _ in stage.replicas]
    for taken in itertools.permutations(range(devices), sum(sizes)):
        left = iter(taken)
        yield tuple(
            tuple(tuple(itertools.islice(left, stage.group)) for _ in stage.replicas) for stage in staged.stages
        )


def shortest(staged: Pipeline, where: Topology, most: int | None = None, draw: random.Random | None = None) -> float:
    """The shortest step of a plan wherever it is placed, or on that many layouts drawn at random; infinite if none."""
    found = list(layouts(staged, where.device_count))
    if most is not None and draw is not None and len(found) > most:
        found = draw.sample(found, most)
    steps = [step_on(staged, layout, where) for layout in found if runs(staged, layout, where)]
    return min((step.time for step in steps if step is not None), default=math.inf)
