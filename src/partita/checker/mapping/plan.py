"""What a placement is worth: the time of its slowest replica."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem
from partita.checker.mapping.traffic import counts, exchanged, own_time, reduced, seconds
from partita.checker.numbers import FailedCheckError


def worth(problem: Problem, plan: Mapping[str, Any]) -> Fraction:
    """The largest time of a replica.

    Raises ``FailedCheckError`` if two replicas share a device, or it is not a placement of the problem.
    """
    home = plan["placement"]
    if [len(row) for row in home] != counts(problem):
        raise FailedCheckError("the plan's replicas are not those of the problem")
    devices = [device for row in home for device in row]
    if any(type(device) is not int for device in devices) or len(set(devices)) < len(devices):
        raise FailedCheckError("two replicas are on one device")
    if not set(devices) <= set(range(len(problem["bandwidth_bytes_per_s"]))):
        raise FailedCheckError("a replica is on a device that there is not")
    exchanges = exchanged(problem)
    loads = []
    for s, row in enumerate(home):
        for r, device in enumerate(row):
            load = own_time(problem, s, device)
            load += sum((size * seconds(problem, device, home[t][q]) for (t, q), size in exchanges[s, r]), Fraction(0))
            beside = [row[(r + step) % len(row)] for step in (1, -1)] if len(row) > 1 else []
            load += reduced(problem, s) * max((seconds(problem, device, other) for other in beside), default=0)
            loads.append(load)
    return max(loads)
