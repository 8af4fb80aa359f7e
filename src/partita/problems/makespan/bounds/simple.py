"""Bounds that are made at once: the longest chain, the division of work, and what cannot run at all."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import lowered, rounded_up
from partita.problems.kind import BoundMethod
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.problem import MakespanProblem

#: Steps of the ascent in the weights of the devices.
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
    work = np.zeros((len(instance.choices), instance.devices))
    np.add.at(work, instance.arrays.group.of, np.where(instance.able, instance.arrays.time, math.inf))
    # A class that runs nowhere makes this infinite, rightly: nothing ends.
    return lowered(max(0.0, *(value for _, value in weighted_work(work))))


def weighted_work(work: Floats) -> Iterator[tuple[Floats, float]]:
    """Weights of the devices with what they prove of (k, D) work, by steps towards those that get the most of it."""
    weights: Floats = np.full(work.shape[1], 1.0 / work.shape[1])
    able, every = np.isfinite(work), np.arange(len(work))
    for step in range(_STEPS):
        priced = np.where(able, weights * np.where(able, work, 0.0), math.inf)
        chosen = priced.argmin(axis=1)
        value = float(priced[every, chosen].sum())
        yield weights, value
        if not 0 < value < math.inf:
            return
        loads = np.bincount(chosen, weights=work[every, chosen], minlength=work.shape[1])
        weights = weights * np.exp(np.clip((loads / value - 1.0) / math.sqrt(step + 4.0), -4.0, 4.0))
        weights = weights / weights.sum()


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


def explain_infeasible(problem: MakespanProblem) -> str:
    """Say what a problem without a schedule lacks, and what would be enough."""
    said = impossible(build_instance(problem))
    if said is not None:
        return said
    sizes = [sum(problem.operators[v].memory for v in members) for members in problem.classes()]
    return (
        f"no way to divide the operators keeps the memory limits: they hold {sum(sizes):g} {problem.memory_unit}, the "
        f"largest that stay together {max(sizes):g}; more memory, or smaller colocation classes, would be needed"
    )


def simple_bound(instance: MakespanInstance) -> float:
    """The better of both bounds; infinite if it is plain that there is no schedule."""
    if impossible(instance) is not None:
        return math.inf
    return max(instance.critical, work_bound(instance))


class InstanceBound(BoundMethod[MakespanProblem]):
    """A bound by ``value``, of a problem that is not plainly impossible."""

    def bound(self, problem: MakespanProblem, monitor: Monitor) -> Bound:
        instance = build_instance(problem)
        value = math.inf if impossible(instance) is not None else self.value(instance, monitor)
        return Bound(value, self.name, self.scope, monitor.elapsed_s)

    @abstractmethod
    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        """What no schedule ends before."""


class LongestChain(InstanceBound):
    """See ``MakespanInstance.critical`` for why it holds."""

    name = "critical path"
    summary = "the longest chain with each operator on its best device for the chain, transfers included"
    argument = (
        "no chain of operators and transfers is shorter, wherever they run, and what enters or leaves one device queues"
    )

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        return instance.critical


class DividedWork(InstanceBound):
    """See ``work_bound`` for why it holds."""

    name = "work"
    summary = "the work of all operators divided over the devices; ignores chains and transfers"
    argument = "devices' times weighted add up to at least each operator's cheapest weighted time"

    def supports(self, problem: MakespanProblem) -> str | None:
        return None if problem.serial_operators else "operators on one device may overlap, so work divides as it likes"

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        return work_bound(instance)
