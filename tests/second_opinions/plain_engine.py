"""What the engine of the simulator must do, as plainly as it can be said: slow, and independent of it.

All arithmetic is that of the numbers given, so that with fractions everything is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partita.simulator.engine import TaskGraph, Times

Number = float | Fraction


class PlainTimes(NamedTuple):
    """When every task starts and ends, and the task whose end let it start, −1 for none."""

    start: list[Number]
    end: list[Number]
    cause: list[int]


def graph_of(
    duration: Sequence[float],
    *,
    amount: Sequence[float] | None = None,
    release: Sequence[float] | None = None,
    priority: Sequence[float] | None = None,
    edges: Sequence[tuple[int, int]] = (),
    held: Sequence[Sequence[int]] | None = None,
    used: Sequence[Sequence[int]] | None = None,
    things: int = 0,
    capacity: Sequence[float] = (),
) -> TaskGraph:
    """A graph from plain lists; what is left out is zero or nothing."""
    n = len(duration)

    def floats(values: Sequence[float] | None) -> Any:
        return np.array(np.zeros(n) if values is None else values, np.float64)

    def flat(members: Sequence[Sequence[int]] | None) -> tuple[Any, Any]:
        rows = [[]] * n if members is None else members
        offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
        return offsets, np.array([x for row in rows for x in row], np.int64)

    before, after = np.array(edges, np.int64).reshape(-1, 2).T
    return TaskGraph(
        floats(duration), floats(amount), floats(release), floats(priority), before, after,
        *flat(held), *flat(used), things, np.array(capacity, np.float64),
    )  # fmt: skip


def lists(offsets: np.ndarray, members: np.ndarray) -> list[list[int]]:
    """The members of each task."""
    return [members[a:b].tolist() for a, b in pairwise(offsets.tolist())]


def fair_rates(users: dict[int, list[int]], capacity: list[Number]) -> dict[int, Number]:
    """Max-min fair rates of tasks by the links that each uses: fill, fix those on the fullest link, and again."""
    rates: dict[int, Number] = {}
    while len(rates) < len(users):
        shares = []
        for link, limit in enumerate(capacity):
            here = [task for task in users if link in users[task]]
            still = [task for task in here if task not in rates]
            if still:
                shares.append(((limit - sum(rates[task] for task in here if task in rates)) / len(still), still))
        share, still = min(shares, key=lambda entry: entry[0])
        rates |= dict.fromkeys(still, share)
    return rates


def plain_run(graph: TaskGraph, exact: bool = False) -> PlainTimes:
    """Run a graph: in every round look at every task, in every instant work out every rate; ``exact`` in fractions."""
    kind = Fraction if exact else float
    duration, amount, release, priority = (
        [kind(x) for x in array.tolist()] for array in (graph.duration, graph.amount, graph.release, graph.priority)
    )
    capacity = [kind(x) for x in graph.capacity.tolist()]
    held, used = lists(graph.held_offsets, graph.held), lists(graph.used_offsets, graph.used)
    n = graph.count
    waits: list[set[int]] = [set() for _ in range(n)]
    for a, b in zip(graph.before.tolist(), graph.after.tolist(), strict=True):
        waits[b].add(a)
    start: list[Number | None] = [None] * n
    end: list[Number | None] = [None] * n
    cause, left = [-1] * n, list(amount)
    ends: list[int] = []  # in the order in which they are processed
    holder: dict[int, int] = {}
    moving: dict[int, list[int]] = {}
    lasting: set[int] = set()
    now = kind(0)

    def became_ready(i: int) -> Number:
        return max([release[i], *(end[j] for j in waits[i])])

    while True:
        # Hand out.
        ready = [i for i in range(n) if start[i] is None and all(end[j] is not None for j in waits[i])]
        for i in sorted((i for i in ready if release[i] <= now), key=lambda i: (priority[i], became_ready(i), i)):
            if any(thing in holder for thing in held[i]):
                continue
            holder |= dict.fromkeys(held[i], i)
            start[i] = now
            lasting.add(i)
            if became_ready(i) < now:
                freed = [j for j in ends if end[j] == now and set(held[j]) & set(held[i])]
                cause[i] = freed[-1]
            elif waits[i] and max(end[j] for j in waits[i]) == now:
                cause[i] = [j for j in ends if j in waits[i]][-1]
        # What comes next, and when.
        rates = fair_rates(moving, capacity)
        coming: dict[int, Number] = {i: start[i] + duration[i] for i in lasting}
        coming |= {i: now + left[i] / rates[i] for i in moving}
        coming |= {i: release[i] for i in ready if release[i] > now}
        if not coming:
            return PlainTimes(start, end, cause)
        then = min(coming.values())
        for i in moving:
            left[i] = max(kind(0), left[i] - rates[i] * (then - now))
        now = then
        for i in sorted(i for i in coming if coming[i] == now and start[i] is not None):
            if i in lasting and amount[i] > 0:
                lasting.remove(i)
                moving[i] = used[i]
                continue
            lasting.discard(i)
            moving.pop(i, None)
            end[i] = now
            ends.append(i)
            for thing in held[i]:
                del holder[thing]


def moved_at_most(graph: TaskGraph, times: Times) -> list[tuple[float, float]]:
    """Of every link what was moved over it, and what it could have moved while somebody moved something."""
    used = lists(graph.used_offsets, graph.used)
    result = []
    for link, limit in enumerate(graph.capacity.tolist()):
        users = [i for i in range(graph.count) if link in used[i] and graph.amount[i] > 0]
        spans = [(float(times.start[i] + graph.duration[i]), float(times.end[i])) for i in users]
        result.append((float(sum(graph.amount[i] for i in users)), limit * covered(spans)))
    return result


def covered(spans: list[tuple[float, float]]) -> float:
    """How long any of these spans of time lasts."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
