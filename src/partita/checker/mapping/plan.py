"""What a placement is worth: the time of its slowest replica, and who exchanges how many bytes with whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem
from partita.checker.numbers import FailedCheckError, exact

#: Stage and replica.
Replica = tuple[int, int]


def counts(problem: Problem) -> list[int]:
    """Replicas of every stage."""
    stated = [stage.get("replicas") for stage in problem["stages"]]
    return [problem["replicas"] if count is None else count for count in stated]


def exchanged(problem: Problem) -> dict[Replica, list[tuple[Replica, Fraction]]]:
    """By replica, the other end and the bytes of each exchange; microbatches take turns among replicas."""
    number = counts(problem)
    found: dict[Replica, list[tuple[Replica, Fraction]]] = {
        (s, r): [] for s, count in enumerate(number) for r in range(count)
    }
    for one in problem.get("transfers", ()) if problem.get("form", "both") != "all-reduce" else ():
        a, b = one["source"], one["target"]
        turns = math.lcm(number[a], number[b])
        size = exact(one["bytes"]) * problem["replicas"] / turns
        for m in range(turns):
            here, there = (a, m % number[a]), (b, m % number[b])
            found[here].append((there, size))
            found[there].append((here, size))
    return found


def reduced(problem: Problem, stage: int) -> Fraction:
    """Bytes that a replica of a stage moves in the ring of its replicas."""
    count = counts(problem)[stage]
    if count < 2 or problem.get("form", "both") == "point-to-point":
        return Fraction(0)
    return Fraction(2 * (count - 1), count) * exact(problem["stages"][stage].get("parameter_bytes", 0.0))


def own_time(problem: Problem, stage: int, device: int) -> Fraction:
    """What a replica takes on a device beside communication."""
    entry = problem["stages"][stage]
    return exact(entry["time_s"] if entry.get("times_s") is None else entry["times_s"][device])


def device_count(problem: Problem) -> int:
    """Devices of the matrix, or of counted machines."""
    counted = sum(entry["count"] * entry["devices"] for entry in problem.get("machines", ()))
    return counted or len(problem["bandwidth_bytes_per_s"])


def seconds(problem: Problem, source: int, target: int) -> Fraction:
    """Seconds per byte from one device to another; none from a device to itself."""
    if source == target:
        return Fraction(0)
    if problem.get("machines"):
        (here, one), (there, other) = _machine(problem, source), _machine(problem, target)
        if here == there:
            return 1 / exact(one["inside_bytes_per_s"])
        return max(1 / exact(entry["outside_bytes_per_s"]) for entry in (one, other))
    return 1 / exact(problem["bandwidth_bytes_per_s"][source][target])


def _machine(problem: Problem, device: int) -> tuple[int, Problem]:
    """The number of the machine of a device among all, and the entry that it is counted in."""
    machines = 0
    for entry in problem["machines"]:
        if device < entry["count"] * entry["devices"]:
            return machines + device // entry["devices"], entry
        device -= entry["count"] * entry["devices"]
        machines += entry["count"]
    raise FailedCheckError("a replica is on a device that there is not")


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
    if not set(devices) <= set(range(device_count(problem))):
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
