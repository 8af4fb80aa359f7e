"""The most requests per second that given units take and keep their targets, by simulation."""

from __future__ import annotations

import math

import msgspec

from partita.engines.search.monitor import Monitor
from partita.nouns.workload.workload import RequestWorkload
from partita.problems.serving.evaluate import keeps
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup

#: Requests of a run that only shows where to look, and by which factor rates grow there.
_SHORT, _STEP = 1_500, 1.2
#: How near the rate is to one that is too high, of short runs; steps of whole ones.
_NEAR, _NEARER = 0.02, 0.01
#: Rates that are looked at, at most, in short runs and in whole ones; and the least one, as a share of the guess.
_LOOKS, _WHOLE, _LEAST = 16, 5, 1e-2
#: Above so many times the guess requests come all at once, and a higher rate changes nothing.
_MOST = 1e5


def most_offered(
    problem: ServingProblem, units: tuple[UnitGroup, ...], guess: float, monitor: Monitor
) -> ServingPlan | None:
    """The plan of the units with the highest rate that was found to keep the targets; None if none was.

    Between rates that keep them there may be some that do not: this finds one behind which a slightly higher one does
    not, from a guess of it. Rates below a hundredth of the guess are none.
    """
    if problem.rates:
        for rate in reversed(problem.rates):
            if monitor.stopping:
                break
            plan = ServingPlan(units=units, rate_per_s=rate)
            if keeps(problem, plan):
                return plan
        return None
    short = problem.replace(workload=problem.workload.shortened(_SHORT))
    found = _between(short, units, guess, monitor)
    if short.workload.count < problem.workload.count and found > 0:
        found = _whole(problem, units, found, monitor)
    return ServingPlan(units=units, rate_per_s=found) if found > 0 else None


def _between(problem: ServingProblem, units: tuple[UnitGroup, ...], guess: float, monitor: Monitor) -> float:
    """A rate that keeps the targets, next to one that does not; 0 if none was found."""
    low, high, rate, step = 0.0, 0.0, guess, _STEP
    for _ in range(_LOOKS):
        apart = not low or not high or high - low > _NEAR * high
        if monitor.stopping or not _LEAST * guess <= rate <= _MOST * guess or not apart:
            break
        if keeps(problem, ServingPlan(units=units, rate_per_s=rate)):
            low = rate
        else:
            high = rate
        if low and high:
            rate = math.sqrt(low * high)
        else:
            rate = low * step if low else high / step
            # Steps grow while only one side is known.
            step *= math.sqrt(step)
    return low


def _whole(problem: ServingProblem, units: tuple[UnitGroup, ...], rate: float, monitor: Monitor) -> float:
    """A rate near this that keeps the targets in the whole run; 0 if none was found."""
    for look in range(_WHOLE):
        # Whoever asks simulates the plan again: without time, a rate that is probably kept.
        if monitor.stopping:
            return rate * (1 - _NEARER * (1 << look))
        if keeps(problem, ServingPlan(units=units, rate_per_s=rate)):
            return rate
        rate *= 1 - _NEARER * (1 << look)
    return 0.0


def prompts_of(workload: RequestWorkload) -> RequestWorkload:
    """The same requests, of which each ends with its first token; when they come is open."""
    trace = workload.trace
    return msgspec.structs.replace(
        workload,
        output_tokens=None if workload.output_tokens is None else 1,
        histogram=tuple(msgspec.structs.replace(bar, output_tokens=1) for bar in workload.histogram),
        trace=trace and msgspec.structs.replace(trace, output_tokens=(1,) * len(trace.output_tokens)),
        spread=0.0,
        rate_per_s=None,
        concurrency=None,
    )
