"""The best mapping by trying all, and an evaluator that shares nothing with the package's."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations

import numpy as np

from partita.problems.mapping.problem import MappingProblem, Placement

__all__ = ["best_objective", "replica_time"]


def replica_time(problem: MappingProblem, placement: tuple[tuple[int, ...], ...], s: int, r: int) -> float:
    """What one replica takes, term by term as the definition has them."""
    device, counts = placement[s][r], tuple(map(len, placement))
    stage, links = problem.stages[s], problem.bandwidth_bytes_per_s[device]
    total = stage.times_s[device] if stage.times_s is not None else stage.time_s
    if problem.form in ("both", "point-to-point"):
        for transfer in problem.transfers:
            for mine, other in ((transfer.source, transfer.target), (transfer.target, transfer.source)):
                if mine == s:
                    for end, share in meetings(counts[s], counts[other], r):
                        total += transfer.bytes * problem.replicas * share / links[placement[other][end]]
    if problem.form in ("both", "all-reduce") and counts[s] > 1:
        following, preceding = placement[s][(r + 1) % counts[s]], placement[s][r - 1]
        total += 2 * (counts[s] - 1) / counts[s] * stage.parameter_bytes / min(links[following], links[preceding])
    return total


def meetings(mine: int, other: int, r: int) -> list[tuple[int, float]]:
    """Replicas of the other stage whose microbatches are those of replica r, and the share of all microbatches."""
    turns = mine * other
    found: dict[int, int] = {}
    for m in range(turns):
        if m % mine == r:
            found[m % other] = found.get(m % other, 0) + 1
    return [(end, times / turns) for end, times in found.items()]


def objective(problem: MappingProblem, plan: Placement) -> float:
    """Of one mapping."""
    return max(
        replica_time(problem, plan.placement, s, r) for s, row in enumerate(plan.placement) for r in range(len(row))
    )


@lru_cache(maxsize=64)
def _arrangements(devices: int, count: int) -> np.ndarray:
    return np.array(list(permutations(range(devices), count)), dtype=np.int64)


def best_objective(problem: MappingProblem) -> float | None:
    """The least objective of all mappings, all at once; None if there are not enough devices."""
    devices = len(problem.bandwidth_bytes_per_s)
    counts = [problem.replicas if stage.replicas is None else stage.replicas for stage in problem.stages]
    count = sum(counts)
    if count > devices:
        return None
    every = _arrangements(devices, count)
    first = [sum(counts[:s]) for s in range(len(counts))]
    pace = np.array(
        [[0.0 if a == b else 1.0 / x for b, x in enumerate(row)] for a, row in enumerate(problem.bandwidth_bytes_per_s)]
    )
    worst = np.zeros(len(every))
    for s, stage in enumerate(problem.stages):
        own = np.array(stage.times_s) if stage.times_s is not None else np.full(devices, stage.time_s)
        for r in range(counts[s]):
            here = every[:, first[s] + r]
            total = own[here].copy()
            if problem.form != "all-reduce":
                for transfer in problem.transfers:
                    for mine, other in ((transfer.source, transfer.target), (transfer.target, transfer.source)):
                        if mine == s:
                            for end, share in meetings(counts[s], counts[other], r):
                                size = transfer.bytes * problem.replicas * share
                                total += size * pace[here, every[:, first[other] + end]]
            if problem.form != "point-to-point" and counts[s] > 1:
                one, two = (every[:, first[s] + (r + step) % counts[s]] for step in (1, -1))
                slower = np.maximum(pace[here, one], pace[here, two])
                total += 2 * (counts[s] - 1) / counts[s] * stage.parameter_bytes * slower
            worst = np.maximum(worst, total)
    return float(worst.min())
