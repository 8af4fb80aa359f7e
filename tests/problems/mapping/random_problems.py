"""Random mapping problems that are small enough to try everything, of the shapes that clusters have."""

from __future__ import annotations

import random

import msgspec

from partita.problems.mapping.problem import Form, MappingProblem, MappingStage, MappingTransfer

__all__ = ["SHAPES", "random_problem", "uneven_problem"]

#: Stages and replicas of up to seven devices.
SHAPES = ((1, 1), (2, 1), (5, 1), (7, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (1, 5), (1, 7), (1, 4))


def _bandwidths(rng: random.Random, devices: int, family: str) -> list[list[float]]:
    machine = rng.choice((2, 3))
    columns = rng.choice((2, 3))
    speeds = [rng.randint(1, 8) for _ in range(devices)]

    def between(a: int, b: int) -> float:
        if family == "machines":
            return 16.0 if a // machine == b // machine else 2.0
        if family == "grid":
            hops = abs(a // columns - b // columns) + abs(a % columns - b % columns)
            return 16.0 / hops**2
        if family == "blocks":
            return float(speeds[a // machine] * 4) if a // machine == b // machine else 1.0 / abs(a - b)
        return rng.randint(1, 32) / 2

    matrix = [[0.0 if a == b else between(a, b) for b in range(devices)] for a in range(devices)]
    if family == "random":
        for a in range(devices):
            for b in range(a):
                matrix[a][b] = matrix[b][a]
    return matrix


def random_problem(seed: int, form: Form = "both", most: int = 7) -> MappingProblem:
    """A problem with at most so many devices: machines, grids, blocks, symmetric and asymmetric random links.

    Some have devices to spare, devices of different speeds, several transfers between two stages, or nothing to send.
    """
    rng = random.Random(seed)
    stages, replicas = rng.choice([shape for shape in SHAPES if shape[0] * shape[1] <= most])
    devices = min(most, stages * replicas + rng.choice((0, 0, 1, 2)))
    family = rng.choice(("machines", "grid", "blocks", "random", "asymmetric"))
    pairs = [(s, t) for s in range(stages) for t in range(s + 1, stages) if t == s + 1 or rng.random() < 0.25]
    unequal = rng.random() < 0.3
    heavy, light = rng.choice(((0, 6), (6, 0), (6, 6), (2, 12)))
    return MappingProblem(
        name=f"random {seed}",
        replicas=replicas,
        stages=tuple(
            MappingStage(
                name=f"s{s}",
                time_s=None if unequal else rng.randint(0, 6) / 2,
                times_s=tuple(rng.randint(0, 6) / 2 for _ in range(devices)) if unequal else None,
                parameter_bytes=float(rng.randint(0, light)),
            )
            for s in range(stages)
        ),
        transfers=tuple(
            MappingTransfer(source=s, target=t, bytes=float(rng.randint(0, heavy)))
            for s, t in pairs
            for _ in range(rng.choice((1, 1, 2)))
        ),
        bandwidth_bytes_per_s=tuple(map(tuple, _bandwidths(rng, devices, family))),
        form=form,
    )


def uneven_problem(seed: int, form: Form = "both") -> MappingProblem:
    """The same with stages of their own numbers of replicas, at most six devices in all."""
    rng = random.Random(seed)
    problem = random_problem(next(n for n in range(1000 * seed, 1000 * seed + 1000) if _stages(n) in (2, 3)), form, 7)
    devices = len(problem.bandwidth_bytes_per_s)
    free = devices
    stages = []
    for s, stage in enumerate(problem.stages):
        most = free - (len(problem.stages) - s - 1)
        replicas = rng.randint(1, min(4, most))
        free -= replicas
        stages.append(msgspec.structs.replace(stage, replicas=replicas))
    return problem.replace(name=f"uneven {seed}", stages=tuple(stages))


def _stages(seed: int) -> int:
    return len(random_problem(seed).stages)
