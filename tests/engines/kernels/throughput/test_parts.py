"""What is said of all splits of small problems whose loads are within a limit, against these splits."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.kernel_arrays import NEVER, block_problems, cost_of, paths_between, row_of, subsets
from instances.strategies import examples, halves
from partita.engines.kernels.closures import closure_bits
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.charges import charge_nets, heaviest_blocks, raise_shares, tighten_windows
from partita.engines.kernels.throughput.convex_sets import Exclusions
from partita.engines.kernels.throughput.covering import longest_segments, search_block
from partita.engines.kernels.throughput.forced_cuts import TargetFacts, force_nets, separate_pairs
from partita.engines.kernels.throughput.mincut import block_network
from partita.engines.kernels.throughput.windows import dividing_item, new_window_room, settle_windows

Set = frozenset[int]
ROUNDING = 1e-9


class Known(NamedTuple):
    """A limit on loads, the blocks within it that a split may have, and the splits made of them, as labels."""

    limit: float
    blocks: list[Set]
    splits: list[tuple[int, ...]]


@st.composite
def limited(draw: st.DrawFn, most: int = 5) -> tuple[BlockProblem, Known]:
    """A problem and all that brute force knows about it."""
    a = draw(block_problems(most=most))
    edges = [(int(u), int(v)) for u, v in a.graph.edges.tolist()]
    reach = paths_between(a.items, edges)

    def convex(block: Set) -> bool:
        between = {x for u in block for v in block for x in reach[u] if v in reach[x]}
        return between <= block

    low = max(cost_of(a, frozenset((v,))) for v in range(a.items))
    limit = draw(st.one_of(halves(0.5, 8), st.just(max(low, 0.5))))
    blocks = [block for block in subsets(a.items) if convex(block) and cost_of(a, block) <= limit]
    fine = set(blocks)
    splits = []
    for label in itertools.product(range(a.devices), repeat=a.items):
        used = [frozenset(v for v in range(a.items) if label[v] == b) for b in range(a.devices)]
        if all(label[u] <= label[v] for u, v in edges) and all(not block or block in fine for block in used):
            splits.append(label)
    return a, Known(limit, blocks, splits)


def nothing_known(a: BlockProblem) -> TargetFacts:
    """Closures of the order, and no more."""
    n = a.items
    return TargetFacts(
        later=closure_bits(a.graph, False),
        earlier=closure_bits(a.graph, True),
        apart=np.zeros((n, (n + 63) // 64), np.uint64),
        forced=np.zeros(a.nets, np.int8),
        first=np.zeros(n, np.int32),
        last=np.full(n, a.devices - 1, np.int32),
    )


def are_apart(parts: TargetFacts, n: int) -> set[tuple[int, int]]:
    return {(u, v) for u in range(n) for v in range(n) if int(parts.apart[u, 0]) >> v & 1}


def settle(a: BlockProblem, known: Known, parts: TargetFacts) -> bool:
    """Find nets and pairs until there are no more; false if there is no split."""
    while True:
        found = force_nets(a, parts, known.limit)
        pairs, none = separate_pairs(a, parts, known.limit, block_network(a, parts.forced), a.items - 1, a.items)
        if none:
            return False
        if not found + pairs:
            return True


@examples(150)
@given(limited())
def test_nets_that_are_cut_and_items_that_never_meet(made: tuple[BlockProblem, Known]) -> None:
    a, known = made
    parts, n = nothing_known(a), a.items
    if not settle(a, known, parts):
        assert not known.splits
        return
    apart = are_apart(parts, n)
    assert all((v, u) in apart for u, v in apart)
    for block in known.blocks:
        assert not any((u, v) in apart for u in block for v in block)
    for e in range(a.nets):
        pins = set(a.net.members(e).tolist())
        if parts.forced[e]:
            assert not any(pins <= block for block in known.blocks)
        elif any((u, v) in apart for u in pins for v in pins):
            pytest.fail("a net whose pins are apart is cut")
    # Where no order is in the way a minimum cut decides a pair.
    if not a.graph.succ.size:
        together = {(u, v) for block in known.blocks for u in block for v in block}
        assert all((u, v) in together or (u, v) in apart for u in range(n) for v in range(n) if u != v)


@examples(150)
@given(limited(), st.permutations(range(5)))
def test_charges_shares_and_windows(made: tuple[BlockProblem, Known], order: list[int]) -> None:
    a, known = made
    parts, n = nothing_known(a), a.items
    assume(settle(a, known, parts))
    charge = charge_nets(a, parts, known.limit)
    assert (charge >= a.work * (1 - ROUNDING)).all()
    for block in known.blocks:
        assert sum(charge[v] for v in block) <= cost_of(a, block) * (1 + ROUNDING)
    share = np.zeros(n)
    items = np.array([v for v in order if v < n], np.int32)
    total = raise_shares(items, share, charge, known.limit, parts.apart)
    assert total == pytest.approx(share.sum())
    for block in known.blocks:
        assert sum(share[v] for v in block) <= 1 + ROUNDING
    # Each share is as large as the others leave it: some fit beside it that fill the block, or it is the whole.
    again = share.copy()
    assert raise_shares(items, again, charge, known.limit, parts.apart) == pytest.approx(total)
    if known.splits:
        assert total <= a.devices * (1 + ROUNDING)
    _, none = tighten_windows(a, parts, share, a.devices)
    assert not (none and known.splits)
    if not none:
        for label in known.splits:
            assert all(parts.first[v] <= label[v] <= parts.last[v] for v in range(n))


def test_charges_of_a_net_of_three() -> None:
    """A net that every block pays adds its cost to as much work as a block has room for."""
    a = block_of([3.0, 3.0, 3.0], [[0, 1, 2]], [2.0], devices=3)
    parts = nothing_known(a)
    assert force_nets(a, parts, 8.0) == 1
    without_pairs = parts._replace(apart=np.zeros((0, 1), np.uint64))
    # 6 of 9 fit beside a cost of 2 in 8: for a unit of work a third.
    assert charge_nets(a, without_pairs, 8.0) == pytest.approx([4.0, 4.0, 4.0])
    assert charge_nets(a, parts, 8.0) == pytest.approx([4.0, 4.0, 4.0])
    # Beside 5 of 7 only one fits at all: each bears it whole.
    assert separate_pairs(a, parts, 7.0, block_network(a, parts.forced), 2, 3) == (3, False)
    assert charge_nets(a, parts, 7.0) == pytest.approx([5.0, 5.0, 5.0])
    share = np.zeros(3)
    assert raise_shares(np.arange(3, dtype=np.int32), share, charge_nets(a, parts, 7.0), 7.0, parts.apart) == 3.0


def block_of(work: list[float], nets: list[list[int]], cost: list[float], devices: int) -> BlockProblem:
    """Items without order."""
    from partita.engines.kernels.graph_arrays import graph_of, sets_of

    n = len(work)
    return BlockProblem(
        graph_of([], n), sets_of(nets, n), sets_of([], n), np.array(work), np.array(cost), np.zeros(n), np.zeros(n),
        np.zeros(0), np.array([np.inf, np.inf]), devices, np.zeros(n, np.int32), np.arange(len(nets)),
    )  # fmt: skip


@examples(120)
@given(limited(), st.data())
def test_the_heaviest_block_with_an_item(made: tuple[BlockProblem, Known], data: st.DataObject) -> None:
    a, known = made
    parts, n = nothing_known(a), a.items
    assume(settle(a, known, parts))
    weight = np.array([data.draw(halves(0, 4)) for _ in range(n)])
    most, rates = np.full(n, np.inf), np.zeros(n)
    network = block_network(a, parts.forced)
    for _ in range(2):
        heaviest_blocks(a, parts, network, weight, known.limit, 0, n, rates, most)
        apart = are_apart(parts, n)
        for v in range(n):
            held = max((sum(weight[u] for u in block) for block in known.blocks if v in block), default=0.0)
            beside = sum(weight[u] for u in range(n) if (v, u) not in apart)
            assert held * (1 - ROUNDING) <= most[v] <= beside * (1 + ROUNDING)


@examples(150)
@given(limited(), st.data())
def test_a_block_with_much_charge_is_found(made: tuple[BlockProblem, Known], data: st.DataObject) -> None:
    a, known = made
    parts, n = nothing_known(a), a.items
    if data.draw(st.booleans()):
        assume(settle(a, known, parts))
    apart = are_apart(parts, n)
    pins = [a.net.members(e).tolist() for e in range(a.nets)]
    together = [max((len(b & set(row)) for b in known.blocks), default=1) for row in pins]
    split = [all((u, v) in apart for u, v in itertools.combinations(row, 2)) for row in pins]
    x = Exclusions(
        parts.later, parts.earlier, parts.apart, np.array(split, np.int8), np.array(together, np.int32).clip(1)
    )
    charge = np.array([data.draw(halves(0, 4)) for _ in range(n)])
    wanted, anchor = data.draw(halves(0, 8)), data.draw(st.integers(0, n - 1))
    held = [sum(charge[v] for v in block) for block in known.blocks if min(block) == anchor]
    found = np.zeros((n + 63) // 64, np.uint64)
    answer, nodes = search_block(a, x, charge, known.limit, wanted, anchor, 10_000, NEVER, found)
    assert nodes >= 1
    assert answer == (max(held, default=-1.0) > wanted)
    if answer:
        block = next(block for block in known.blocks if row_of(block, n).tolist() == found.tolist())
        assert min(block) == anchor
        assert sum(charge[v] for v in block) > wanted
    assert search_block(a, x, charge, known.limit, wanted, anchor, 10_000, np.ones(1, np.int64), found) == (2, 1)
    assert search_block(a, x, charge, known.limit, wanted, anchor, 0, NEVER, found) == (2, 1)


@given(block_problems(), st.data())
def test_segments_of_an_order_within_a_target(a: BlockProblem, data: st.DataObject) -> None:
    n, target = a.items, data.draw(halves(0, 10))
    order = data.draw(st.permutations(range(n)))
    found = longest_segments(a, np.array(order, np.int64), target)
    for start in range(n):
        ends = [end for end in range(start + 1, n + 1) if cost_of(a, set(order[start:end])) <= target]
        assert found[start] == max(ends, default=start) - start


@examples(150)
@given(limited(), st.data())
def test_windows_leave_all_splits(made: tuple[BlockProblem, Known], data: st.DataObject) -> None:
    a, known = made
    n = a.items
    room = new_window_room(a, block_network(a, np.zeros(a.nets, np.int8)))
    lows = [data.draw(st.integers(0, a.devices - 1)) for _ in range(n)]
    highs = [data.draw(st.integers(low, a.devices - 1)) for low in lows]
    first, last = np.array(lows, np.int8), np.array(highs, np.int8)
    least = settle_windows(a, first, last, known.limit, room)
    within = [s for s in known.splits if all(lows[v] <= s[v] <= highs[v] for v in range(n))]
    if not within:
        return
    loads = [max(cost_of(a, {v for v in range(n) if s[v] == b}) for b in range(a.devices)) for s in within]
    assert least <= min(loads) * (1 + ROUNDING)
    assert all(first[v] <= s[v] <= last[v] for s in within for v in range(n))
    boundary, item = dividing_item(a, first, last, room)
    if (first == last).all():
        assert (boundary, item) == (-1, -1)
        assert least == pytest.approx(min(loads))
    else:
        assert first[item] <= boundary < last[item]
