"""Orders, and the stages or blocks that they are cut into, against all cuts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.kernel_arrays import NEVER, block_problems, cost_of, dags, values
from instances.strategies import examples, halves
from partita.engines.kernels.graph_arrays import graph_of, sets_of
from partita.engines.kernels.throughput.arrays import Arrays, Codes, SliceTable
from partita.engines.kernels.throughput.blocks import BlockProblem, cut_nets
from partita.engines.kernels.throughput.linear_orders import linearise, order_by
from partita.engines.kernels.throughput.orders import costs_of, cut_order, decode
from partita.engines.kernels.throughput.slicing import slice_order
from partita.engines.kernels.throughput.stage_loads import segment_loads

NONE = 1 << 30


@given(st.data(), dags(most=8), st.integers(0, 2))
def test_orders_by_keys(data: st.DataObject, dag: tuple[int, list[tuple[int, int]]], mode: int) -> None:
    n, edges = dag
    graph = graph_of(edges, n)
    key = np.array(data.draw(st.permutations(range(n))), np.float64) / (n + 1)
    stage = np.zeros(n, np.int64)
    for v in range(n):
        stage[v] = max([stage[u] for u, w in edges if w == v], default=0) + data.draw(st.integers(0, 1))
    second, order, waiting = key.copy(), [], set(range(n))
    came = [v for v in range(n) if not graph.before(v).size]
    ready: set[int] = set()
    while waiting:
        for v in came:
            if mode == 1:
                second[v] = -len(order) - key[v]
            elif mode == 2 and order:
                second[v] = second[order[-1]] + 0.1 * (key[v] - 0.5)
        ready |= set(came)
        first = min(ready, key=lambda v: (stage[v], second[v]))
        order.append(first)
        waiting.remove(first)
        ready.remove(first)
        came = [v for v in waiting - ready if all(u not in waiting for u, w in edges if w == v)]
    found = np.empty(n, np.int32)
    linearise(graph, stage, key, mode, found)
    assert found.tolist() == order
    assert order_by(graph, key, mode, stage).tolist() == order
    linearise(graph, np.zeros(n, np.int64), key, mode, found)
    assert order_by(graph, key, mode).tolist() == found.tolist()


def cuts(n: int) -> Iterator[list[range]]:
    """All ways to cut n places into segments."""
    for ends in itertools.product([False, True], repeat=n - 1):
        places = [0, *(place for place, end in enumerate(ends, 1) if end), n]
        yield [range(a, b) for a, b in itertools.pairwise(places)]


@st.composite
def sliced(draw: st.DrawFn) -> tuple[Arrays, np.ndarray]:
    """Items whose order is that of their numbers, on one or two kinds of devices; and limits."""
    n, edges = draw(dags(2, 5))
    read = [sorted({u, *(w for v, w in edges if v == u)}) for u in range(n)]
    nets = [pins for pins in read if len(pins) > 1]
    loose = draw(st.lists(st.sets(st.integers(0, n - 1), min_size=2).map(sorted), max_size=2))
    covers = draw(st.lists(st.sets(st.integers(0, n - 1), min_size=1).map(sorted), max_size=2))
    kinds = draw(st.integers(1, 2))
    devices = np.array([draw(st.integers(1, 2)) for _ in range(kinds)], np.int64)
    limited, recompute = draw(st.booleans()), draw(st.booleans())
    net_count, total = len(nets) + len(loose), int(devices.sum())
    entering = np.concatenate([draw(values(len(nets), 0.0)), np.zeros(len(loose))])
    arrays = Arrays(
        graph=graph_of(edges, n),
        net=sets_of([*nets, *loose], n),
        cover=sets_of(covers, n),
        work=np.stack([draw(values(n, 0.0)) for _ in range(kinds)]),
        net_cost=np.stack([draw(values(net_count)) for _ in range(kinds)]),
        net_source=np.array([*(pins[0] for pins in nets), *(-1 for _ in loose)], np.int32),
        net_entering=entering,
        fixed=draw(values(n, 0.0)),
        active=draw(values(n, 0.0)),
        workspace=draw(values(n, 0.0)),
        cover_fixed=draw(values(len(covers))),
        cover_active=draw(values(len(covers), 0.0)),
        memory=draw(values(kinds, 2.0, 20.0)) if limited else np.full(kinds, np.inf),
        devices=devices,
        in_flight=np.arange(total + 1, dtype=np.int64),
        limited=limited,
        recompute=limited and recompute,
        backwards=False,
    )
    return arrays, np.array([draw(halves(0, 12))])


def fits(a: Arrays, block: set[int], kind: int, flights: int, limit: float) -> bool:
    """Whether a stage keeps the limit and its memory."""
    load = sum(a.work[kind, v] for v in block)
    members = np.array([v in block for v in range(a.work.shape[1])])
    load += a.net_cost[kind, cut_nets(a.net, members)].sum()
    fixed, active = sum(a.fixed[v] for v in block), sum(a.active[v] for v in block)
    for c in range(len(a.cover_fixed)):
        if block & set(a.cover.members(c).tolist()):
            fixed, active = fixed + a.cover_fixed[c], active + a.cover_active[c]
    entering = 0.0
    for e in range(len(a.net_entering)):
        source = a.net_source[e]
        if source not in block and block & set(a.net.members(e).tolist()):
            entering += a.net_entering[e]
    held = fixed + active + flights * entering if a.recompute else fixed + flights * active
    held += max(a.workspace[v] for v in block)
    return bool(load <= limit and (not a.limited or held <= a.memory[kind]))


@examples(150)
@given(sliced())
def test_an_order_is_cut_if_it_can_be(made: tuple[Arrays, np.ndarray]) -> None:
    a, limits = made
    kinds, n = a.work.shape
    second = int(a.devices[1]) if kinds > 1 else 0
    codes = Codes(
        stride=np.array([0, 1][:kinds], np.int64),
        digits=np.array([[0, c][:kinds] for c in range(second + 1)], np.int64),
        digit_sum=np.arange(second + 1, dtype=np.int64),
        phases=np.zeros(second + 1, np.int64),
    )
    # By number of items: (devices of kind 1, of kind 0) that hold the first ones.
    held: list[set[tuple[int, int]]] = [{(0, 0)}, *(set() for _ in range(n))]
    for end in range(1, n + 1):
        for start in range(end):
            for others, used in held[start]:
                for kind in range(kinds):
                    more = (others, used + 1) if kind == 0 else (others + 1, used)
                    if more[1] > a.devices[0] or more[0] > second:
                        continue
                    if fits(a, set(range(start, end)), kind, sum(more), limits[0]):
                        held[end].add(more)
    shape = (n + 1, second + 1)
    fewest, back_from, back_replicas = (np.zeros(shape, np.int32) for _ in range(3))
    back_kind = np.zeros(shape, np.int8)
    table = SliceTable(fewest, back_from, back_kind, back_replicas)
    order = np.arange(n, dtype=np.int32)
    found = slice_order(a, None, None, order, limits, codes, table, NEVER)
    assert found == bool(held[n])
    for code in range(second + 1):
        least = min((used for others, used in held[n] if others == code), default=NONE)
        assert fewest[n, code] == least
        if least == NONE:
            continue
        end = n
        while end > 0:
            start, kind = int(back_from[end, code]), int(back_kind[end, code])
            flights = int(fewest[end, code]) + code
            assert back_replicas[end, code] == 1
            assert fits(a, set(range(start, end)), kind, flights, limits[0])
            end, code = start, code - (kind == 1)
        assert fewest[0, code] == code == 0


@examples(120)
@given(block_problems(memory=True), st.data())
def test_an_order_is_cut_into_blocks(a: BlockProblem, data: st.DataObject) -> None:
    n, k = a.items, a.devices
    order = data.draw(st.permutations(range(n)))
    limit = data.draw(st.one_of(st.just(np.inf), halves(0, 12)))
    best = np.full(k + 1, np.inf)
    count = NONE
    for segments in cuts(n):
        worst = max(cost_of(a, {order[place] for place in part}) for part in segments)
        if worst <= limit < np.inf or worst < np.inf == limit:
            count = min(count, len(segments))
            for j in range(len(segments), k + 1):
                best[j] = min(best[j], worst)
    row, some, stopped = np.array(order, np.int32), a._replace(cost=a.cost), np.ones(1, np.int64)
    value, back = np.empty((n + 1, k + 1)), np.empty((n + 1, k + 1), np.int32)
    cut_order(some, row, limit, None, value, back, NEVER)
    assert value[n].tolist() == best.tolist()
    for j in range(1, k + 1):
        end, left = n, j
        while best[j] < np.inf and end > 0:
            start = int(back[end, left])
            assert cost_of(a, {order[place] for place in range(start, end)}) <= best[j]
            end, left = start, left - 1
    fewest, starts = np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    if limit < np.inf:
        cut_order(some, row, limit, fewest, None, starts, NEVER)
        assert fewest[n] == count
        end = n if count < NONE else 0
        while end > 0:
            start = int(starts[end])
            assert cost_of(a, {order[place] for place in range(start, end)}) <= limit
            assert fewest[start] == fewest[end] - 1
            end = start
    cut_order(some, row, limit, None, value, back, stopped)
    assert value[n].tolist() == [np.inf] * (k + 1)
    # As the fitness of an order: its priorities in rising order.
    in_order = order_by(a.graph, np.argsort(row) / n, 0)
    keys, results, orders = (np.argsort(in_order) / n)[None, :], np.empty(1), np.empty((1, n), np.int32)
    for arrange in (False, True):
        above = np.array([data.draw(halves(0.5, 8)), 1e6])
        assert decode(a, keys, k, arrange, above, results, orders, NEVER) == 1
        assert orders[0].tolist() == in_order.tolist()
        if arrange:
            place = {v: at for at, v in enumerate(in_order.tolist())}
            pins = [[place[v] for v in a.net.members(e).tolist()] for e in range(a.nets)]
            wanted = sum(cost * sum(at - min(row) for at in row) for cost, row in zip(a.cost, pins, strict=True))
            assert results[0] == wanted
        else:
            splits = [parts for parts in cuts(n) if len(parts) <= k]
            assert results[0] == min(max(cost_of(a, {in_order[p] for p in part}) for part in s) for s in splits)
    assert decode(a, keys, k, False, np.array([1.0, 1e6]), results, orders, stopped) == 0


@given(block_problems(memory=True), st.data())
def test_what_given_blocks_cost(a: BlockProblem, data: st.DataObject) -> None:
    label = [data.draw(st.integers(0, a.devices - 1)) for _ in range(a.items)]
    blocks = [{v for v in range(a.items) if label[v] == b} for b in range(a.devices)]
    assert costs_of(a, np.array(label, np.int32)) == pytest.approx([cost_of(a, block) for block in blocks])
    # On two kinds of devices, of which each has its own times.
    kind_of = [data.draw(st.integers(0, 1)) for _ in blocks]
    work, cost = np.stack([a.work, a.work[::-1]]), np.stack([a.cost, 2 * a.cost])
    loads, free = np.full(a.devices, 9.0), np.array([np.inf, np.inf])
    segment_loads(a, work, cost, np.array(label, np.int32), np.array(kind_of, np.int32), loads)
    kinds = [a._replace(work=row, cost=other, limit=free) for row, other in zip(work, cost, strict=True)]
    assert loads.tolist() == [cost_of(kinds[kind], block) for kind, block in zip(kind_of, blocks, strict=True)]
