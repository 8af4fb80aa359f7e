"""Pipelines on several kinds of devices with one data-parallel degree: a box for each choice of degrees, and bounds.

With d replicas of t_k devices in every stage on kind k, that kind has room for so many stages, and each layer costs a
stage there a known time at least: ``kind_weights`` bounds what all need.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats
from partita.ground.rounding import rounded_down
from partita.problems.hybrid.blocks import divisors
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.costs import exchanges_of
from partita.problems.hybrid.step.free_stages import begin
from partita.problems.hybrid.step.pipeline import refusal
from partita.problems.hybrid.step.solvers.candidates import terms_of
from partita.problems.hybrid.step.solvers.free_family import FreeBox
from partita.problems.hybrid.step.solvers.kind_weights import kinds_need


def seats(kind: HybridProblem, width: int) -> int:
    """Stages of so many devices that fit beside each other on a kind's machines."""
    count = used = 0
    while True:
        used = begin(used, width, kind.devices_per_machine) + width
        if used > kind.devices:
            return count
        count += 1


def boxes_by_degrees(problem: HybridProblem) -> Iterator[tuple[float, FreeBox]]:
    """Boxes of all pipelines with one data-parallel degree, each with a bound on its steps.

    They have two stages or more; those of one stage are uniform meshes.
    """
    training, kinds = problem.step, problem.kinds
    for data in divisors(problem.microbatches):
        fitting = [[t for t in kind.degrees() if data * t <= kind.devices] for kind in kinds]
        if not any(fitting):
            return
        # One replica shares out nothing.
        stages_of_zero = training.zero if data > 1 else (min(training.zero),)
        for zero in stages_of_zero:
            costs = {(k, t): _costs_of(kinds[k], data, t, zero) for k, row in enumerate(fitting) for t in row}
            for schedule in training.schedules:
                refused = refusal(schedule, 2, 1, problem.microbatches // data, zero) is not None
                if schedule != "interleaved" and not refused:
                    yield from _boxes(problem, FreeBox(schedule=schedule, zero=zero, data=data, fewest=data), costs)


def _boxes(
    problem: HybridProblem, first: FreeBox, costs: dict[tuple[int, int], _Costs]
) -> Iterator[tuple[float, FreeBox]]:
    """A box for each tensor-parallel degree of every kind that has room for a stage."""
    microbatches, most = problem.microbatches // first.data, len(problem.layers)
    if first.schedule == "zero-bubble":
        most = min(most, microbatches)
    # All degrees of a kind that is too small for a stage are the same.
    degrees = [[t for kind, t in costs if kind == k] or [1] for k in range(len(problem.kinds))]
    for tensors in itertools.product(*degrees):
        on = [(costs[k, t], seats(problem.kinds[k], first.data * t)) for k, t in enumerate(tensors) if (k, t) in costs]
        bound, (holding, ahead, once) = _bounds(problem, first.schedule, microbatches, on)
        stages = min(most, sum(count for _, count in on))
        box = replace(first, tensors=tensors, replicas=stages * first.data)
        box = box.cut(0, low=holding).cut(1, low=ahead).cut(2, low=once)
        yield bound, box if first.schedule == "gpipe" else box.cut(1, high=0.0)


@dataclass(frozen=True)
class _Costs:
    """What layers cost a stage of one kind and degree at least, (n,) each: see ``Exchanges``."""

    lacking: npt.NDArray[np.bool_]  #: Those without the degree.
    forward: Floats
    backward: Floats
    gradients: Floats
    once: Floats

    def passing(self, schedule: str) -> Floats:
        """What adds up to φ or less."""
        if schedule != "zero-bubble":
            return self.forward + self.backward
        inputs = self.backward - self.gradients
        return max((self.forward, inputs, self.forward + inputs - self.gradients), key=lambda row: float(row.sum()))

    def holding(self, schedule: str, microbatches: int) -> Floats:
        """What adds up to κ or less."""
        if schedule == "gpipe":
            return (microbatches - 1) * self.backward
        each = self.forward + self.backward
        if schedule == "zero-bubble":
            inputs = self.backward - self.gradients
            most = np.maximum(np.maximum(self.forward, inputs), self.forward + inputs - self.gradients)
            return microbatches * each - most
        return (microbatches - 1) * each

    def ahead(self, schedule: str, microbatches: int) -> Floats:
        """What adds up to the κ of forward parts where they come first."""
        return (microbatches - 1) * self.forward if schedule == "gpipe" else np.zeros_like(self.forward)


def _costs_of(kind: HybridProblem, data: int, tensor: int, zero: int) -> _Costs:
    found = exchanges_of(kind, data, tensor, zero)
    lacking = np.array([not kind.layers[place].configurations.get(tensor) for place in kind.order()])
    once = found.update if found.overlap else found.update + found.reduce_once + found.gather_once
    return _Costs(lacking, found.forward, found.backward, found.weight_gradients, once)


def _bounds(
    problem: HybridProblem, schedule: str, microbatches: int, on: Sequence[tuple[_Costs, int]]
) -> tuple[float, tuple[float, float, float]]:
    """A bound on steps, and bounds on the largest κs and the single cost, of stages with these costs and seats."""
    if not on:
        return math.inf, (0.0, 0.0, 0.0)
    terms, room = terms_of(problem), [count for _, count in on]
    nothing = np.stack([np.where(costs.lacking, np.inf, 0.0) for costs, _ in on])

    def need(alone: Floats, shared: Floats) -> float:
        found = kinds_need(nothing + alone, shared, room)
        return rounded_down(found, found, terms) if found < math.inf else found

    passing = np.stack([costs.passing(schedule) for costs, _ in on])
    held = np.stack([costs.holding(schedule, microbatches) for costs, _ in on])
    ahead = np.stack([costs.ahead(schedule, microbatches) for costs, _ in on])
    once = np.stack([costs.once for costs, _ in on])
    # The slowest stage passes once and holds for the rest: with weights each stage counts a share of both.
    whole = microbatches * np.stack([costs.forward + costs.backward for costs, _ in on])
    step = need(passing, np.maximum(whole - passing, 0.0) + once)
    return step, (need(nothing, held), need(nothing, ahead), need(nothing, once))
