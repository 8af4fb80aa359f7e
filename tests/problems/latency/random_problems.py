"""Small random latency problems from a seed."""

from __future__ import annotations

import random

from partita.problems.latency.problem import LatencyOperator, LatencyProblem

__all__ = ["random_problem"]


def random_problem(seed: int, *, most: int = 6, training: bool = False, pieces: int | None = None) -> LatencyProblem:
    """Up to so many operators, numbers that are multiples of a half, and every feature now and then.

    Some are rows with branches, which have separators; some have constants that several operators read.
    """
    rng = random.Random(seed)
    n = rng.randint(2, most)
    row = rng.random() < 0.5
    edges = set()
    for v in range(1, n):
        if row and rng.random() < 0.85:
            edges.add((rng.randint(max(0, v - 2), v - 1), v))
        for u in range(v):
            if rng.random() < (0.15 if row else 0.3):
                edges.add((u, v))
    forward = n if not training else max(1, n // 2)
    classes = [None if rng.random() < 0.6 else rng.randint(0, 2) for _ in range(n)]
    if training:
        classes = [v % forward for v in range(n)]
    cpu = rng.choice([1, 4, 10])
    operators = tuple(
        LatencyOperator(
            id=10 + v,
            cpu_time=rng.randint(0, 6) * cpu / 2,
            accelerator_time=None if rng.random() < 0.06 else rng.randint(0, 6) / 2,
            transfer_time=rng.choice([0.0, 0.5, 1.0, 3.0, 8.0]),
            memory_bytes=float(rng.randint(0, 4)),
            colocation=classes[v],
            backward=training and v >= forward,
        )
        for v in range(n)
    )
    order = list(range(n))
    rng.shuffle(order)
    kept = [(u, v) for u, v in sorted(edges)]
    return LatencyProblem(
        name=f"random {seed}",
        accelerators=rng.choice([0, 1, 2, 2, 3, 3]),
        memory_bytes=None if rng.random() < 0.2 else float(rng.randint(2, 9)),
        pieces=rng.choice([1, 1, 2]) if pieces is None else pieces,
        operators=tuple(operators[v] for v in order),
        edges=tuple((10 + u, 10 + v) for u, v in kept),
    )
