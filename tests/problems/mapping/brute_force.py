"""The best mapping by trying all, and an evaluator that shares nothing with the package's."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations

import numpy as np

from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem

__all__ = ["best_objective", "replica_time"]


def replica_time(problem: MappingProblem, placement: tuple[tuple[int, ...], ...], s: int, r: int) -> float:
    """What one replica takes, term by term as the definition has them."""
    device, replicas = placement[s][r], problem.replicas
    stage, links = problem.stages[s], problem.bandwidth_bytes_per_s[device]
    total = stage.times_s[device] if stage.times_s is not None else stage.time_s
    if problem.form in ("both", "point-to-point"):
        for transfer in problem.transfers:
            if transfer.source == s:
                total += transfer.bytes / links[placement[transfer.target][r]]
            if transfer.target == s:
                total += transfer.bytes / links[placement[transfer.source][r]]
    if problem.form in ("both", "all-reduce") and replicas > 1:
        following, preceding = placement[s][(r + 1) % replicas], placement[s][r - 1]
        total += 2 * (replicas - 1) / replicas * stage.parameter_bytes / min(links[following], links[preceding])
    return total


def objective(problem: MappingProblem, plan: Placement) -> float:
    """Of one mapping."""
    return max(
        replica_time(problem, plan.placement, s, r) for s in range(len(problem.stages)) for r in range(problem.replicas)
    )


@lru_cache(maxsize=64)
def _arrangements(devices: int, count: int) -> np.ndarray:
    return np.array(list(permutations(range(devices), count)), dtype=np.int64)


def best_objective(problem: MappingProblem) -> float | None:
    """The least objective of all mappings, all at once; None if there are not enough devices."""
    devices, replicas = len(problem.bandwidth_bytes_per_s), problem.replicas
    count = len(problem.stages) * replicas
    if count > devices:
        return None
    every = _arrangements(devices, count)
    pace = np.array(
        [[0.0 if a == b else 1.0 / x for b, x in enumerate(row)] for a, row in enumerate(problem.bandwidth_bytes_per_s)]
    )
    worst = np.zeros(len(every))
    for s, stage in enumerate(problem.stages):
        own = np.array(stage.times_s) if stage.times_s is not None else np.full(devices, stage.time_s)
        for r in range(replicas):
            here = every[:, s * replicas + r]
            total = own[here].copy()
            if problem.form != "all-reduce":
                for transfer in problem.transfers:
                    for mine, other in ((transfer.source, transfer.target), (transfer.target, transfer.source)):
                        if mine == s:
                            total += transfer.bytes * pace[here, every[:, other * replicas + r]]
            if problem.form != "point-to-point" and replicas > 1:
                one, two = (every[:, s * replicas + (r + step) % replicas] for step in (1, -1))
                slower = np.maximum(pace[here, one], pace[here, two])
                total += 2 * (replicas - 1) / replicas * stage.parameter_bytes * slower
            worst = np.maximum(worst, total)
    return float(worst.min())
