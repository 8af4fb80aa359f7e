"""What every device holds over time: what is always there, what microbatches in flight keep, what work needs.

What ends and what begins at one instant do not meet, but for work that takes no time: a device does that in its order,
and has room for it even so. Such an instant comes twice, first with the most that is held within it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.simulator.program import Place, Program
from partita.simulator.timeline import MemoryCurve


def memory_curves(program: Program, works: Longs, start: Floats, end: Floats) -> tuple[MemoryCurve, ...]:
    """A curve for every instance of every place of devices, in their order; empty if nothing is known of memory.

    ``works`` (steps, microbatches) are the tasks that do the work of steps, −1 for none; ``start`` and ``end`` are by
    task.
    """
    ranks = [(number, place) for number, place in enumerate(program.places) if not place.is_link]
    holding = any(step.saves or step.frees for step in program.steps)
    if not holding and not any(place.workspace or any(place.memory.values()) for _, place in ranks):
        return ()
    micro = np.arange(works.shape[1], dtype=np.int64)
    turn = _turns(program, works)
    curves = []
    for number, place in ranks:
        mine = [s for s, step in enumerate(program.steps) if step.place == number]
        for instance in range(place.instances):
            own = micro[micro % place.instances == instance]
            tasks = works[np.ix_(mine, own)]
            sizes = [
                np.repeat([getattr(program.steps[s], name) for s in mine], len(own)) for name in ("saves", "frees")
            ]
            flat = tasks.ravel()
            works_here = _Works(start[flat], end[flat], turn[np.ix_(mine, own)].ravel(), *sizes)
            curves.append(_curve(place, works_here))
    return tuple(curves)


def _turns(program: Program, works: Longs) -> Longs:
    """(steps, microbatches) Places in the order of a device; the numbers of tasks where there is none."""
    if program.orders is None:
        return works
    turn = np.zeros(works.shape, dtype=np.int64)
    for order in program.orders:
        turn[order.steps, order.microbatches] = np.arange(len(order.steps))
    return turn


@dataclass(frozen=True)
class _Works:
    """(n,) What one device does: when, in which order, and bytes that are held from a start on and up to an end."""

    start: Floats
    end: Floats
    turn: Longs
    saves: Floats
    frees: Floats


def _curve(place: Place, works: _Works) -> MemoryCurve:
    """The curve of one device."""
    # Before everything else at an instant ends what began before it, and after everything begins what lasts.
    lasts = works.end > works.start
    count = len(works.start)
    times = np.concatenate([np.zeros(1), works.start, works.end])
    phase = np.concatenate([np.zeros(1, np.int64), np.where(lasts, 2, 1), np.where(lasts, 0, 1)])
    turns = np.concatenate([np.zeros(1, np.int64), 2 * works.turn, 2 * works.turn + 1])
    order = np.lexsort((turns, phase, times))
    times, phase = times[order], phase[order]

    def counted(started: Longs, ended: Longs) -> Longs:
        found: Longs = np.cumsum(np.concatenate([np.zeros(1, np.int64), started, -ended])[order])
        return found

    parts = {name: np.full(len(times), float(size)) for name, size in place.memory.items() if size}
    # What is held is counted and multiplied, so that many microbatches leave no rounding errors behind.
    held = sorted({*works.saves.tolist(), *works.frees.tolist()} - {0.0})
    if held:
        columns = [(works.saves == size, works.frees == size) for size in held]
        counts = [counted(saved.astype(np.int64), freed.astype(np.int64)) for saved, freed in columns]
        parts[place.activations] = np.sum([size * each for size, each in zip(held, counts, strict=True)], axis=0)
    if place.workspace and count:
        ones = np.ones(count, dtype=np.int64)
        parts["workspace"] = place.workspace * (counted(ones, ones) > 0)
    kept = _kept(times, phase, np.sum(list(parts.values()), axis=0) if parts else np.zeros(len(times)))
    return MemoryCurve(times[kept], {name: levels[kept] for name, levels in parts.items()}, place.limit)


def _kept(times: Floats, phase: Longs, total: Floats) -> Longs:
    """Of every instant the last event, and before it the one with the most of what takes no time, if that is more."""
    last = np.flatnonzero(np.append(times[1:] > times[:-1], True))
    instant = np.searchsorted(last, np.arange(len(times)))
    inside = np.flatnonzero((phase == 1) & (total > total[last][instant]))
    # By instant the largest first, the first of equals.
    inside = inside[np.lexsort((inside, -total[inside], instant[inside]))]
    _, first = np.unique(instant[inside], return_index=True)
    kept: Longs = np.sort(np.concatenate([last, inside[first]]))
    return kept
