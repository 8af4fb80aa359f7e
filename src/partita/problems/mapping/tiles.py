"""Mappings on counted machines: the grid of stages and replicas cut into tiles, a tile for each machine.

A machine of m devices takes a consecutive stages of m/a consecutive replicas: one stage of m replicas keeps rings
inside, m stages of one replica keep transfers inside, and what is between shares out both. All machines of one entry
are alike, so that which one a tile goes to makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.problems.mapping.counted import CountedInstance

#: A stage of the problem, and those of its replicas that go to one sort.
_Part = tuple[int, range]


def tilings(instance: CountedInstance, target: float, least: Floats) -> Iterator[Ints]:
    """Devices of all replicas by every shape of tiles.

    ``least`` (S, K) is what a replica of every stage takes at least on every sort: stages go to sorts where that is
    within a target, if that can be done one stage after the other.
    """
    shared = _shared(instance, target, least)
    if shared is None:
        return
    shapes = max(instance.together)
    for a in range(1, min(len(instance.problem.stages), shapes) + 1):
        for replicas_first in (True, False):
            found = np.full(instance.count, -1, dtype=np.int32)
            for k, parts in enumerate(shared):
                order = _tiled(instance, parts, a, instance.together[k], replicas_first=replicas_first)
                found[order] = np.flatnonzero(instance.sort_of == k)[: len(order)]
            yield found


def _shared(instance: CountedInstance, target: float, least: Floats) -> list[list[_Part]] | None:
    """By sort the stages and replicas that go there: whoever has least choice first, to where it is fastest."""
    counts = instance.problem.counts
    place: dict[int, int] = {}
    for row, stage in enumerate(instance.stage_of):
        place.setdefault(stage, row)
    room = list(instance.room)
    found: list[list[_Part]] = [[] for _ in room]
    able = {s: [k for k in range(len(room)) if least[place[s], k] <= target] for s in range(len(counts))}
    for s in sorted(able, key=lambda s: (len(able[s]), s)):
        first = 0
        for k in sorted(able[s], key=lambda k: (least[place[s], k], k)):
            size = min(room[k], counts[s] - first)
            if size > 0:
                found[k].append((s, range(first, first + size)))
                first, room[k] = first + size, room[k] - size
        if first < counts[s]:
            return None
    return [sorted(parts, key=lambda part: (part[0], part[1].start)) for parts in found]


def _tiled(instance: CountedInstance, parts: Sequence[_Part], a: int, room: int, *, replicas_first: bool) -> list[int]:
    """Numbers of the replicas of some stages, tile after tile; what fills no tile comes last.

    With ``replicas_first`` tiles of the same stages follow each other, else tiles of the same replicas.
    """
    offset = np.concatenate(([0], np.cumsum(instance.problem.counts))).tolist()
    tiles: list[tuple[tuple[int, int], list[int]]] = []
    rest: list[int] = []
    for first in range(0, len(parts), a):
        together = parts[first : first + a]
        b = max(1, room // len(together))
        longest = max(len(replicas) for _, replicas in together)
        for start in range(0, longest, b):
            cells = [offset[s] + r for s, replicas in together for r in replicas[start : start + b]]
            if len(cells) == len(together) * b:
                tiles.append(((first, start) if replicas_first else (start, first), cells))
            else:
                rest += cells
    return [number for _, cells in sorted(tiles) for number in cells] + rest
