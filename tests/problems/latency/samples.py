"""Latency problems for the contract suite."""

from __future__ import annotations

import random
from functools import lru_cache

import msgspec
import pytest
from hypothesis import strategies as st

from contracts.samples import Family, Samples
from partita.problems.kind import SearchOptions
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan, complete
from partita.problems.latency.problem import LatencyOperator, LatencyProblem
from problems.latency.brute_force import best_latency, judge
from problems.latency.random_problems import random_problem

__all__ = ["SAMPLES"]


def _row(*, training: bool = False, **changes: object) -> LatencyProblem:
    """Three operators in a row, of which two fit together; for training the way back, too."""
    operators = [
        LatencyOperator(
            id=v,
            cpu_time=8.0,
            accelerator_time=1.0,
            transfer_time=1.0,
            memory_bytes=2.0,
            colocation=v if training else None,
        )
        for v in range(3)
    ]
    edges = [(0, 1), (1, 2)]
    if training:
        operators = operators[:2] + [
            LatencyOperator(
                id=v + 2, cpu_time=8.0, accelerator_time=1.0, transfer_time=1.0, colocation=v, backward=True
            )
            for v in range(2)
        ]
        edges = [(0, 1), (1, 3), (3, 2)]
    problem = LatencyProblem(
        name="row", accelerators=2, memory_bytes=4.0, operators=tuple(operators), edges=tuple(edges)
    )
    return problem.replace(**changes)


def _large(seed: int, columns: int = 4, rows: int = 12, accelerators: int = 6) -> LatencyProblem:
    """Parallel chains of operators with random costs, which meet at the ends and here and there between."""
    rng = random.Random(seed)
    count = columns * rows
    operators = tuple(
        LatencyOperator(
            id=v,
            cpu_time=float(rng.randint(10, 60)),
            accelerator_time=float(rng.randint(1, 6)),
            transfer_time=float(rng.randint(1, 20)),
            memory_bytes=float(rng.randint(1, 8)),
        )
        for v in range(count)
    )
    edges = {(v, v + columns) for v in range(count - columns)}
    edges |= {(v, v + columns + 1) for v in range(count - columns - 1) if rng.random() < 0.3}
    return LatencyProblem(
        name=f"columns {seed}",
        accelerators=accelerators,
        memory_bytes=1.4 * sum(op.memory_bytes for op in operators) / accelerators,
        operators=operators,
        edges=tuple(sorted(edges)),
    )


def optimum(problem: LatencyProblem, options: SearchOptions) -> float | None:
    """By trying everything; remembered, because every component asks."""
    return _remembered(msgspec.json.encode(problem))


@lru_cache(maxsize=5_000)
def _remembered(encoded: bytes) -> float:
    return best_latency(msgspec.json.decode(encoded, type=LatencyProblem))


def check(problem: LatencyProblem, plan: LatencyPlan, options: SearchOptions) -> None:
    """The evaluator agrees with an independent one."""
    found = evaluate(problem, plan)
    value, fine = judge(problem, complete(problem, plan))
    assert found.feasible == fine, found.violations
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-12)


def _drawn(training: bool, pieces: int | None) -> st.SearchStrategy[LatencyProblem]:
    return st.integers(0, 10**6).map(
        lambda seed: random_problem(seed, most=4 if training else 5, training=training, pieces=pieces)
    )


SAMPLES = Samples(
    families=(
        Family("inference", _drawn(False, 1), _row()),
        Family("several pieces", _drawn(False, 2), _row(pieces=2)),
        Family("training", _drawn(True, 1), _row(training=True)),
    ),
    optimum=optimum,
    check=check,
    infeasible=(),
    floors=((_row(), 3.0), (_row(accelerators=0), 24.0)),
    large=(_large(1), _large(2, columns=3, rows=30), _large(3).replace(pieces=2)),
)
