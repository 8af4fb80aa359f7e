"""What every device holds over time: what is always there, what microbatches in flight keep, what work needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.simulator.program import Ints, Place, Program
from partita.simulator.tasks import Floats
from partita.simulator.timeline import MemoryCurve

Changes = tuple[Floats, Ints]


def memory_curves(program: Program, works: Ints, start: Floats, end: Floats) -> tuple[MemoryCurve, ...]:
    """A curve for every instance of every place of devices, in their order; empty if nothing is known of memory.

    Parameters
    ----------
    program
        What ran.
    works
        (steps, microbatches) The task that does the work of a step; −1 for none.
    start, end
        (tasks,) Times.
    """
    ranks = [(number, place) for number, place in enumerate(program.places) if not place.is_link]
    holding = any(step.saves or step.frees for step in program.steps)
    if not holding and not any(place.workspace or any(place.memory.values()) for _, place in ranks):
        return ()
    micro = np.arange(works.shape[1], dtype=np.int64)
    curves = []
    for number, place in ranks:
        mine = [s for s, step in enumerate(program.steps) if step.place == number]
        for instance in range(place.instances):
            own = micro[micro % place.instances == instance]
            # What is held is counted and multiplied, so that many microbatches leave no rounding errors behind.
            kept: dict[float, list[Changes]] = {}
            working: list[Changes] = []
            for s in mine:
                step, tasks = program.steps[s], works[s, own]
                if step.saves:
                    kept.setdefault(step.saves, []).append((start[tasks], np.ones(len(tasks), dtype=np.int64)))
                if step.frees:
                    kept.setdefault(step.frees, []).append((end[tasks], -np.ones(len(tasks), dtype=np.int64)))
                if place.workspace:
                    working.append((start[tasks], np.ones(len(tasks), dtype=np.int64)))
                    working.append((end[tasks], -np.ones(len(tasks), dtype=np.int64)))
            curves.append(_curve(place, kept, working))
    return tuple(curves)


def _curve(place: Place, kept: dict[float, list[Changes]], working: list[Changes]) -> MemoryCurve:
    """The curve of one device."""
    groups = [*kept.values(), *([working] if working else [])]
    instants = np.unique(np.concatenate([np.zeros(1), *(times for group in groups for times, _ in group)]))
    parts = {name: np.full(len(instants), float(size)) for name, size in place.memory.items() if size}
    if kept:
        parts[place.activations] = np.sum([size * _count(instants, group) for size, group in kept.items()], axis=0)
    if working:
        parts["workspace"] = place.workspace * (_count(instants, working) > 0)
    return MemoryCurve(instants, parts, place.limit)


def _count(instants: Floats, changes: Sequence[Changes]) -> Ints:
    """How many there are from each instant on; what ends and what begins at one instant do not meet."""
    times, deltas = (np.concatenate(part) for part in zip(*changes, strict=True))
    sums = np.zeros(len(instants), dtype=np.int64)
    np.add.at(sums, np.searchsorted(instants, times), deltas)
    count: Ints = np.cumsum(sums)
    return count
