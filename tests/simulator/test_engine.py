"""The engine against plain implementations, its promises on random graphs, and cases by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from partita.simulator.engine import TaskGraph, Times, run
from second_opinions.plain_engine import covered, graph_of, lists, moved_at_most, plain_run

#: How many random graphs of each kind are compared.
CHAINED, HOLDING, MOVING, EXACT = 500, 700, 500, 300


def random_graph(rng: np.random.Generator, holding: bool, moving: bool, halves: bool) -> TaskGraph:
    """Up to 30 tasks in an order of their own, with edges, releases, priorities and zero durations.

    In halves there are many ties, and sums are exact; else numbers are such that only what must be equal is equal.
    """
    n = int(rng.integers(1, 31))

    def some(high: int, zeros: float) -> Any:
        values = rng.integers(1, 2 * high, n) / 2 if halves else rng.uniform(0.1, high, n)
        return np.where(rng.random(n) < zeros, 0.0, values)

    order, density = rng.permutation(n), rng.choice([0.0, 0.05, 0.15])
    edges = [(order[i], order[j]) for j in range(n) for i in range(j) if rng.random() < density]
    things, links = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    most_held, most_used = min(things, 3), min(links, 3)
    used = [rng.permutation(links)[: rng.integers(1, most_used + 1)] for _ in range(n)]
    return graph_of(
        some(4, rng.choice([0.0, 0.3])),
        amount=some(6, 0.3) if moving else None,
        release=some(8, rng.choice([0.3, 1.0])),
        priority=rng.integers(-2, 3, n),
        edges=edges,
        held=[rng.permutation(things)[: rng.integers(0, most_held + 1)] for _ in range(n)] if holding else None,
        used=used if moving else None,
        things=things,
        capacity=rng.integers(1, 5, links) / 2 if halves else rng.uniform(0.5, 2.0, links),
    )


def random_graphs(kind: int, count: int, **choices: bool) -> Iterator[TaskGraph]:
    """Always the same graphs of a kind."""
    for seed in range(count):
        yield random_graph(np.random.default_rng([kind, seed]), **choices)


def holding_graphs() -> Iterator[TaskGraph]:
    """Tasks that hold things and move nothing, with many ties."""
    return random_graphs(2, HOLDING, holding=True, moving=False, halves=True)


def moving_graphs() -> Iterator[TaskGraph]:
    """Tasks that hold things and move amounts, without accidental ties."""
    return random_graphs(3, MOVING, holding=True, moving=True, halves=False)


def ready_times(graph: TaskGraph, times: Times) -> np.ndarray:
    """When each task's release and all ends that it waits for were over."""
    ready = graph.release.copy()
    np.maximum.at(ready, graph.after, times.end[graph.before])
    return ready


# --- against plain implementations


def test_precedence_alone_is_the_longest_path() -> None:
    """Ends are the longest sums of durations from a release; order of the additions as in the engine."""
    compared = 0
    for graph in random_graphs(1, CHAINED, holding=False, moving=False, halves=False):
        start, end = graph.release.copy(), graph.release + graph.duration
        for _ in range(graph.count):  # as often as the longest path has tasks, at most
            np.maximum.at(start, graph.after, end[graph.before])
            end = start + graph.duration
        times = run(graph)
        assert (times.start == start).all()
        assert (times.end == end).all()
        compared += 1
    assert compared == CHAINED


def test_held_things_are_handed_out_as_the_definition_says() -> None:
    """Times and causes equal those of the plain engine exactly."""
    compared = waited = 0
    for graph in holding_graphs():
        times, plain = run(graph), plain_run(graph)
        assert times.start.tolist() == plain.start
        assert times.end.tolist() == plain.end
        assert times.cause.tolist() == plain.cause
        compared += 1
        waited += int((times.start > ready_times(graph, times)).any())
    assert compared == HOLDING
    assert waited > 500


def test_shared_links_are_as_fast_as_the_definition_says() -> None:
    """Together with held things; times up to rounding, causes equal."""
    compared = 0
    for graph in moving_graphs():
        times, plain = run(graph), plain_run(graph)
        np.testing.assert_allclose(times.start, plain.start, rtol=1e-9)
        np.testing.assert_allclose(times.end, plain.end, rtol=1e-9)
        assert times.cause.tolist() == plain.cause
        compared += 1
    assert compared == MOVING


def test_shared_links_with_ties_are_right_in_exact_arithmetic() -> None:
    """Many equal amounts, capacities and times; the plain engine counts in fractions."""
    compared = 0
    for graph in random_graphs(4, EXACT, holding=False, moving=True, halves=True):
        times, plain = run(graph), plain_run(graph, exact=True)
        np.testing.assert_allclose(times.start, np.array(plain.start, float), rtol=1e-9)
        np.testing.assert_allclose(times.end, np.array(plain.end, float), rtol=1e-9)
        compared += 1
    assert compared == EXACT


