"""All sets of items within a load that carry more than a floor, along an order of the items that few nets cross.

The states, prices and outlooks are those of ``narrow_sets``, which keeps the richest of the sets that end alike. Here
none stands for another: a path goes only when it cannot come to carry more than the floor, so that all that are left at
the end are sets, each once.
"""

from __future__ import annotations

from typing import NamedTuple

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.throughput.narrow_sets import NarrowStates, Outlooks, steps_within


class PathRoom(NamedTuple):
    """Room for paths: ``parent`` and ``taken`` (L,) of all; ``state``, ``load`` and ``charge`` (2, L') of one place."""

    parent: Ints
    taken: Bools
    state: Ints
    load: Floats
    charge: Floats


@compiled
def list_paths(
    a: NarrowStates,
    charge: Floats,
    limit: float,
    floor: float,
    prices: Floats,
    ahead: Floats,
    out: Outlooks,
    room: PathRoom,
    places: tuple[int, int],
    begin: int,
    end: int,
) -> tuple[int, int]:
    """Lead all paths past the items from the first of two ``places`` to the second; where the new ones begin and end.

    Arguments are those of ``richest_labels`` there. The end is -1 where the room is too small.
    """
    # Sums of the same numbers in another order may differ.
    spare = limit * (1.0 + 1e-12)
    if places[0] == 0:
        room.state[0, 0], room.load[0, 0], room.charge[0, 0], room.parent[0] = 0, 0.0, 0.0, -1
        begin, end = 0, 1
    for i in range(places[0], places[1]):
        here, there = i % 2, (i + 1) % 2
        start, after, count = a.ptr[i], a.ptr[i + 1], 0
        for path in range(end - begin):
            s = start + room.state[here, path]
            for choice in range(2):
                load = room.load[here, path] + a.paid[s, choice]
                carried = room.charge[here, path] + a.extra[s, choice]
                if choice == 1:
                    load += a.work[i]
                    carried += charge[i]
                if load > limit:
                    continue
                t = after + a.into[s, choice]
                step = steps_within(out, t, spare - load)
                if step == 0:
                    continue
                hope = out.charge[out.begin[t] + step - 1]
                for p in range(prices.shape[0]):
                    hope = min(hope, ahead[p, t] + prices[p] * (limit - load))
                if carried + hope <= floor:
                    continue
                if count == room.load.shape[1] or end + count == room.parent.shape[0]:
                    return 0, -1
                room.state[there, count], room.load[there, count] = a.into[s, choice], load
                room.charge[there, count] = carried
                room.parent[end + count], room.taken[end + count] = begin + path, choice == 1
                count += 1
        begin, end = end, end + count
        if count == 0:
            break
    return begin, end


@compiled
def sets_of_paths(room: PathRoom, begin: int, end: int, chosen: Bools) -> None:
    """Fill ``chosen`` (paths, n) with the sets of the last paths."""
    n = chosen.shape[1]
    for row in range(end - begin):
        path = begin + row
        for i in range(n - 1, -1, -1):
            chosen[row, i] = room.taken[path]
            path = room.parent[path]
