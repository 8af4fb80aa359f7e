"""Which configurations the layers of a given stage take: the least time that fits into memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.ground.rounding import lowered
from partita.problems.hybrid.layer import Configuration

#: Points kept while choices are combined; beyond these the answer is good, not always the best.
_MOST_POINTS = 4096

Menu = tuple[Configuration, ...]


def least_memory(kinds: Sequence[tuple[Menu, int]], in_flight: int, replicas: int = 1) -> float:
    """Bytes that the layers need at least, with that many microbatches in flight and replicas."""
    return sum(n * min(choice.held_bytes(in_flight, replicas) for choice in menu) for menu, n in kinds)


def fastest_choices(
    kinds: Sequence[tuple[Menu, int]], in_flight: int, limit: float, replicas: int = 1
) -> tuple[tuple[int, ...], ...] | None:
    """How many layers of each kind take each configuration, so that time is least; None if nothing fits.

    Layers are added one by one; of the points (memory, time) reached, those that another one beats are dropped.
    Weights and synchronisation, which usually are the same for all configurations of a degree, are not looked at.
    ``kinds`` are configurations to choose from, each with the number of layers that have them; ``limit`` is in bytes.
    """
    held = [[choice.held_bytes(in_flight, replicas) for choice in menu] for menu, _ in kinds]
    fastest = [
        min((choice.time, size, k) for k, (choice, size) in enumerate(zip(menu, sizes, strict=True)))[2]
        for (menu, _), sizes in zip(kinds, held, strict=True)
    ]
    if sum(n * sizes[k] for (_, n), sizes, k in zip(kinds, held, fastest, strict=True)) <= limit:
        return tuple(
            tuple(n * (k == best) for k in range(len(menu))) for (menu, n), best in zip(kinds, fastest, strict=True)
        )
    left = least_memory(kinds, in_flight, replicas)
    if left > limit:
        return None
    memory, time = np.zeros(1), np.zeros(1)
    history: list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for kind, (menu, n) in enumerate(kinds):
        sizes = np.array(held[kind])
        times = np.array([choice.time for choice in menu])
        for _ in range(n):
            left -= float(sizes.min())
            grown = (memory[:, None] + sizes[None, :]).ravel()
            slower = (time[:, None] + times[None, :]).ravel()
            kept = _front(grown, slower, limit - lowered(left))
            if not len(kept):
                return None
            history.append((kind, kept // len(menu), kept % len(menu)))
            memory, time = grown[kept], slower[kept]
    # The front falls in time as memory grows.
    place = len(memory) - 1
    counts = [[0] * len(menu) for menu, _ in kinds]
    for kind, parent, choice in reversed(history):
        counts[kind][int(choice[place])] += 1
        place = int(parent[place])
    return tuple(tuple(row) for row in counts)


def _front(memory: npt.NDArray[np.float64], time: npt.NDArray[np.float64], limit: float) -> npt.NDArray[np.int64]:
    """Places of the points within the limit that no other one beats, by memory."""
    order = np.lexsort((time, memory))
    order = order[memory[order] <= limit]
    if not len(order):
        return order
    least = np.minimum.accumulate(time[order])
    better = np.ones(len(order), dtype=bool)
    # A hair less time is rounding, not a better point.
    better[1:] = time[order][1:] < lowered(least[:-1])
    order = order[better]
    if len(order) > _MOST_POINTS:
        order = order[np.linspace(0, len(order) - 1, _MOST_POINTS).round().astype(np.int64)]
    return order
