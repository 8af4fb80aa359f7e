"""The covering bound and its search for blocks against all blocks of small problems."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples
from partita.engines.kernels.arrays import Floats, bit_rows, row_masks
from partita.engines.kernels.throughput.block_growth import grow_blocks
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.covering import search_block
from partita.engines.kernels.throughput.cut_search import search_by_cuts
from partita.engines.kernels.throughput.mincut import TINY
from partita.problems.throughput.bounds.block_pool import BlockPool
from partita.problems.throughput.bounds.block_search import ENOUGH, BlockSearch
from partita.problems.throughput.bounds.covering import Covering, CoveringBound
from partita.problems.throughput.bounds.knowledge import Knowledge, simple_bound
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from problems.throughput.bounds.block_problems import SLACK, block_problems
from second_opinions import brute_force
from second_opinions.metamorphic import in_other_time


def convex_blocks(relaxed: BlockProblem, pool: BlockPool) -> list[tuple[np.ndarray, float]]:
    """Masks and loads of all convex sets."""
    found = []
    for bits in itertools.product((False, True), repeat=relaxed.items):
        mask = np.array(bits)
        gaps = pool.after[mask].any(axis=0) & pool.after[:, mask].any(axis=1) & ~mask
        if mask.any() and not gaps.any():
            found.append((mask, relaxed.load(mask)))
    return found


def drawn_question(data: st.DataObject, items: int) -> tuple[Floats, float, float]:
    """Charges of the items, a limit on the load, and the charge that is wanted."""
    charge = np.array(data.draw(st.lists(st.integers(0, 6), min_size=items, max_size=items)), dtype=np.float64) / 8
    return charge, data.draw(st.integers(1, 60)) / 4, data.draw(st.integers(0, 16)) / 8 + 0.01


@examples(150)
@given(block_problems(2, 9), st.data())
def test_search_finds_a_block_exactly_where_there_is_one(problem: ThroughputProblem, data: st.DataObject) -> None:
    relaxed = uniform(problem)
    n = relaxed.items
    pool = BlockPool(relaxed)
    charge, target, wanted = drawn_question(data, n)
    exclusions = pool.exclusions(target)
    blocks = [(mask, load) for mask, load in convex_blocks(relaxed, pool) if load <= target]
    conflict = row_masks(exclusions.conflict, n)
    for mask, _ in blocks:
        inside = np.flatnonzero(mask)
        assert not conflict[np.ix_(inside, inside)].any(), "items in conflict share a block"
        for e in range(relaxed.nets):
            pins = int(mask[relaxed.net.members(e)].sum())
            assert pins <= exclusions.together[e]
            assert pins < len(relaxed.net.members(e)) or exclusions.split[e] == 0, "a split net is whole"
    for anchor in range(n):
        expected = any(int(np.argmax(mask)) == anchor and charge[mask].sum() > wanted for mask, _ in blocks)
        block = np.zeros(exclusions.after.shape[1], dtype=np.uint64)
        status, nodes = search_block(
            relaxed, exclusions, charge, target + 1e-9, wanted, anchor, 10**6, np.zeros(1, dtype=np.int64), block
        )
        assert nodes > 0
        assert status == (1 if expected else 0)
        if status == 1:
            mask = row_masks(block, n)
            assert int(np.argmax(mask)) == anchor
            assert charge[mask].sum() > wanted
            assert relaxed.load(mask) <= target + SLACK


@examples(60)
@given(block_problems(2, 9), st.data())
def test_the_search_is_the_same_in_any_unit_of_time(problem: ThroughputProblem, data: st.DataObject) -> None:
    """Powers of two change no digit: blocks and even the nodes searched are the same for picoseconds."""
    target = data.draw(st.integers(1, 60)) / 4
    wanted = data.draw(st.integers(0, 16)) / 8 + 0.01
    n = uniform(problem).items
    charge = np.array(data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)), dtype=np.float64) / 8
    answers = []
    for unit in (1.0, 2.0**-40, 2.0**40):
        relaxed = uniform(in_other_time(problem, unit))
        exclusions = BlockPool(relaxed).exclusions(unit * target)
        found = []
        for anchor in range(n):
            block = np.zeros(exclusions.after.shape[1], dtype=np.uint64)
            limit, flag = unit * target * (1 + 1e-9), np.zeros(1, dtype=np.int64)
            answer = search_block(relaxed, exclusions, charge, limit, wanted, anchor, 10**6, flag, block)
            found.append((*answer, block.tolist()))
        answers.append(found)
    assert answers[0] == answers[1] == answers[2]


def test_giving_up_and_stopping_prove_nothing() -> None:
    relaxed = uniform(
        ThroughputProblem(
            name="flat",
            kinds=(DeviceKind(name="a", count=4),),
            operators=tuple(TimedOperator(id=i, times=(1.0 + i / 100,)) for i in range(40)),
        )
    )
    exclusions = BlockPool(relaxed).exclusions(10.0)
    block = np.zeros(1, dtype=np.uint64)
    charge = relaxed.work / 10
    flag = np.zeros(1, dtype=np.int64)
    assert search_block(relaxed, exclusions, charge, 10.0, 0.99999, 0, 3, flag, block) == (2, 4)
    flag[0] = 1
    assert search_block(relaxed, exclusions, charge, 10.0, 0.99999, 0, 10**9, flag, block)[0] == 2


@examples(25)
@given(block_problems(2, 9))
def test_charges_keep_to_every_known_block(problem: ThroughputProblem) -> None:
    relaxed = uniform(problem)
    assume(relaxed.work.sum() > 0)
    pool = BlockPool(relaxed)
    blocks = convex_blocks(relaxed, pool)
    for mask, _ in blocks[::3]:
        pool.add(mask, active=False)
    target = float(np.median([load for _, load in blocks]))
    fine = pool.charges(target, 1e-6, lambda: False)
    even = pool.charges(target, 0.2, lambda: False)
    assert fine is not None
    assert even is not None
    total = float(fine.charge.sum())
    assert total >= fine.most * (1 - 1e-4)
    assert (1 + SLACK) * even.most >= fine.charge.sum() >= even.charge.sum() * (1 - 1e-4) >= 0.75 * total
    for mask, load in blocks[::3]:
        if load <= target:
            assert fine.charge[mask].sum() <= 1 + SLACK
            assert even.charge[mask].sum() <= 1 + SLACK
    # With more blocks, charges begin where the last ended.
    for mask, _ in blocks:
        pool.add(mask, active=False)
    again = pool.charges(target, 1e-6, lambda: False)
    assert again is not None
    most = max(float(again.charge[mask].sum()) for mask, load in blocks if load <= target)
    assert pool.most_carried(again.charge, target) == pytest.approx(most, abs=SLACK)
    assert most <= 1 + SLACK
    assert fine.most * (1 + SLACK) >= again.charge.sum() >= again.most * (1 - 1e-4)


@examples(100)
@given(block_problems(2, 9), st.data())
def test_cuts_find_a_block_exactly_where_there_is_one(problem: ThroughputProblem, data: st.DataObject) -> None:
    relaxed = uniform(problem)
    n = relaxed.items
    pool = BlockPool(relaxed)
    charge, target, wanted = drawn_question(data, n)
    exclusions = pool.exclusions(target)
    tiny = TINY * (1 + float(charge.sum()))
    blocks = [mask for mask, load in convex_blocks(relaxed, pool) if load <= target]
    for anchor in range(n):
        best = max((charge[mask].sum() for mask in blocks if int(np.argmax(mask)) == anchor), default=0.0)
        block, near, flag = np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.zeros(1, dtype=np.int64)
        fair = data.draw(st.sampled_from([0.3, 0.9])) * wanted
        status, nodes, price = search_by_cuts(
            relaxed,
            exclusions,
            tiny,
            charge,
            target + 1e-9,
            wanted,
            fair,
            anchor,
            bit_rows((np.arange(n) < anchor)[None])[0],
            data.draw(st.sampled_from([0.01, 0.1, 10.0])),
            10**6,
            10**6,
            flag,
            block,
            near,
        )
        assert nodes > 0
        assert price > 0
        assert status == (1 if best > wanted else 0)
        if status == 1:
            mask = row_masks(block, n)
            assert int(np.argmax(mask)) == anchor
            assert relaxed.load(mask) <= target + SLACK
            assert charge[mask].sum() == pytest.approx(best)
        if near.any():
            mask = row_masks(near, n)
            assert any((mask == other).all() for other in blocks)
            assert fair < charge[mask].sum() <= max(wanted, best) + SLACK


@examples(40)
@given(block_problems(2, 9), st.data())
def test_grown_blocks_are_blocks(problem: ThroughputProblem, data: st.DataObject) -> None:
    relaxed = uniform(problem)
    n = relaxed.items
    pool = BlockPool(relaxed)
    charge, target, _ = drawn_question(data, n)
    blocks = {mask.tobytes(): load for mask, load in convex_blocks(relaxed, pool)}
    taste = np.random.default_rng(data.draw(st.integers(0, 9))).uniform(0.5, 1.5, n)
    flag = np.zeros(1, dtype=np.int64)
    grown, carried = grow_blocks(relaxed, pool.exclusions(target), charge, target, taste, np.arange(n), flag)
    for v in range(n):
        mask = row_masks(grown[v], n)
        if relaxed.load(np.arange(n) == v) > target:
            assert not mask.any()
            continue
        assert mask[v]
        assert relaxed.load(mask) == pytest.approx(blocks[mask.tobytes()])
        assert relaxed.load(mask) <= target + SLACK
        assert carried[v] == pytest.approx(charge[mask].sum())
    flag[0] = 1
    assert not grow_blocks(relaxed, pool.exclusions(target), charge, target, taste, np.arange(n), flag)[0].any()


def test_what_is_grown_leaves_little_to_search() -> None:
    relaxed = uniform(regal_problem(0, family="layered", nodes=60, devices=8, noise="operator"))
    pool, target = BlockPool(relaxed), float(relaxed.work.sum()) / 6
    search = BlockSearch(pool, target, 1, lambda: False)
    charge = 1.5 * relaxed.work / target
    known = len(pool.known)
    assert search.grow(charge, 1.25) >= 2
    assert len(pool.known) > known + 20, "others help, too"
    assert search.round(charge, 1.33, range(60), 10**4) == (0, [])


def test_cuts_and_knapsacks_agree_where_blocks_are_large() -> None:
    """On graphs too large to try all blocks; how many searches ended which way."""
    ends = [0, 0]
    for seed, family in enumerate(["layered", "barabasi-albert", "erdos-renyi", "branches"] * 3):
        relaxed = uniform(regal_problem(seed, family=family, nodes=24, devices=4, noise="operator"))
        n, pool, random = relaxed.items, BlockPool(relaxed), np.random.default_rng(seed)
        target = float(relaxed.work.sum()) / 4 * float(random.uniform(0.9, 1.5))
        exclusions, charge = pool.exclusions(target), relaxed.work / target * random.uniform(0.7, 1.3, n)
        tiny = TINY * float(charge.sum())
        for anchor in range(n):
            block, near, flag = np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.zeros(1, dtype=np.int64)
            before = bit_rows((np.arange(n) < anchor)[None])[0]
            simple, _ = search_block(relaxed, exclusions, charge, target, 0.7, anchor, 10**6, flag, block)
            cuts, _, _ = search_by_cuts(
                relaxed,
                exclusions,
                tiny,
                charge,
                target,
                0.7,
                1.0,
                anchor,
                before,
                1 / target,
                10**6,
                0,
                flag,
                block,
                near,
            )
            assert cuts == simple
            ends[cuts] += 1
    assert min(ends) > 40


def test_cuts_that_are_stopped_prove_nothing() -> None:
    relaxed = uniform(regal_problem(0, family="barabasi-albert", nodes=60, devices=4, noise="operator"))
    target = float(relaxed.work.sum()) / 3
    pool, charge = BlockPool(relaxed), relaxed.work / target
    exclusions, block = pool.exclusions(target), np.zeros(1, dtype=np.uint64)
    tiny = TINY * float(charge.sum())
    skipped, near = np.zeros((2, 1), dtype=np.uint64)
    for most, flag in ((1, 0), (10**6, 1)):
        raised = np.full(1, flag, dtype=np.int64)
        answer = search_by_cuts(
            relaxed, exclusions, tiny, charge, target, 0.7, 1.0, 0, skipped, 1 / target, most, 0, raised, block, near
        )
        assert answer[0] == 2


def test_it_is_valid_whenever_its_time_ends() -> None:
    """Targets that have had their time are lowered, with charges kept or not: time passes with every look at it."""
    raised = 0
    for seed in range(32):
        looks = itertools.count()
        problem = regal_problem(seed, nodes=6 + seed % 2, devices=2 + seed % 2, noise="operator")
        knowledge = Knowledge(uniform(problem))
        knowledge.prove(simple_bound(knowledge.uniform), "simple")
        before, most = knowledge.bound, (20, 40, 80, 160)[seed % 4]
        covering = Covering(knowledge)
        covering.run(lambda most=most, looks=looks: float(most - next(looks)))
        # A second run goes on with what the first one knows.
        again = itertools.count()
        covering.run(lambda most=most, looks=again: float(most - next(looks)))
        optimum = brute_force.best(problem, "acyclic")
        assert optimum is not None
        assert knowledge.bound <= optimum * (1 + SLACK)
        raised += knowledge.bound > before * (1 + SLACK)
    assert raised >= 20


def test_anchors_that_gave_up_come_last_and_wait_while_others_find_blocks() -> None:
    relaxed = uniform(regal_problem(0, family="layered", nodes=60, devices=4, noise="operator"))
    n, pool, target = relaxed.items, BlockPool(relaxed), float(relaxed.work.sum()) / 3
    search = BlockSearch(pool, target, 1, lambda: False)
    charge = relaxed.work / target
    found, left = search.round(charge, 0.85, range(n), 1)
    hard = np.flatnonzero(search.hard)
    assert 0 < len(hard) < n
    assert set(hard) <= set(left)
    assert set(search.anchors()[-len(hard) :]) == set(hard)
    assert found < ENOUGH


@pytest.mark.parametrize("seed", range(3))
def test_it_closes_what_simpler_bounds_leave(seed: int) -> None:
    """Operators in rows that exchange dear tensors: work alone says less."""
    random = np.random.default_rng(seed)
    count = 24
    problem = ThroughputProblem(
        name="rows",
        kinds=(DeviceKind(name="a", count=6),),
        operators=tuple(TimedOperator(id=i, times=(float(random.integers(2, 6)),)) for i in range(count)),
        tensors=tuple(
            MovedTensor(producer=i, consumers=tuple(v for v in (i + 1, i + 4) if v < count), size=2.0)
            for i in range(count - 1)
        ),
    )
    knowledge = Knowledge(uniform(problem))
    simple = problem.operators and max(float(knowledge.uniform.work.sum()) / 6, float(knowledge.uniform.work.max()))
    CoveringBound().improve(knowledge, 10.0)
    assert knowledge.bound > 1.1 * simple


def test_charges_that_no_known_block_carries_have_no_size() -> None:
    """Divided by what blocks carry they would be without end, and seem to refute what there is."""
    relaxed = uniform(regal_problem(3, nodes=20, devices=6))
    covering = Covering(Knowledge(relaxed))
    covering.left_s = lambda: math.inf
    charge = np.full(relaxed.items, 0.1)
    assert (covering._between(charge, 1.0) == charge).all()
    covering._compare(charge, 1.0)
    target = 2 * simple_bound(relaxed)
    for v in range(relaxed.items):
        covering.pool.add(np.arange(relaxed.items) == v, active=True)
    covering.best = relaxed.work.copy()
    mixed = covering._between(charge, target)
    assert np.isfinite(mixed).all()
    assert (mixed != charge).any()
    assert covering.pool.most_carried(mixed, target) <= 1 + 1e-6
