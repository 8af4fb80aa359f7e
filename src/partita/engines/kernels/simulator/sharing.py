"""Links that are shared: the rates of all that is being moved, fair by the max-min rule.

Source: Bertsekas & Gallager, "Data Networks" (2nd ed., 1992), §6.5.2: progressive filling. The rates of all grow alike
until a link is full; who uses it keeps the rate, the others go on. Only what is connected with a change through links
and what moves over them is filled again. Rates that differ by rounding alone are taken to be equal: what is symmetric
then ends at the same instant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, zeros
from partita.engines.kernels.compiled import inlined
from partita.engines.kernels.rows import row_of
from partita.engines.kernels.simulator.queues import Queue, empty_queue, put, take
from partita.ground.rounding import SUMMED_FEW


class Sharing(NamedTuple):
    """What is being moved over l links by n tasks, which name links at u places."""

    capacity: Floats  #: (l,) Amount per unit of time.
    #: (n + 1,) and (u,) The links of task i are ``used[offsets[i]:offsets[i + 1]]``.
    offsets: Longs
    used: Longs
    user: Ints  #: (u,) Which task names a link at a place.
    #: (l,), (u,) and (u,) The places of those who now move something over a link, a list linked in both directions.
    head: Ints
    following: Ints
    preceding: Ints
    #: (n,) What was left to move at a time, and the rate since then; 0 before it has its first rate.
    amount: Floats
    since: Floats
    rate: Floats
    filled: Floats  #: (n,) The rate that is being worked out: −1 for who has no part in it, 0 before it is known.
    #: (n,), (l,) and (l,) Tasks and links that have a part in it, and whether a link is among them.
    part: Ints
    links: Ints
    listed: Ints
    #: (l,) Capacity left and tasks without a rate, while rates are worked out.
    room: Floats
    users: Ints
    levels: Queue  #: Queue of links by the rate at which they are full.
    touched: Longs  #: (1,) How many of ``links`` have seen a task come or go since rates were worked out.


def nothing_moved(capacity: Floats, offsets: Longs, used: Longs, amount: Floats) -> Sharing:
    """Links over which nothing is moved yet; see ``TaskGraph`` for the arrays."""
    # Without amounts nobody reads what there would be for each task.
    tasks, places, links = len(amount) if amount.any() else 0, len(used), len(capacity)
    user = np.repeat(np.arange(len(amount), dtype=np.int32), np.diff(offsets))
    return zeros(
        Sharing,
        ("following preceding", places),
        ("since rate part", tasks),
        ("links listed room users", links),
        ("touched", 1),
        capacity=capacity,
        offsets=offsets,
        used=used,
        user=user,
        head=np.full(links, -1, np.int32),
        amount=amount[:tasks].copy(),
        filled=np.full(tasks, -1.0),
        levels=empty_queue(np.zeros(links)),
    )


@inlined
def _touch(s: Sharing, link: int) -> None:
    if not s.listed[link]:
        s.listed[link] = 1
        s.links[s.touched[0]] = link
        s.touched[0] += 1


@inlined
def come(s: Sharing, task: int) -> None:
    """A task begins to move its amount; it has no rate yet."""
    for p in range(s.offsets[task], s.offsets[task + 1]):
        link = s.used[p]
        first = s.head[link]
        s.preceding[p] = -1
        s.following[p] = first
        if first >= 0:
            s.preceding[first] = p
        s.head[link] = p
        _touch(s, link)


@inlined
def go(s: Sharing, task: int) -> None:
    """A task has moved its amount."""
    for p in range(s.offsets[task], s.offsets[task + 1]):
        link, before, after = s.used[p], s.preceding[p], s.following[p]
        if before >= 0:
            s.following[before] = after
        else:
            s.head[link] = after
        if after >= 0:
            s.preceding[after] = before
        _touch(s, link)


@inlined
def _gather(s: Sharing) -> int:
    """List all that is connected with the links touched, the links with their levels; how many tasks these are."""
    tasks, at = 0, 0
    while at < s.touched[0]:
        link, users = s.links[at], 0
        p = s.head[link]
        while p >= 0:
            users += 1
            task = s.user[p]
            if s.filled[task] < 0.0:
                s.filled[task] = 0.0
                s.part[tasks] = task
                tasks += 1
                for u in row_of(s.offsets, s.used, task):
                    _touch(s, u)
            p = s.following[p]
        s.room[link] = s.capacity[link]
        s.users[link] = users
        if users > 0:
            put(s.levels, link, s.capacity[link] / users)
        at += 1
    return tasks


@inlined
def _fill(s: Sharing) -> None:
    """Work out the rates of those who are listed: again and again of those on the link that is full first."""
    level = 0.0
    while s.levels.size[0] > 0:
        link = take(s.levels)
        # Levels only rise; below the last one they are by rounding.
        if s.levels.key[link] > level * (1.0 + SUMMED_FEW):
            level = s.levels.key[link]
        p = s.head[link]
        while p >= 0:
            task = s.user[p]
            if s.filled[task] == 0.0:
                s.filled[task] = level
                for other in row_of(s.offsets, s.used, task):
                    if other != link:
                        s.room[other] -= level
                        s.users[other] -= 1
                        share = s.room[other] / s.users[other] if s.users[other] > 0 else np.inf
                        put(s.levels, other, share)
            p = s.following[p]


@inlined
def share(s: Sharing, now: float, ends: Queue) -> None:
    """Work out the rates that changed by who came and went, and put off or bring forward the ends in the queue."""
    tasks = _gather(s)
    _fill(s)
    for k in range(tasks):
        task = s.part[k]
        old, new = s.rate[task], s.filled[task]
        s.filled[task] = -1.0
        # An end is worked out anew only if it moves: it would drift by rounding.
        if abs(new - old) > SUMMED_FEW * old:
            s.amount[task] = max(0.0, s.amount[task] - old * (now - s.since[task]))
            s.since[task] = now
            s.rate[task] = new
            put(ends, task, now + s.amount[task] / new)
    for k in range(s.touched[0]):
        s.listed[s.links[k]] = 0
    s.touched[0] = 0
