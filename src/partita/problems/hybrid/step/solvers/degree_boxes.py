"""Pipelines on several kinds of devices with one data-parallel degree: a box for each choice of degrees, and bounds.

With d replicas of t_k devices in every stage on kind k, that kind has room for so many stages, and each layer costs a
stage there a known time at least: ``kind_weights`` bounds what all need.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

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


def boxes_by_degrees(problem: HybridProblem) -> Iterator[tuple[float, Callable[[], FreeBox]]]:
    """Boxes of all pipelines with one data-parallel degree, each made when it is asked for, with a bound on its steps.

    They have two stages or more; those of one stage are uniform meshes.
    """
    training, kinds = problem.step, problem.kinds
    for data in divisors(problem.microbatches):
        fitting = [[t for t in kind.degrees() if kind.holds(data, t)] for kind in kinds]
        if not any(fitting):
            return
        known: dict[tuple[str, tuple[int, ...], bytes], float] = {}
        # One replica shares out nothing.
        for zero in training.zero if data > 1 else (min(training.zero),):
            costs, counts = _costs_of(problem, data, zero, fitting)
            # All degrees of a kind that is too small for a stage are the same.
            every = [*itertools.product(*(row or [1] for row in fitting))]
            for schedule, tensors in itertools.product(training.schedules, every):
                microbatches = problem.microbatches // data
                if schedule == "interleaved" or refusal(schedule, 2, 1, microbatches, zero) is not None:
                    continue
                group = _Group(
                    FreeBox(schedule=schedule, zero=zero, data=data, fewest=data, tensors=tensors),
                    [costs[k, t] for k, t in enumerate(tensors) if (k, t) in costs],
                    [seats(kinds[k], data * t) for k, t in enumerate(tensors) if (k, t) in costs],
                    counts,
                    microbatches,
                    terms_of(problem),
                )
                key = schedule, tensors, b"".join(one.once.tobytes() for one in group.costs)
                if key not in known:
                    known[key] = group.bound()
                yield known[key], group.box


@dataclass(frozen=True)
class _Costs:
    """What sorts of layers cost a stage of one kind and degree at least, (n,) each: see ``Exchanges``."""

    lacking: Floats  #: Infinite for those without the degree.
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

    def ahead(self, microbatches: int) -> Floats:
        """What adds up to the κ of forward parts where they come first."""
        return (microbatches - 1) * self.forward


def _costs_of(
    problem: HybridProblem, data: int, zero: int, degrees: Sequence[Sequence[int]]
) -> tuple[dict[tuple[int, int], _Costs], Floats]:
    """Those of all kinds at each of their degrees; and how many layers of each sort there are."""
    rows: list[Floats] = []
    keys = [(k, t) for k, row in enumerate(degrees) for t in row]
    for k, t in keys:
        kind, found = problem.kinds[k], exchanges_of(problem.kinds[k], data, t, zero)
        has = np.array([bool(kind.layers[place].configurations.get(t)) for place in kind.order()])
        once = found.update if found.overlap else found.update + found.reduce_once + found.gather_once
        rows += [np.where(has, 0.0, np.inf), found.forward, found.backward, found.weight_gradients, once]
    sorts, counts = np.unique(np.stack(rows), axis=1, return_counts=True)
    each = {key: _Costs(*sorts[5 * number : 5 * number + 5]) for number, key in enumerate(keys)}
    return each, counts.astype(np.float64)


@dataclass(frozen=True)
class _Group:
    """The pipelines of a box, by what sorts of layers cost on each kind that has seats."""

    first: FreeBox
    costs: Sequence[_Costs]
    seats: Sequence[int]
    counts: Floats
    microbatches: int
    terms: int

    def bound(self) -> float:
        """No step takes less: with weights, each stage counts a share of the slowest one, which holds for the rest."""
        passing = [costs.passing(self.first.schedule) for costs in self.costs]
        whole = [self.microbatches * (costs.forward + costs.backward) + costs.once for costs in self.costs]
        return self._need(passing, [np.maximum(row - less, 0.0) for row, less in zip(whole, passing, strict=True)])

    def box(self) -> FreeBox:
        """The box, with bounds on the largest κs and the single cost."""
        schedule, most = self.first.schedule, sum(self.counts)
        stages = min(most, sum(self.seats), self.microbatches if schedule == "zero-bubble" else most)
        box = replace(self.first, replicas=int(stages) * self.first.data)
        nothing = [np.zeros_like(costs.once) for costs in self.costs]
        box = box.cut(0, low=self._need(nothing, [c.holding(schedule, self.microbatches) for c in self.costs]))
        box = box.cut(2, low=self._need(nothing, [costs.once for costs in self.costs]))
        if schedule != "gpipe":
            return box.cut(1, high=0.0)
        return box.cut(1, low=self._need(nothing, [c.ahead(self.microbatches) for c in self.costs]))

    def _need(self, alone: list[Floats], shared: list[Floats]) -> float:
        if not self.costs:
            return math.inf
        lacking = np.stack([costs.lacking for costs in self.costs])
        found = kinds_need(np.stack(alone) + lacking, np.stack(shared), self.counts, self.seats)
        return rounded_down(found, found, self.terms) if found < math.inf else found
