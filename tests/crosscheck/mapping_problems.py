"""Mapping instances for the cross-check: machines, grids, links of any speed, stages that differ."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from crosscheck.shapes import Draw, exact, pool, table
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer

__all__ = ["FAMILIES", "problems"]


def _links(rng: random.Random, devices: int, shape: str) -> list[list[float]]:
    machine, columns = rng.choice((2, 3, 4)), rng.choice((2, 3))
    if shape == "machines":
        inside, across = rng.choice(((16.0, 2.0), (9.0, 0.1), (1e6, 1e-3)))
        return [
            [0.0 if a == b else inside if a // machine == b // machine else across for b in range(devices)]
            for a in range(devices)
        ]
    if shape == "grid":

        def hops(a: int, b: int) -> int:
            return abs(a // columns - b // columns) + abs(a % columns - b % columns)

        return [[0.0 if a == b else 16.0 / hops(a, b) ** 2 for b in range(devices)] for a in range(devices)]
    draw = pool(rng, "ties", "whole", "tenths", "smooth", "wide")
    return table(rng, devices, devices, draw)


def _problem(rng: random.Random, used: int, spare: int, times: Draw, sizes: Draw) -> MappingProblem:
    stages = rng.choice([s for s in range(1, used + 1) if used % s == 0])
    replicas = used // stages
    devices = used + spare
    unequal = rng.random() < 0.4
    pairs = [(s, t) for s in range(stages) for t in range(s + 1, stages) if t == s + 1 or rng.random() < 0.2]
    return MappingProblem(
        name="drawn",
        replicas=replicas,
        stages=tuple(
            MappingStage(
                name=f"s{s}",
                time_s=None if unequal else times(),
                times_s=tuple(times() for _ in range(devices)) if unequal else None,
                parameter_bytes=sizes(),
            )
            for s in range(stages)
        ),
        transfers=tuple(MappingTransfer(source=s, target=t, bytes=sizes()) for s, t in pairs),
        bandwidth_bytes_per_s=tuple(map(tuple, _links(rng, devices, rng.choice(("machines", "grid", "any"))))),
        form=rng.choice(("both", "both", "point-to-point", "all-reduce")),
    )


def tiny(rng: random.Random) -> MappingProblem:
    """Small enough for everything to be tried."""
    return _problem(rng, rng.randint(1, 5), rng.choice((0, 1)), exact(rng), exact(rng))


def middle(rng: random.Random) -> MappingProblem:
    """Up to two dozen devices."""
    return _problem(rng, rng.randint(6, 24), rng.choice((0, 0, 1, 3)), pool(rng), pool(rng))


def alike(rng: random.Random) -> MappingProblem:
    """Ties wherever they may be."""
    return _problem(rng, rng.randint(4, 16), rng.choice((0, 2)), pool(rng, "ties", "zeros"), pool(rng, "ties", "zeros"))


def uneven(rng: random.Random) -> MappingProblem:
    """Stages with numbers of replicas of their own, and several transfers between two of them."""
    problem = _problem(rng, rng.randint(2, 12), rng.choice((0, 2, 4)), pool(rng), pool(rng))
    free = len(problem.bandwidth_bytes_per_s) - len(problem.stages)
    stages = []
    for stage in problem.stages:
        more = rng.randint(0, min(3, free))
        free -= more
        stages.append(msgspec.structs.replace(stage, replicas=1 + more))
    again = tuple(one for one in problem.transfers if rng.random() < 0.4)
    return problem.replace(stages=tuple(stages), transfers=(*problem.transfers, *again))


def wide(rng: random.Random) -> MappingProblem:
    """Numbers that swallow each other."""
    return _problem(rng, rng.randint(2, 12), rng.choice((0, 1)), pool(rng, "wide", "extreme"), pool(rng, "wide"))


FAMILIES: dict[str, Callable[[random.Random], MappingProblem]] = {
    "tiny": tiny,
    "middle": middle,
    "alike": alike,
    "uneven": uneven,
    "wide": wide,
}


def problems(rng: random.Random) -> MappingProblem:
    """One of any family."""
    return FAMILIES[rng.choice(list(FAMILIES))](rng)
