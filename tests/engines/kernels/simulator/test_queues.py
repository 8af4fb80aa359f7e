"""Queues, piles and shared links, against sorted lists and rates filled link by link."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples
from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.simulator.queues import (
    Pile,
    Queue,
    empty_queue,
    goes_first,
    pile_of,
    put,
    take,
    with_task,
    without_first,
)
from partita.engines.kernels.simulator.sharing import Sharing, come, go, nothing_moved, share

COUNT = 16
#: Take the first one, when a step of a queue names nobody.
TAKE = -1


@compiled
def queue_up(q: Queue, who: Longs, key: np.ndarray, taken: Longs) -> int:
    """Put in who is named, with a key; take out the first where nobody is named and someone is there."""
    count = 0
    for step in range(who.shape[0]):
        if who[step] >= 0:
            put(q, who[step], key[step])
        elif q.size[0] > 0:
            taken[count] = take(q)
            count += 1
    return count


STEPS = st.lists(
    st.tuples(st.one_of(st.just(TAKE), *[st.integers(0, COUNT - 1)] * 2), st.integers(0, 9)), min_size=10, max_size=80
)


@examples(200)
@given(STEPS)
def test_a_queue_gives_the_least_key_first(steps: list[tuple[int, int]]) -> None:
    waiting: dict[int, int] = {}
    wanted = []
    for who, key in steps:
        if who != TAKE:
            waiting[who] = key
        elif waiting:
            first = min(waiting, key=lambda v: (waiting[v], v))
            wanted.append(first)
            del waiting[first]
    q, taken = empty_queue(np.zeros(COUNT)), np.full(len(steps), -9)
    who, key = np.array([w for w, _ in steps], np.int64), np.array([k for _, k in steps], np.float64)
    assert queue_up(q, who, key, taken) == len(wanted)
    assert taken[: len(wanted)].tolist() == wanted
    assert q.size[0] == len(waiting)
    assert {v for v in range(COUNT) if q.place[v] >= 0} == set(waiting)
    assert all(q.members[q.place[v]] == v for v in waiting)
    rest = np.full(COUNT, TAKE)
    assert queue_up(q, rest, np.zeros(COUNT), taken := rest.copy()) == len(waiting)
    assert taken[: len(waiting)].tolist() == sorted(waiting, key=lambda v: (waiting[v], v))


@compiled
def piled(p: Pile, tasks: Ints, count: int, more: Ints, order: Ints) -> int:
    """A pile of some tasks at once and more one by one; then all of it, first ones first."""
    top, found = pile_of(p, tasks, count), 0
    for v in more:
        top = with_task(p, top, v)
    while top >= 0:
        order[found] = top
        found += 1
        top = without_first(p, top)
    return found


@compiled
def compare(p: Pile, before: Ints) -> None:
    """Which task goes before which."""
    for a in range(before.shape[0]):
        for b in range(before.shape[0]):
            before[a, b] = goes_first(p, a, b)


@given(
    st.permutations(range(COUNT)),
    st.integers(0, COUNT),
    st.lists(st.tuples(*[st.integers(0, 2)] * 2), min_size=COUNT, max_size=COUNT),
)
def test_a_pile_is_sorted(order: list[int], at_once: int, keys: list[tuple[int, int]]) -> None:
    priority, ready = (np.array(column, np.float64) for column in zip(*keys, strict=True))
    pile = Pile(priority, ready, np.full(COUNT, 7, np.int32), np.full(COUNT, 7, np.int32))
    found, tasks = np.empty(COUNT, np.int32), np.array(order, np.int32)
    assert piled(pile, tasks[:at_once].copy(), at_once, tasks[at_once:].copy(), found) == COUNT
    assert found.tolist() == sorted(range(COUNT), key=lambda v: (*keys[v], v))
    before = np.zeros((COUNT, COUNT), np.int32)
    compare(pile, before)
    assert before.tolist() == [[(*keys[a], a) < (*keys[b], b) for b in range(COUNT)] for a in range(COUNT)]


@compiled
def moved(s: Sharing, coming: Longs, going: Longs, now: float, ends: Queue) -> None:
    for task in coming:
        come(s, task)
    for task in going:
        go(s, task)
    share(s, now, ends)


def fair(capacity: list[int], used: list[list[int]], active: set[int]) -> dict[int, Fraction]:
    """Rates that grow alike until a link is full: who uses it keeps the rate."""
    rate: dict[int, Fraction] = {}
    while len(rate) < len(active):
        level = {}
        for link, size in enumerate(capacity):
            users = [task for task in active if link in used[task]]
            open_ = [task for task in users if task not in rate]
            if open_:
                level[link] = (size - sum(rate[task] for task in users if task in rate)) / Fraction(len(open_))
        full = min(level.values())
        for link in [link for link, value in level.items() if value == full]:
            rate |= {task: full for task in active if link in used[task] and task not in rate}
    return rate


@given(st.data())
def test_links_are_shared_fairly(data: st.DataObject) -> None:
    links, tasks = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    capacity = [data.draw(st.integers(1, 9)) for _ in range(links)]
    used = [data.draw(st.lists(st.integers(0, links - 1), min_size=1, unique=True)) for _ in range(tasks)]
    amount = [Fraction(data.draw(st.integers(50, 90))) for _ in range(tasks)]
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in used]))).astype(np.int64)
    flat = np.array([link for row in used for link in row], np.int64)
    s = nothing_moved(np.array(capacity, np.float64), offsets, flat, np.array(amount, np.float64))
    ends, active, rate = empty_queue(np.zeros(tasks)), set[int](), dict[int, Fraction]()
    for now in range(4):
        for task, speed in rate.items():
            amount[task] -= speed
        coming = [task for task in range(tasks) if task not in active and data.draw(st.booleans())]
        going = [task for task in sorted(active) if data.draw(st.booleans())]
        moved(s, np.array(coming, np.int64), np.array(going, np.int64), float(now), ends)
        active = active - set(going) | set(coming)
        rate = fair(capacity, used, active)
        assert s.touched[0] == 0
        assert not s.listed.any()
        for task in active:
            assert s.rate[task] == pytest.approx(float(rate[task]))
            assert ends.key[task] == pytest.approx(float(now + amount[task] / rate[task]))
            assert ends.place[task] >= 0
        for task in going:
            amount[task] = Fraction(60)
            s.amount[task], s.rate[task] = 60.0, 0.0


def test_without_amounts_there_is_room_for_nobody() -> None:
    s = nothing_moved(np.ones(2), np.array([0, 1, 2]), np.array([0, 1]), np.zeros(2))
    assert s.amount.shape == s.rate.shape == s.part.shape == (0,)
    assert s.user.tolist() == [0, 1]