# --- promises


def check_promises(graph: TaskGraph) -> None:
    """Of any run of any graph."""
    times = run(graph)
    ready, start, end = ready_times(graph, times), times.start, times.end
    held = lists(graph.held_offsets, graph.held)
    # Nobody starts too early, ends before its duration, or overlaps on a thing.
    assert (start >= ready).all()
    assert (end >= start + graph.duration).all()
    spans: list[list[tuple[float, float]]] = [[] for _ in range(graph.things)]
    for task, things in enumerate(held):
        for thing in things:
            spans[thing].append((start[task], end[task]))
    for one in spans:
        one.sort()
        assert all(one[k][1] <= one[k + 1][0] for k in range(len(one) - 1))
    # While a task waits that is ready, something that it wants is held.
    for task in np.flatnonzero(start > ready).tolist():
        wait = ready[task], start[task]
        clipped = [(max(a, wait[0]), min(b, wait[1])) for thing in held[task] for a, b in spans[thing]]
        assert covered([(a, b) for a, b in clipped if a < b]) == pytest.approx(wait[1] - wait[0], rel=1e-12)
    # Causes end when what they caused starts, and are what was waited for.
    caused = times.cause >= 0
    assert (end[times.cause[caused]] == start[caused]).all()
    assert (start[~caused] == np.where(ready > graph.release, np.inf, graph.release)[~caused]).all()
    edges = set(zip(graph.before.tolist(), graph.after.tolist(), strict=True))
    for task in np.flatnonzero(caused).tolist():
        cause = int(times.cause[task])
        shared = set(held[cause]) & set(held[task])
        assert (cause, task) in edges if start[task] == ready[task] else shared
    # Nothing is moved faster than its links can.
    for moved, most in moved_at_most(graph, times):
        assert moved <= most * (1 + 1e-9)
    # The same again, to the byte.
    again = run(graph)
    for first, second in zip(dataclasses.astuple(times), dataclasses.astuple(again), strict=True):
        assert first.tobytes() == second.tobytes()


def test_promises_hold_where_things_are_held() -> None:
    """On the graphs with many ties."""
    for graph in holding_graphs():
        check_promises(graph)


def test_promises_hold_where_links_are_shared() -> None:
    """On the graphs without."""
    for graph in moving_graphs():
        check_promises(graph)


def test_a_lone_link_is_full_as_long_as_it_is_used() -> None:
    """Work is conserved: what was moved over it is its capacity times the time at which somebody moved something."""
    for seed in range(100):
        rng = np.random.default_rng([5, seed])
        n = int(rng.integers(1, 40))
        capacity, release, amount = rng.uniform(0.1, 9.0), rng.uniform(0, 20, n), rng.uniform(0.1, 5, n)
        graph = graph_of(np.zeros(n), amount=amount, release=release, used=[[0]] * n, capacity=[capacity])
        ((moved, most),) = moved_at_most(graph, run(graph))
        assert moved == pytest.approx(most, rel=1e-9)


def test_a_long_queue_takes_no_longer_than_its_tasks() -> None:
    """200,000 tasks wait for one thing, the last numbers first; looking at all each time would be endless."""
    n = 200_000
    times = run(graph_of(np.ones(n), priority=-np.arange(n), held=[[0]] * n, things=1))
    assert (times.start == np.arange(n)[::-1]).all()
    assert (times.cause == np.append(np.arange(1, n), -1)).all()


def test_a_long_queue_for_several_things_takes_no_longer_than_its_tasks() -> None:
    """60,000 tasks want two of four things each; all are ready from the beginning, and at most two run at once."""
    n, pairs = 60_000, np.array([[0, 1], [2, 1], [2, 3], [3, 0], [0, 2], [1, 3], [1, 0]])
    kind = np.arange(n) % 7
    graph = graph_of(np.ones(n), priority=(np.arange(n) * 7919) % n, held=pairs[kind], things=4)
    times = run(graph)
    for thing in range(4):
        starts = np.sort(times.start[(pairs[kind] == thing).any(axis=1)])
        assert (np.diff(starts) >= 1).all()
    # Tasks that want the same run in the order of their priorities, however they name it.
    for same in ((0, 6), (1,), (2,), (3,), (4,), (5,)):
        members = np.flatnonzero(np.isin(kind, same))
        assert (np.diff(times.start[members[np.argsort(graph.priority[members])]]) > 0).all()


# --- by hand


