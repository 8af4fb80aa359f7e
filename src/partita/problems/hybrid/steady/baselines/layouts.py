"""Pipelines laid out by hand: which configurations they take, and what is missing where none fit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.search.monitor import Monitor
from partita.ground.fronts import front
from partita.ground.rounding import SUMMED, lowered, up_to
from partita.ground.units import format_bytes
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.blocks import choices_of
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Baseline, HybridOptions, Outcome
from partita.problems.hybrid.steady.evaluate import evaluate, step_time

#: Why there is no plan where a recipe has no layout at all.
_UNUSED = "no setting of it uses the devices and microbatches there are"


@dataclass(frozen=True)
class LaidOutStage:
    """One stage of a layout: places in the order of layers from ``start`` to before ``end``, and its degrees.

    ``machines`` and ``machine_group`` say where it is, if the problem has machines of several devices.
    """

    start: int
    end: int
    data_parallel: int
    tensor_parallel: int
    machines: int | None = None
    machine_group: int | None = None


class LayoutPlanner:
    """Turns layouts into plans: the fastest configurations that fit into memory, stage by stage.

    Stages are cut along one topological order of the problem's layers, ``order``.
    """

    def __init__(self, problem: HybridProblem) -> None:
        self.problem = problem
        self.order = [problem.layers[number] for number in problem.order()]
        numbers: dict[tuple[object, ...], int] = {}
        self.kinds = [numbers.setdefault(choices_of(layer), len(numbers)) for layer in self.order]
        self._chosen: dict[tuple[object, ...], tuple[tuple[int, ...], ...] | None] = {}
        self._shards = problem.shards
        self._limit = math.inf if problem.memory_bytes is None else up_to(problem.memory_bytes)

    def plan(self, layout: Sequence[LaidOutStage]) -> Plan | str | float:
        """The plan of a layout; a sentence if a layer lacks a degree, or the bytes by which memory is exceeded."""
        remaining = sum(laid.data_parallel for laid in layout)
        stages, missing = [], 0.0
        for laid in layout:
            in_flight = -(-remaining // laid.data_parallel)
            remaining -= laid.data_parallel
            found = self._stage(laid, in_flight)
            if isinstance(found, str):
                return found
            if isinstance(found, float):
                missing = max(missing, found)
            else:
                stages.append(found)
        return missing if missing > 0 else Plan(stages=tuple(stages))

    def best(
        self,
        layouts: Iterable[Sequence[LaidOutStage]],
        monitor: Monitor,
        reason: str = _UNUSED,
        *,
        by_step: bool = False,
    ) -> Outcome:
        """The best plan among layouts by the evaluator; without one the reason nearest to a plan.

        With ``by_step`` the best is the one with the shortest step, not the one with the best objective. ``reason`` is
        the one where there is no layout.
        """
        best: Plan | None = None
        value = missing = math.inf
        for layout in (placed for one in layouts for placed in place(self.problem, one)):
            if monitor.stopping and (best is not None or missing < math.inf):
                break
            plan = self.plan(layout)
            if isinstance(plan, str):
                reason = plan if math.isinf(missing) else reason
            elif isinstance(plan, float):
                if plan < missing:
                    missing = plan
                    stages = f"{len(layout)} stage{'s' if len(layout) > 1 else ''}"
                    degrees = f"data {layout[0].data_parallel}, tensor {layout[0].tensor_parallel}"
                    reason = (
                        f"its smallest setting ({stages}, {degrees}) needs {format_bytes(plan)} more on a device than "
                        f"the {format_bytes(self.problem.memory_bytes)} there are"
                    )
            else:
                found = evaluate(self.problem, plan)
                worth = step_time(self.problem, plan, found).step if by_step else found.objective
                if found.feasible and worth < value:
                    best, value = plan, worth
                elif not found.feasible and math.isinf(missing):
                    reason = found.violations[0]
        return Outcome(best, reason="" if best is not None else reason)

    def _stage(self, laid: LaidOutStage, in_flight: int) -> Stage | str | float:
        degree = laid.tensor_parallel
        kinds: dict[int, list[int]] = {}
        for place in range(laid.start, laid.end):
            if not self.order[place].configurations.get(degree):
                return f"{self.order[place].label} has no configuration of tensor-parallel degree {degree}"
            kinds.setdefault(self.kinds[place], []).append(place)
        counted = [(self.order[places[0]].configurations[degree], len(places)) for places in kinds.values()]
        replicas = laid.data_parallel if self._shards else 1
        key = (tuple((kind, len(places)) for kind, places in kinds.items()), degree, in_flight, replicas)
        if key not in self._chosen:
            self._chosen[key] = fastest_choices(counted, in_flight, self._limit, replicas)
        found = self._chosen[key]
        if found is None:
            return float(least_memory(counted, in_flight, replicas) - (self.problem.memory_bytes or 0.0))
        configurations: dict[int, str] = {}
        for (choices, _), places, counts in zip(counted, kinds.values(), found, strict=True):
            names = [choice.id for choice, times in zip(choices, counts, strict=True) for _ in range(times)]
            configurations |= {self.order[place].id: name for place, name in zip(places, names, strict=True)}
        held = [layer.id for layer in self.problem.layers if layer.id in configurations]
        return Stage(
            operators=tuple(held),
            data_parallel=laid.data_parallel,
            tensor_parallel=degree,
            machines=laid.machines,
            machine_group=laid.machine_group,
            configurations={identity: configurations[identity] for identity in held},
        )


@dataclass(frozen=True)
class LaidOut(Baseline):
    """The best of a family of layouts, a usual way to lay out training by hand."""

    family: Callable[
        [LayoutPlanner], Iterable[Sequence[LaidOutStage]]
    ]  #: The layouts, each in the order of its stages.
    without: str = _UNUSED  #: Why there is no plan where the family is empty.

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        layouts = LayoutPlanner(problem)
        return layouts.best(self.family(layouts), monitor, self.without)


def place(problem: HybridProblem, layout: Sequence[LaidOutStage]) -> list[list[LaidOutStage]]:
    """A layout of stages with equal degrees on machines: as it is without machines, otherwise every even placement.

    A machine holds d_1 of the d replicas of as many stages as fit, and the next stages are on other machines.
    """
    if problem.hierarchy is None:
        return [list(layout)]
    size = problem.devices_per_machine
    replicas, degree = layout[0].data_parallel, layout[0].tensor_parallel
    found = []
    for inside in range(1, min(replicas, size // degree) + 1):
        if replicas % inside:
            continue
        machines, together = replicas // inside, size // (inside * degree)
        if machines * -(-len(layout) // together) <= problem.machines:
            found.append(
                [
                    dataclasses.replace(laid, machines=machines, machine_group=number // together)
                    for number, laid in enumerate(layout)
                ]
            )
    return found


def replica_degrees(problem: HybridProblem, most: int, every: int = 64) -> list[int]:
    """Data-parallel degrees to try: all up to ``every``, beyond that powers of two, and the largest.

    Larger degrees are hardly ever worse from two on, so little is lost.
    """
    allowed = problem.replicas(most)
    return [d for d in allowed if d <= every or d & (d - 1) == 0 or d == allowed[-1]]


#: Points kept while choices are combined; beyond these the answer is good, not always the best.
_MOST_POINTS = 4096

Choices = tuple[Configuration, ...]


def least_memory(kinds: Sequence[tuple[Choices, int]], in_flight: int, replicas: int = 1) -> float:
    """Bytes that the layers need at least, with that many microbatches in flight and replicas."""
    return sum(n * min(choice.held_bytes(in_flight, replicas) for choice in choices) for choices, n in kinds)


def fastest_choices(
    kinds: Sequence[tuple[Choices, int]], in_flight: int, limit: float, replicas: int = 1
) -> tuple[tuple[int, ...], ...] | None:
    """How many layers of each kind take each configuration, so that time is least; None if nothing fits.

    Layers are added one by one; of the points (memory, time) reached, those that another one beats are dropped.
    Weights and synchronisation, which usually are the same for all configurations of a degree, are not looked at.
    ``kinds`` are configurations to choose from, each with the number of layers that have them; ``limit`` is in bytes.
    """
    held = [[choice.held_bytes(in_flight, replicas) for choice in choices] for choices, _ in kinds]
    fastest = [
        min((choice.time, size, k) for k, (choice, size) in enumerate(zip(choices, sizes, strict=True)))[2]
        for (choices, _), sizes in zip(kinds, held, strict=True)
    ]
    if sum(n * sizes[k] for (_, n), sizes, k in zip(kinds, held, fastest, strict=True)) <= limit:
        return tuple(
            tuple(n * (k == best) for k in range(len(choices)))
            for (choices, n), best in zip(kinds, fastest, strict=True)
        )
    left = least_memory(kinds, in_flight, replicas)
    if left > limit:
        return None
    memory, time = np.zeros(1), np.zeros(1)
    history: list[tuple[int, Longs, Longs]] = []
    for kind, (choices, n) in enumerate(kinds):
        sizes = np.array(held[kind])
        times = np.array([choice.time for choice in choices])
        for _ in range(n):
            left -= float(sizes.min())
            grown = (memory[:, None] + sizes[None, :]).ravel()
            slower = (time[:, None] + times[None, :]).ravel()
            kept = _front(grown, slower, limit - lowered(left))
            if not len(kept):
                return None
            history.append((kind, kept // len(choices), kept % len(choices)))
            memory, time = grown[kept], slower[kept]
    # The front falls in time as memory grows.
    place = len(memory) - 1
    counts = [[0] * len(choices) for choices, _ in kinds]
    for kind, parent, choice in reversed(history):
        counts[kind][int(choice[place])] += 1
        place = int(parent[place])
    return tuple(tuple(row) for row in counts)


def _front(memory: Floats, time: Floats, limit: float) -> Longs:
    """Places of the points within the limit that no other one beats, by memory."""
    within = np.flatnonzero(memory <= limit)
    # A hair less time is rounding, not a better point.
    kept = within[front(memory[within], time[within], margin=SUMMED)]
    if len(kept) > _MOST_POINTS:
        kept = kept[np.linspace(0, len(kept) - 1, _MOST_POINTS).round().astype(np.int64)]
    return kept
