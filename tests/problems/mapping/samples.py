"""Mapping problems for the contract suite."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from contracts.samples import Family, Samples
from partita.problems.kind import SearchOptions
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer, Placement
from partita.problems.mapping.samples import UNEQUAL
from problems.mapping.brute_force import best_objective, objective
from problems.mapping.random_problems import random_problem

__all__ = ["SAMPLES", "grid"]


def grid(stages: int, replicas: int, columns: int, **fields: object) -> MappingProblem:
    """A chain of stages on a grid whose links slow down with the square of the distance."""
    count = stages * replicas

    def between(a: int, b: int) -> float:
        hops = abs(a // columns - b // columns) + abs(a % columns - b % columns)
        return 0.0 if a == b else 8e9 / hops**2

    stated = {
        "name": f"grid {stages}x{replicas}",
        "replicas": replicas,
        "stages": tuple(
            MappingStage(name=f"s{s}", time_s=0.001 * (1 + s % 3), parameter_bytes=4e6 * (1 + s % 2))
            for s in range(stages)
        ),
        "transfers": tuple(MappingTransfer(source=s, target=s + 1, bytes=1e7) for s in range(stages - 1)),
        "bandwidth_bytes_per_s": tuple(tuple(between(a, b) for b in range(count)) for a in range(count)),
    }
    return MappingProblem(**{**stated, **fields})


def optimum(problem: MappingProblem, options: SearchOptions) -> float | None:
    """By trying everything."""
    return best_objective(problem)


def check(problem: MappingProblem, plan: Placement, options: SearchOptions) -> None:
    """The evaluator agrees with an independent one, and every device has one replica at most."""
    found = evaluate(problem, plan)
    used = [device for row in plan.placement for device in row]
    assert found.feasible == (len(set(used)) == len(used))
    assert found.objective == pytest.approx(objective(problem, plan), rel=1e-12, abs=1e-300)


def _family(name: str, form: str, typical: MappingProblem) -> Family:
    problems = st.integers(0, 10**6).map(lambda seed: random_problem(seed, form, most=6))
    return Family(name, problems, typical)


SAMPLES = Samples(
    families=(
        _family("both", "both", UNEQUAL),
        _family("point-to-point", "point-to-point", UNEQUAL.replace(form="point-to-point")),
        _family("all-reduce", "all-reduce", UNEQUAL.replace(form="all-reduce")),
    ),
    optimum=optimum,
    check=check,
    infeasible=(UNEQUAL.replace(replicas=3),),
    # Alone on a device: its own time. Three in a ring on alike links: 2 · 2/3 · 12 MB at 8 GB/s.
    floors=(
        (grid(1, 1, 1), 0.001),
        (
            UNEQUAL.replace(
                replicas=3,
                stages=(MappingStage(name="s", time_s=0.01, parameter_bytes=12e6),),
                transfers=(),
                bandwidth_bytes_per_s=tuple(tuple(8e9 for _ in range(3)) for _ in range(3)),
            ),
            0.012,
        ),
    ),
    large=(grid(8, 8, 8),),
)
