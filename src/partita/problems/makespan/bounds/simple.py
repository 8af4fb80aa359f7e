"""Bounds that are made at once: the longest chain, the division of work, and what cannot run at all."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import lowered, rounded_up
from partita.problems.kind import BoundMethod
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.problem import MakespanProblem

#: Steps of the ascent in the weights of the devices; sums may round up by less than the other.
_STEPS = 300


def work_bound(instance: MakespanInstance) -> float:
    """Work divided over the devices, every piece where it is cheapest; 0 where operators may overlap.

    Let the devices have weights w ≥ 0 that add up to 1. In a schedule of makespan C every device works for at most C,
    since operators on it exclude each other, so C ≥ Σ_d w_d · (work on d) ≥ Σ_v min_d w_d · t(v, d), for any weights.
    The best weights are found by multiplicative steps towards the loaded devices; every step's value is a bound. With
    classes that run together the least is taken class by class.
    """
    if not instance.problem.serial_operators:
        return 0.0
    a = instance.arrays
    work = np.zeros((len(instance.choices), instance.devices))
    np.add.at(work, a.group.of, np.where(instance.able, a.time, math.inf))
    weights = np.full(instance.devices, 1.0 / instance.devices)
    best = 0.0
    for step in range(_STEPS):
        # A class that runs nowhere makes this infinite, rightly: nothing ends.
        priced = np.where(np.isfinite(work), weights[None, :] * work, math.inf)
        chosen = priced.argmin(axis=1)
        value = float(priced[np.arange(len(work)), chosen].sum())
        best = max(best, value)
        if not 0 < value < math.inf:
            break
        loads = np.bincount(chosen, weights=work[np.arange(len(work)), chosen], minlength=instance.devices)
        weights *= np.exp(np.clip((loads / value - 1.0) / math.sqrt(step + 4.0), -4.0, 4.0))
        weights /= weights.sum()
    return lowered(best)


def impossible(instance: MakespanInstance) -> str | None:
    """Why there is no schedule at all, where that is plain to see: a class that fits nowhere, or too much memory."""
    problem, a = instance.problem, instance.arrays
    for members, choices in zip(problem.classes(), instance.choices, strict=True):
        if not choices:
            what = problem.operators[members[0]].label
            what += f" with the {len(members) - 1} more of its colocation class" if len(members) > 1 else ""
            held = float(a.memory[members].sum())
            return f"no device that can run {what} has room for the {held:g} {problem.memory_unit} needed"
    total, room = float(a.memory.sum()), float(instance.most_held.sum())
    if total > rounded_up(room, room, instance.count + instance.devices):
        return f"the operators hold {total:g} {problem.memory_unit}, all devices together have {room:g}"
    return None


def simple_bound(instance: MakespanInstance) -> float:
    """The better of both bounds; infinite if it is plain that there is no schedule."""
    if impossible(instance) is not None:
        return math.inf
    return max(instance.critical, work_bound(instance))


class CriticalPath(BoundMethod[MakespanProblem]):
    """See ``MakespanInstance.critical`` for why it holds."""

    name = "critical path"
    summary = "the longest chain with each operator on its best device for the chain, transfers included"
    argument = (
        "no chain of operators and transfers is shorter, wherever they run, and what enters or leaves one device queues"
    )

    def bound(self, problem: MakespanProblem, monitor: Monitor) -> Bound:
        instance = build_instance(problem)
        value = math.inf if impossible(instance) is not None else instance.critical
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


class Work(BoundMethod[MakespanProblem]):
    """See ``work_bound`` for why it holds."""

    name = "work"
    summary = "the work of all operators divided over the devices; ignores chains and transfers"
    argument = "devices' times weighted add up to at least each operator's cheapest weighted time"

    def supports(self, problem: MakespanProblem) -> str | None:
        return None if problem.serial_operators else "operators on one device may overlap, so work divides as it likes"

    def bound(self, problem: MakespanProblem, monitor: Monitor) -> Bound:
        instance = build_instance(problem)
        value = math.inf if impossible(instance) is not None else work_bound(instance)
        return Bound(value, self.name, self.scope, monitor.elapsed_s)
