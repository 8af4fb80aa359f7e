"""The two kinds of heaps of the simulator: a queue by time whose keys can change, and piles of waiting tasks.

A queue is a binary heap that knows where each of its members stands. A pile is a skew heap: two of them melt into one
in amortised O(log n) (Sleator & Tarjan, "Self-adjusting heaps", SIAM Journal on Computing 15, 1986), and any number of
piles share the same two arrays, because a task lies in at most one of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import inlined


class Queue(NamedTuple):
    """Numbers below n, the one with the smallest (key, number) first."""

    key: Floats  #: (n,) Of a member what it is sorted by; of others whatever it was last.
    #: (n,) Binary heap, and where in it a number stands; −1 for who is no member.
    members: Ints
    place: Ints
    size: Longs  #: (1,) How many members there are.


def empty_queue(key: Floats) -> Queue:
    """A queue of those who have a key, none of them a member."""
    count = len(key)
    return Queue(key, np.empty(count, np.int32), np.full(count, -1, np.int32), np.zeros(1, np.int64))


@inlined
def _precedes(q: Queue, a: int, b: int) -> bool:
    return bool(q.key[a] < q.key[b] or (q.key[a] == q.key[b] and a < b))


@inlined
def _sink(q: Queue, at: int, v: int) -> None:
    """Put v where it belongs at or below a place that is free."""
    size = q.size[0]
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _precedes(q, q.members[down + 1], q.members[down]):
            down += 1
        w = q.members[down]
        if not _precedes(q, w, v):
            break
        q.members[at] = w
        q.place[w] = at
        at = down
    q.members[at] = v
    q.place[v] = at


@inlined
def put(q: Queue, v: int, key: float) -> None:
    """Take v in with this key, or give it this key if it is a member."""
    at = q.place[v]
    if at < 0:
        at = q.size[0]
        q.size[0] += 1
    q.key[v] = key
    while at > 0:
        up = (at - 1) >> 1
        w = q.members[up]
        if not _precedes(q, v, w):
            break
        q.members[at] = w
        q.place[w] = at
        at = up
    _sink(q, at, v)


@inlined
def take(q: Queue) -> int:
    """Remove the first of a queue that is not empty."""
    v = q.members[0]
    q.place[v] = -1
    q.size[0] -= 1
    if q.size[0] > 0:
        _sink(q, 0, q.members[q.size[0]])
    return int(v)


class Pile(NamedTuple):
    """Tasks in the order in which they are considered: by priority, time at which they became ready, and number.

    A pile is named by its first task, −1 for an empty one.
    """

    #: (n,) What they are sorted by.
    priority: Floats
    ready: Floats
    #: (n,) The two piles below a task.
    left: Ints
    right: Ints


@inlined
def goes_first(p: Pile, a: int, b: int) -> bool:
    """Whether a is considered before b."""
    if p.priority[a] != p.priority[b]:
        return bool(p.priority[a] < p.priority[b])
    if p.ready[a] != p.ready[b]:
        return bool(p.ready[a] < p.ready[b])
    return a < b


@inlined
def melt(p: Pile, a: int, b: int) -> int:
    """One pile of two."""
    if a < 0 or b < 0:
        return max(a, b)
    if goes_first(p, b, a):
        a, b = b, a
    top = a
    while True:
        # What is below a on the right melts with b and comes to the left: so the right side stays short on average.
        c = p.right[a]
        p.right[a] = p.left[a]
        if c < 0:
            p.left[a] = b
            return top
        if goes_first(p, b, c):
            b, c = c, b
        p.left[a] = c
        a = c


@inlined
def with_task(p: Pile, pile: int, v: int) -> int:
    """A pile and one task more, which lies in none of these piles."""
    p.left[v] = -1
    p.right[v] = -1
    return melt(p, pile, v)


@inlined
def pile_of(p: Pile, tasks: Ints, count: int) -> int:
    """The pile of the first so many tasks of a list, in linear time; the list is used up."""
    for k in range(count):
        p.left[tasks[k]] = -1
        p.right[tasks[k]] = -1
    while count > 1:
        for k in range(count >> 1):
            tasks[k] = melt(p, tasks[2 * k], tasks[2 * k + 1])
        if count & 1:
            tasks[count >> 1] = tasks[count - 1]
        count = (count + 1) >> 1
    return int(tasks[0]) if count > 0 else -1


@inlined
def without_first(p: Pile, pile: int) -> int:
    """A pile that is not empty but for its first task."""
    return melt(p, p.left[pile], p.right[pile])
