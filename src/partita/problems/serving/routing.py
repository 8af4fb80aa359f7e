"""Which group of units takes each request as it arrives, by the shares of a plan.

Of every class the requests are dealt out in order of arrival by smooth weighted round robin: each group gains its share
of a request with every arrival, and who has gained most takes the request and pays for it (the first one of equals).
Within a group the scheduler with the fewest requests takes it.

Source: nginx, ``ngx_http_upstream_round_robin.c``: smooth weighted round-robin balancing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.nouns.workload.workload import DrawnRequests
from partita.problems.serving.problem import RequestClass, ServingPlan, ServingProblem


def class_of(classes: Sequence[RequestClass], drawn: DrawnRequests) -> Longs:
    """(M,) The class of every request."""
    found = np.full(len(drawn.prompt_tokens), max(0, len(classes) - 1), np.int64)
    for number in reversed(range(len(classes))):
        limit = classes[number]
        found[(drawn.prompt_tokens <= limit.prompt_tokens) & (drawn.output_tokens <= limit.output_tokens)] = number
    return found


def dealt(shares: Sequence[float], count: int) -> Longs:
    """Who takes each of so many requests."""
    weights = np.array(shares) / sum(shares)
    gained, found = np.zeros(len(weights)), np.zeros(count, np.int64)
    for number in range(count):
        gained += weights
        # Sums of shares that are equal may differ in their last digits.
        found[number] = int(np.argmax(gained >= gained.max() - 1e-9))
        gained[found[number]] -= 1.0
    return found


def route_of(problem: ServingProblem, plan: ServingPlan, drawn: DrawnRequests) -> Longs | None:
    """(M,) The group of the plan that takes each request; None where the plan has no shares."""
    taking = [(number, group.shares) for number, group in enumerate(plan.units) if group.shares is not None]
    if not taking:
        return None
    numbers, route = np.array([number for number, _ in taking]), np.zeros(len(drawn.prompt_tokens), np.int64)
    classes = class_of(problem.classes, drawn)
    for number in np.unique(classes):
        own = np.flatnonzero(classes == number)
        route[own] = numbers[dealt([shares[number] for _, shares in taking], len(own))]
    return route