def test_two_equal_flows_on_one_link_take_twice_as_long() -> None:
    """Each moves 6 over a link of 3 with a rate of 3 / 2: 4 instead of 2."""
    alone = run(graph_of([0], amount=[6], used=[[0]], capacity=[3]))
    both = run(graph_of([0, 0], amount=[6, 6], used=[[0], [0]], capacity=[3]))
    assert alone.end.tolist() == [2]
    assert both.end.tolist() == [4, 4]


def test_three_flows_over_two_links_are_fair() -> None:
    """Task 0 goes over both links, 1 over the first (of 2) and 2 over the second (of 5)."""
    graph = graph_of([0, 0, 0], amount=[4, 4, 12], used=[[0, 1], [0], [1]], capacity=[2, 5])
    # The first link is full when all rates are 1; task 2 has the rest of the second: 5 − 1 = 4. It ends at 12 / 4 = 3,
    # the others at 4 / 1 = 4: nothing changes for them when it goes.
    assert run(graph).end.tolist() == [4, 4, 3]


def test_a_flow_that_comes_later_slows_the_first_down() -> None:
    """Task 0 moves 8 over a link of 2, alone until 2; task 1 lasts until 2 and then moves 2."""
    graph = graph_of([0, 2], amount=[8, 2], used=[[0], [0]], capacity=[2])
    # At 2 task 0 has moved 4, half. Both have a rate of 1: task 1 ends at 2 + 2 / 1 = 4, when task 0 has 2 left, which
    # take 2 / 2 = 1 more.
    assert run(graph).end.tolist() == [5, 4]


def test_ends_do_not_drift() -> None:
    """A rate that stays as it is keeps its end, however often it was worked out: that is 0.7 / 0.1, to the last bit."""
    others = 50
    # The others' link is large enough: task 0 has all of its own, 0.1, whoever comes and goes.
    apart = graph_of(
        np.zeros(1 + others),
        amount=[0.7] + [0.01] * others,
        release=[0.0, *np.linspace(0.1, 6, others)],
        used=[[0, 1]] + [[1]] * others,
        capacity=[0.1, 10.0],
    )
    assert run(apart).end[0] == 0.7 / 0.1
    # On one link with a chain of others there is always one of them: when one ends, the next begins.
    chain = graph_of(
        np.zeros(101),
        amount=[0.7] + [0.01] * 100,
        edges=[(k, k + 1) for k in range(1, 100)],
        used=[[0]] * 101,
        capacity=[0.2],
    )
    assert run(chain).end[0] == 0.7 / 0.1


def test_smaller_priority_then_earlier_then_smaller_number_goes_first() -> None:
    """One thing, held by task 0 until 5; tasks 1 to 5 wait for it."""
    graph = graph_of(
        [5, 1, 1, 1, 1, 1],
        release=[0, 3, 2, 4, 1, 1],
        priority=[0, 1, 1, 0, 1, 1],
        held=[[0]] * 6,
        things=1,
    )
    # Task 3 by its priority at 5, then 4 and 5 (ready at 1), 2 (at 2) and 1 (at 3).
    times = run(graph)
    assert times.start.tolist() == [0, 9, 8, 5, 6, 7]
    assert times.cause.tolist() == [-1, 2, 5, 0, 3, 4]


def test_who_waits_does_not_keep_others_from_what_is_free() -> None:
    """Task 1 wants things 0 and 1 before all others, but 0 is held until 4: task 2 has 1 meanwhile, and longer."""
    graph = graph_of([4, 1, 6], priority=[0, -1, 0], release=[0, 1, 2], held=[[0], [0, 1], [1]], things=2)
    times = run(graph)
    assert times.start.tolist() == [0, 8, 2]
    assert times.cause.tolist() == [-1, 2, -1]


def test_what_ends_at_once_makes_room_within_the_instant() -> None:
    """Tasks of no duration on one thing run all at 0, one round after the other, and a wait for 0 waits for one."""
    graph = graph_of([0, 0, 0, 2], priority=[2, 1, 0, 3], held=[[0]] * 4, things=1)
    times = run(graph)
    assert times.start.tolist() == [0, 0, 0, 0]
    assert times.end.tolist() == [0, 0, 0, 2]


def test_a_release_is_no_cause() -> None:
    """Task 1 waits for task 0, which ends at 1, and for its release at 2; task 2 is released when task 0 ends."""
    graph = graph_of([1, 1, 1], release=[0, 2, 1], edges=[(0, 1), (0, 2)])
    times = run(graph)
    assert times.start.tolist() == [0, 2, 1]
    assert times.cause.tolist() == [-1, -1, 0]


def test_no_tasks_take_no_time() -> None:
    """Empty arrays of all."""
    times = run(graph_of([]))
    assert len(times.start) == len(times.end) == len(times.cause) == 0
