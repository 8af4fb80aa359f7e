"""Serving instances for the cross-check: forms of units under loads that are small enough for the plain engine."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from partita.nouns.workload.workload import RequestTrace, RequestWorkload
from partita.problems.serving.problem import ServingProblem, ServingTargets
from problems.serving.samples import random_problem

__all__ = ["FAMILIES"]


def loops(rng: random.Random) -> ServingProblem:
    """Closed and open loops, units that do both."""
    return random_problem(rng.randrange(10**9))


def split(rng: random.Random) -> ServingProblem:
    """Units for prompts beside units for decoding."""
    return random_problem(rng.randrange(10**9), split=True)


def bursts(rng: random.Random) -> ServingProblem:
    """Requests of a trace that come in bursts, at the same times."""
    problem, count = random_problem(rng.randrange(10**9)), rng.randint(1, 12)
    trace = RequestTrace(
        arrival_s=tuple(sorted(float(rng.randint(0, 3)) for _ in range(count))),
        prompt_tokens=tuple(rng.randint(1, 12) for _ in range(count)),
        output_tokens=tuple(rng.randint(1, 8) for _ in range(count)),
    )
    return problem.replace(workload=RequestWorkload(trace=trace))


def free(rng: random.Random) -> ServingProblem:
    """No limits of latency, and one request after the other: what is best is a matter of steps alone."""
    problem = random_problem(rng.randrange(10**9))
    workload = msgspec.structs.replace(problem.workload, concurrency=1, rate_per_s=None)
    return problem.replace(targets=ServingTargets(), workload=workload)


FAMILIES: dict[str, Callable[[random.Random], ServingProblem]] = {
    "loops": loops,
    "split": split,
    "bursts": bursts,
    "free": free,
}
