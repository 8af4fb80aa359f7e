"""Schedules of lists, and what is said of all schedules, against plain Python on small problems."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.kernel_arrays import NEVER, dags, values
from instances.strategies import examples, halves
from partita.engines.kernels.graph_arrays import graph_of, partition_of
from partita.engines.kernels.makespan.arrays import MakespanArrays, new_room
from partita.engines.kernels.makespan.lists import close_window, find_lags, open_window, schedule, schedule_part
from partita.engines.kernels.makespan.relaxations import cheapest_placement, find_labels, longest_chain, overfull

Edges = list[tuple[int, int]]


@st.composite
def makespans(
    draw: st.DrawFn, *, most: int = 5, barred: bool = False, queues: bool = False
) -> tuple[MakespanArrays, Edges]:
    """A few operators on up to three devices, edges with a flow or none; with ``queues`` one is beside all others."""
    n, edges = draw(dags(1, most))
    if queues and n > 2:
        edges = sorted(
            {*edges, *draw(st.sampled_from([[(v, n - 1) for v in range(n - 1)], [(0, v) for v in range(1, n)]]))}
        )
    devices = draw(st.integers(1, 3))
    flows = [draw(st.integers(0, 3)) > 0 for _ in edges]
    number = {
        edge: sum(flows[:place]) if flow else -1 for place, (edge, flow) in enumerate(zip(edges, flows, strict=True))
    }
    cost = np.stack(
        [np.stack([draw(values(devices)) for _ in range(devices)]) for _ in range(sum(flows))]
        or [np.zeros((devices, devices))]
    )
    cost[:, range(devices), range(devices)] = 0.0
    graph = graph_of(edges, n)
    time = np.stack([draw(values(devices, 0.0 if not barred else 0.5)) for _ in range(n)])
    for v in range(n if barred else 0):
        for d in range(1, devices):
            if draw(st.integers(0, 4)) == 0:
                time[v, d] = math.inf
    arrays = MakespanArrays(
        time=time,
        memory=draw(values(n, 0.0)),
        limit=np.full(devices, math.inf),
        cost=cost[: sum(flows)],
        graph=graph,
        in_flow=np.array([number[u, v] for v in range(n) for u in graph.before(v).tolist()], np.int32),
        out_flow=np.array([number[v, w] for v in range(n) for w in graph.after(v).tolist()], np.int32),
        group=partition_of(range(n), n),
        tail=np.zeros((n, devices)),
        serial=np.array([draw(st.booleans()) or queues for _ in range(3)]),
    )
    return arrays, edges


def gap(spans: list[tuple[float, float]], ready: float, length: float, insertion: bool) -> float:
    """The earliest time at which a row has room."""
    if not spans or max(end for _, end in spans) <= ready:
        return ready
    if not insertion:
        return max(end for _, end in spans)
    at = ready
    for start, end in sorted(spans):
        if end > ready and start < at + length:
            at = max(at, end)
    return at


class Plain:
    """A schedule: when operators and flows start and end, and what is taken on every row."""

    def __init__(self, a: MakespanArrays, device: list[int], order: list[int], insertion: bool) -> None:
        devices = a.time.shape[1]
        self.span: dict[int, tuple[float, float]] = {}
        self.flow: dict[int, tuple[float, float]] = {}
        rows: list[list[tuple[float, float]]] = [[] for _ in range(3 * devices)]
        for v in order:
            d, ready = device[v], 0.0
            places = range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1])
            for e in sorted(places, key=lambda e: self.span[int(a.graph.pred[e])][1]):
                u, f = int(a.graph.pred[e]), int(a.in_flow[e])
                begun = arrived = self.span[u][1]
                c = device[u]
                if f >= 0 and c != d:
                    length = float(a.cost[f, c, d])
                    links = [row for row, on in ((devices + c, a.serial[1]), (2 * devices + d, a.serial[2])) if on]
                    while True:
                        at = begun
                        for row in links:
                            at = gap(rows[row], at, length, insertion)
                        if at == begun:
                            break
                        begun = at
                    arrived = begun + length
                    for row in links:
                        rows[row].append((begun, arrived))
                if f >= 0:
                    self.flow[f] = begun, arrived
                ready = max(ready, arrived)
            length = float(a.time[v, d])
            if a.serial[0]:
                ready = gap(rows[d], ready, length, insertion)
                rows[d].append((ready, ready + length))
            self.span[v] = ready, ready + length
        self.end = max(end for _, end in self.span.values())


def topological(edges: Edges, n: int) -> list[list[int]]:
    rows = itertools.permutations(range(n))
    return [list(row) for row in rows if all(row.index(u) < row.index(v) for u, v in edges)]


def an_order(draw: Any, edges: Edges, n: int) -> list[int]:
    """Any topological order."""
    order: list[int] = []
    while len(order) < n:
        ready = [v for v in range(n) if v not in order and all(u in order for u, w in edges if w == v)]
        order.append(draw(st.sampled_from(ready)))
    return order


@examples(300)
@given(st.one_of(makespans(most=8), makespans(most=8, queues=True)), st.booleans(), st.data())
def test_a_list_becomes_a_schedule(made: tuple[MakespanArrays, Edges], insertion: bool, data: st.DataObject) -> None:
    a, edges = made
    n, devices = a.time.shape
    device = [data.draw(st.integers(0, devices - 1)) for _ in range(n)]
    order = an_order(data.draw, edges, n)
    wanted, room = Plain(a, device, order, insertion), new_room(a)
    arrays = np.array(device, np.int32), np.array(order, np.int32)
    assert schedule(a, *arrays, insertion, math.inf, room) == wanted.end
    assert [(room.start[v], room.end[v]) for v in range(n)] == [wanted.span[v] for v in range(n)]
    assert {f: (room.flow_start[f], room.flow_end[f]) for f in wanted.flow} == wanted.flow
    if wanted.end > 0:
        assert schedule(a, *arrays, insertion, wanted.end, room) == math.inf
        assert schedule(a, *arrays, insertion, np.nextafter(wanted.end, math.inf), room) == wanted.end


def queue(rows: list[tuple[float, float, float]]) -> float:
    """Of those released no earlier than r: r, and for any weight what here or there takes at least."""
    if len(rows) < 2:
        return 0.0
    best = 0.0
    for tenth, (r, _, _) in itertools.product(range(1, 10), rows):
        w = tenth / 10
        parts = [min(w * here, (1 - w) * there) for release, here, there in rows if release >= r]
        best = max(best, r + sum(parts) if r < math.inf else math.inf)
    return best


def plain_labels(a: MakespanArrays) -> tuple[np.ndarray, np.ndarray]:
    """Heads and tails from what chains and queues say, one operator after the other."""
    n, devices = a.time.shape
    head, tail = np.full((n, devices), math.inf), np.zeros((n, devices))
    for v in range(n):
        into = [(int(a.graph.pred[e]), int(a.in_flow[e])) for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1])]
        for d in range(devices):
            if a.time[v, d] == math.inf:
                continue
            chain, rows = 0.0, []
            for u, f in into:
                chain = max(chain, min(head[u, c] + (a.cost[f, c, d] if f >= 0 else 0.0) for c in range(devices)))
                others = [c for c in range(devices) if c != d and a.time[u, c] < math.inf]
                if f >= 0 and a.serial[0] and a.serial[2] and len(into) > 1:
                    there = min(
                        (sum(a.cost[g, c, d] for w, g in into if w == u and g >= 0) for c in others), default=math.inf
                    )
                    own = [head[u, d] - a.time[u, d]] if a.time[u, d] < math.inf else []
                    rows.append(
                        (u, (min([*own, *(head[u, c] for c in others)], default=math.inf), a.time[u, d], there))
                    )
            head[v, d] = max(chain, queue(list(dict(rows).values()))) + a.time[v, d]
    for v in reversed(range(n)):
        out = [(int(a.graph.succ[e]), int(a.out_flow[e])) for e in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1])]
        for d in range(devices):
            chain, rows = 0.0, []
            for w, f in out:
                able = [c for c in range(devices) if a.time[w, c] < math.inf]
                after = [(a.cost[f, d, c] if f >= 0 else 0.0) + a.time[w, c] + tail[w, c] for c in able]
                chain = max(chain, min(after))
                others = [c for c in able if c != d]
                if f >= 0 and a.serial[0] and a.serial[1] and len(out) > 1:
                    there = min(
                        (sum(a.cost[g, d, c] for x, g in out if x == w and g >= 0) for c in others), default=math.inf
                    )
                    own = [tail[w, d]] if d in able else []
                    release = min([*own, *(a.time[w, c] + tail[w, c] for c in others)], default=math.inf)
                    rows.append((w, (release, a.time[w, d], there)))
            tail[v, d] = max(chain, queue(list(dict(rows).values())))
    return head, tail


@examples(150)
@given(makespans(barred=True, queues=True))
def test_labels_are_below_all_schedules(made: tuple[MakespanArrays, Edges]) -> None:
    a, edges = made
    n, devices = a.time.shape
    head, tail = np.zeros((n, devices)), np.zeros((n, devices))
    find_labels(a, np.arange(n), a.time, head, tail)
    assert np.isinf(head).tolist() == np.isinf(a.time).tolist()
    wanted_head, wanted_tail = plain_labels(a)
    assert head == pytest.approx(wanted_head)
    assert tail == pytest.approx(wanted_tail)
    placements = itertools.product(range(devices), repeat=n)
    usable = [row for row in placements if all(a.time[v, d] < math.inf for v, d in enumerate(row))]
    for device in usable[:30]:
        for order in topological(edges, n)[:6]:
            found = Plain(a, list(device), order, True)
            for v in range(n):
                assert head[v, device[v]] <= found.span[v][1] * (1 + 1e-12)
                assert tail[v, device[v]] <= (found.end - found.span[v][1]) * (1 + 1e-12)


def test_labels_of_a_queue() -> None:
    """Three producers of 2 s, and a reader on their device: they run one by one, or send 6 s one by one."""
    a = MakespanArrays(
        time=np.full((4, 2), 2.0),
        memory=np.zeros(4),
        limit=np.full(2, math.inf),
        cost=np.full((3, 2, 2), 6.0) * (1 - np.eye(2)),
        graph=graph_of([(0, 3), (1, 3), (2, 3)], 4),
        in_flow=np.arange(3, dtype=np.int32),
        out_flow=np.arange(3, dtype=np.int32),
        group=partition_of(range(4), 4),
        tail=np.zeros((4, 2)),
        serial=np.ones(3, bool),
    )
    head, tail = np.zeros((4, 2)), np.zeros((4, 2))
    find_labels(a, np.arange(4), a.time, head, tail)
    # At the weight 0.7 each takes min(1.4, 1.8), at 0.8 min(1.6, 1.2).
    assert head[3].tolist() == pytest.approx([6.2, 6.2])
    assert head[:3].tolist() == [[2.0, 2.0]] * 3
    assert tail[:3].tolist() == [[2.0, 2.0]] * 3
    # Turned round, what follows the one that three read.
    back = a._replace(graph=a.graph.turned(), serial=np.array([True, True, False]))
    head, tail = np.zeros((4, 2)), np.zeros((4, 2))
    find_labels(back, np.array([3, 0, 1, 2]), a.time, head, tail)
    assert tail[3].tolist() == pytest.approx([4.2, 4.2])
    assert head[:3].tolist() == [[4.0, 4.0]] * 3


@examples(300)
@given(makespans(most=4, barred=True), st.data())
def test_the_cheapest_placement_of_a_forest(made: tuple[MakespanArrays, Edges], data: st.DataObject) -> None:
    a, _ = made
    n, devices = a.time.shape
    able = a.time < math.inf
    parent, flow = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    for v in range(n):
        into = list(range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]))
        if into and data.draw(st.integers(0, 4)) > 0:
            e = data.draw(st.sampled_from(into))
            parent[v], flow[v] = a.graph.pred[e], a.in_flow[e]
    through, along = (data.draw(values(n, 0.0, 1.0)) for _ in range(2))
    chain, weights = data.draw(halves(0, 2)), np.stack([data.draw(values(devices, 0.0, 2.0)) for _ in range(3)])
    price = data.draw(values(devices, 0.0, 2.0))

    def taken(device: tuple[int, ...]) -> tuple[list[float], list[float]]:
        used, held = [0.0] * (3 * devices + 1), [0.0] * devices
        for v, d in enumerate(device):
            used[d] += a.time[v, d]
            held[d] += a.memory[v]
            used[-1] += through[v] * a.time[v, d]
            if parent[v] >= 0 and flow[v] >= 0 and device[parent[v]] != d:
                c = device[parent[v]]
                moved = a.cost[flow[v], c, d]
                used[devices + c] += moved
                used[2 * devices + d] += moved
                used[-1] += moved * along[v]
        return used, held

    def value(used: list[float], held: list[float]) -> float:
        return float(np.dot(weights.ravel(), used[:-1]) + chain * used[-1] + np.dot(price, held))

    placements = itertools.product(range(devices), repeat=n)
    best = min(value(*taken(row)) for row in placements if all(able[v, d] for v, d in enumerate(row)))
    used, held = np.ones(3 * devices + 1), np.ones(devices)
    device = np.zeros(n, np.int32)
    shares = through, along, chain, weights, price
    total = cheapest_placement(a, able, np.arange(n), parent, flow, *shares, device, used, held)
    assert total == pytest.approx(best)
    assert value(used.tolist(), held.tolist()) == pytest.approx(best)
    assert taken(tuple(device.tolist())) == (used.tolist(), held.tolist())


@examples(200)
@given(makespans(most=6), st.data())
def test_the_longest_chain(made: tuple[MakespanArrays, Edges], data: st.DataObject) -> None:
    """Against all chains, with what comes from parents moved."""
    a, edges = made
    n = len(a.time)
    takes, moves = data.draw(values(n, 0.0, 3.0)), data.draw(values(n, 0.0, 3.0))
    before: list[list[int]] = [[u for u, w, *_ in edges if w == v] for v in range(n)]
    parent = np.array([data.draw(st.sampled_from([-1, *us])) for us in before], np.int32)
    length = [0.0] * n
    for v in range(n):
        length[v] = takes[v] + max((length[u] + moves[v] * (parent[v] == u) for u in before[v]), default=0.0)
    through, along = np.ones(n), np.ones(n)
    longest_chain(a, np.arange(n), parent, takes, moves, through, along)
    chain = np.flatnonzero(through).tolist()
    assert all(u in before[v] for u, v in itertools.pairwise(chain))
    assert np.flatnonzero(along).tolist() == [v for u, v in itertools.pairwise(chain) if parent[v] == u]
    assert float(through @ takes + along @ moves) == pytest.approx(max(length))


@examples(100)
@given(makespans(most=4), st.data())
def test_no_schedule_is_in_an_overfull_window(made: tuple[MakespanArrays, Edges], data: st.DataObject) -> None:
    a, edges = made
    n, devices = a.time.shape
    a.serial[0] = True
    head, tail = np.zeros((n, devices)), np.zeros((n, devices))
    find_labels(a, np.arange(n), a.time, head, tail)
    horizon = data.draw(halves(0.5, 12))
    opens, closes = np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.5, 1.0, 2.0, horizon])
    found = overfull(a, a.time, head, tail, horizon, opens, closes, NEVER)
    best = min(
        Plain(a, list(device), order, True).end
        for device in itertools.product(range(devices), repeat=n)
        for order in topological(edges, n)
    )
    assert not (found and best <= horizon)
    assert not overfull(a, a.time, head, tail, horizon, opens, closes, np.ones(1, np.int64))


def test_work_that_does_not_fit_into_a_window() -> None:
    """Three operators of 2 s on two devices: not within 2 s, within 3 s for all that energy says."""
    a = MakespanArrays(
        time=np.full((3, 2), 2.0),
        memory=np.zeros(3),
        limit=np.full(2, math.inf),
        cost=np.zeros((0, 2, 2)),
        graph=graph_of([], 3),
        in_flow=np.zeros(0, np.int32),
        out_flow=np.zeros(0, np.int32),
        group=partition_of(range(3), 3),
        tail=np.zeros((3, 2)),
        serial=np.ones(3, bool),
    )
    head, tail, start = a.time.copy(), np.zeros((3, 2)), np.zeros(1)

    def full(horizon: float, closes: float, **changed: np.ndarray) -> bool:
        tails, times = changed.get("tail", tail), changed.get("time", a.time)
        return overfull(a, times, head, tails, horizon, start, np.array([closes]), NEVER)

    assert full(2.0, 2.0)
    assert full(2.5, 2.5)
    assert not full(3.0, 3.0)
    # Where 1 s is to follow each of them, 4 s are left of 5: 3 of 4 s are for 2 devices.
    assert not full(3.5, 3.0)
    assert full(3.5, 2.5, tail=np.ones((3, 2)))
    # In [0, 1] nothing has to run if all may be late.
    assert not full(2.5, 0.5)
    # Two of them only on the first: weights find that it is full, though on average there is room.
    alone = np.array([[2.0, np.inf], [2.0, np.inf], [0.5, 0.5]])
    assert full(3.0, 3.0, time=alone)
    assert full(9.0, 9.0, time=np.full((3, 2), np.inf))
    assert not full(2.0, 0.0)
    # Each is short on one of the devices; together they are long on both.
    times, none = np.array([[2.0, 0.5], [0.5, 2.0], [0.5, 2.0], [2.0, 0.5]]), np.zeros((4, 2))
    for groups, wanted in ((range(4), False), ([0] * 4, True)):
        four = a._replace(group=partition_of(groups, max(groups) + 1))
        assert overfull(four, times, times, none, 2.0, start, np.array([2.0]), NEVER) == wanted


@examples(200)
@given(st.one_of(makespans(most=7), makespans(most=7, queues=True)), st.data())
def test_a_window_sees_what_follows_it(made: tuple[MakespanArrays, Edges], data: st.DataObject) -> None:
    """Scheduled again as it is, a part of the order ends the whole when it did."""
    a, edges = made
    n, devices = a.time.shape
    assume(n > 1)
    device = np.array([data.draw(st.integers(0, devices - 1)) for _ in range(n)], np.int32)
    order = np.array(an_order(data.draw, edges, n), np.int32)
    room = new_room(a)
    end = schedule(a, device, order, False, math.inf, room)
    flows = a.cost.shape[0]
    ends, starts = np.zeros((flows, 2), np.int32), [*room.start, *([0.0] * flows)]
    for v in range(n):
        for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
            if a.in_flow[e] >= 0:
                ends[a.in_flow[e]] = a.graph.pred[e], v
                starts[n + a.in_flow[e]] = room.flow_start[a.in_flow[e]]
    place = np.argsort(order).astype(np.int32)
    # Later starts first; of equals what waits before what it waits for.
    rank = [2 * place[v] + 1 for v in range(n)] + [2 * place[w] for _, w in ends.tolist()]
    tasks = np.array(sorted(range(n + flows), key=lambda t: (-starts[t], -rank[t])), np.int64)
    rest = np.ones(n + flows)
    find_lags(a, device, tasks, ends, room, rest)
    assert not room.row_lag.any()
    for v in range(n):
        assert room.start[v] + rest[v] <= end + 1e-9
        after = a.graph.after(v).tolist()
        assert rest[v] >= a.time[v, device[v]] + max((rest[w] for w in after), default=0.0)
    for f in range(flows):
        c, d = (int(device[x]) for x in ends[f])
        assert rest[n + f] == 0.0 if c == d else rest[n + f] >= a.cost[f, c, d] + rest[ends[f, 1]]
    first = data.draw(st.integers(0, n - 1))
    last = data.draw(st.integers(first + 1, n))
    before = room.start.copy(), room.end.copy()
    open_window(a, device, order, place, first, last, rest, room)
    again = schedule_part(a, device, order, first, last, False, math.inf, room)
    assert again <= end + 1e-9
    inside = order[first:last]
    assert room.start[inside].tolist() == before[0][inside].tolist()
    close_window(order, first, last, room)
    assert not room.base.any()
    assert not room.lag.any()
    assert not room.row_lag.any()
    assert schedule(a, device, order, False, math.inf, room) == end
