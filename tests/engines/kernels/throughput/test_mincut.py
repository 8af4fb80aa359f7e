"""The cheapest block with some items, against all sets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.kernel_arrays import block_problems, cost_of, paths_between, row_of, subsets
from instances.strategies import halves
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.mincut import (
    block_network,
    cheapest_block,
    most_expensive_item,
    new_flow,
    reached,
    respect_order,
)

Set = frozenset[int]


def paid(a: BlockProblem, forced: np.ndarray, block: Set) -> float:
    """What a block costs where some nets are cut whatever it holds; two pins that never meet pay each."""
    total = float(sum(a.work[v] for v in block))
    for e in range(a.nets):
        pins = set(a.net.members(e).tolist())
        inside = len(block & pins)
        if forced[e]:
            total += a.cost[e] * (inside if len(pins) == 2 else inside > 0)
        elif 0 < inside < len(pins):
            total += a.cost[e]
    return total


def edges_of(a: BlockProblem) -> list[tuple[int, int]]:
    return [(int(u), int(v)) for u, v in a.graph.edges.tolist()]


def in_order(a: BlockProblem, v: int) -> Callable[[Set], bool]:
    """Whether a set leaves out nothing between v and what is after or before it."""
    edges, reach = edges_of(a), paths_between(a.items, edges_of(a))
    later, earlier = reach[v], {u for u in range(a.items) if v in reach[u]}

    def kept(block: Set) -> bool:
        for u, w in edges:
            if u in later:
                if w in block and u not in block:
                    return False
            elif w in earlier and u in block and w not in block:
                return False
        return True

    return kept


@given(st.data(), block_problems())
def test_the_cheapest_block_with_some_items(data: st.DataObject, a: BlockProblem) -> None:
    n = a.items
    forced = np.array([data.draw(st.booleans()) for _ in range(a.nets)], np.int8)
    items = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    supply = np.array([data.draw(st.one_of(st.just(np.inf), halves(0.5, 9))) for _ in range(n)])
    avoid = np.array([data.draw(st.booleans()) for _ in range(n)], np.int8)
    limit = data.draw(st.one_of(st.just(np.inf), halves(0, 12)))
    network = block_network(a, forced)
    flow = new_flow(network)
    flow.capacity[:], flow.sink[:] = network.capacity, network.sink
    least, smallest = np.inf, frozenset[int]()
    for block in [frozenset[int](), *subsets(n)]:
        if any(avoid[v] for v in block):
            continue
        value = paid(a, forced, block) + sum(supply[v] for v in items if v not in block)
        if value < least:
            least, smallest = value, block
        elif value == least < np.inf:
            smallest &= block
    found = cheapest_block(network, np.array(items, np.int32), supply.copy(), avoid, limit, flow)
    if least > limit:
        assert limit < found <= least
    else:
        assert found == pytest.approx(least)
        assert least == np.inf or {v for v in range(n) if flow.level[v] >= 0} == smallest


@given(st.data(), block_problems())
def test_an_order_is_kept_around_an_item(data: st.DataObject, a: BlockProblem) -> None:
    n, v = a.items, data.draw(st.integers(0, a.items - 1))
    reach = paths_between(n, edges_of(a))
    later = reached(a.graph.succ_ptr, a.graph.succ, v)
    earlier = reached(a.graph.pred_ptr, a.graph.pred, v)
    assert later.tolist() == row_of(reach[v], n).tolist()
    assert earlier.tolist() == row_of({u for u in range(n) if v in reach[u]}, n).tolist()
    network = block_network(a, np.zeros(a.nets, np.int8))
    flow = new_flow(network)
    flow.capacity[:], flow.sink[:] = network.capacity, network.sink
    respect_order(network, later, earlier, flow.capacity)
    kept = in_order(a, v)
    least = min(cost_of(a, block) for block in subsets(n) if v in block and kept(block))
    nothing = np.zeros(0, np.int8)
    found = cheapest_block(network, np.array([v], np.int32), np.full(n, np.inf), nothing, np.inf, flow)
    assert found == pytest.approx(least)


@given(block_problems(), st.booleans(), st.integers(1, 7))
def test_the_item_whose_cheapest_block_is_dearest(a: BlockProblem, ordered: bool, at_once: int) -> None:
    n = a.items
    wanted = []
    for v in range(n):
        kept = in_order(a, v)
        wanted.append(min(cost_of(a, s) for s in subsets(n) if v in s and (not ordered or kept(s))))
    network = block_network(a, np.zeros(a.nets, np.int8))
    upper, best = a.net_loads(), 0.0
    for _ in range(n):
        before = best
        best = most_expensive_item(network, a, ordered, upper, best, at_once)
        assert before <= best <= max(wanted) * (1 + 1e-9)
    assert best == pytest.approx(max(wanted))
    assert upper.max() <= best * (1 + 1e-9)
