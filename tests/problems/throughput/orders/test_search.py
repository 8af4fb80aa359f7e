"""Cuts of orders and searches over partitions against trying everything, and against the one evaluator."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples, throughput_problems
from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.orders import costs_of, cut_order, decode
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.contraction.blocks import blocks_refusal, make_blocks, plan_of
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.contraction.lossless import absorb
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.orders.genetic import Arrangement, Evolution
from partita.problems.throughput.orders.order_run import Cutter, RandomOrders
from partita.problems.throughput.orders.partition_search import PartitionAnnealing, PartitionSearch
from partita.problems.throughput.problem import MicrobatchSchedule, ThroughputProblem
from partita.problems.throughput.protocol import Solver, ThroughputOptions
from second_opinions import brute_force

SOLVERS: tuple[Solver, ...] = (PartitionAnnealing(), RandomOrders(), Evolution(), Arrangement())


@st.composite
def uniform_problems(draw: st.DrawFn, *, max_operators: int = 7) -> ThroughputProblem:
    """Problems that the searches take on: one kind of device, with hard memory limits, streaming, or none."""
    variants = draw(st.sampled_from([(), ("streaming",)]))
    problem = draw(
        throughput_problems(
            kinds=(1, 1),
            max_count=5,
            max_operators=max_operators,
            unsupported=False,
            memory=True if variants else None,
            variants=variants,
        )
    )
    if blocks_refusal(problem, ThroughputOptions()) is not None:
        # What is refused is memory that depends on the position.
        problem = problem.replace(saved=(), schedule=MicrobatchSchedule())
    return problem


def random_order(blocks: BlockProblem, seed: int) -> Ints:
    return Cutter(blocks, np.zeros(1, dtype=np.int64)).order(np.random.default_rng(seed).random(blocks.items))


def cuts(blocks: BlockProblem, order: Ints, most: int) -> float:
    """Best largest cost over all ways to cut an order into at most so many segments."""
    n, best = len(order), math.inf
    for parts in range(1, min(most, n) + 1):
        for places in itertools.combinations(range(1, n), parts - 1):
            label = np.empty(n, dtype=np.int32)
            label[order] = np.searchsorted(np.array(places, dtype=np.int64), np.arange(n), side="right")
            costs = np.zeros(max(most, parts))
            costs[: blocks.devices] = costs_of(blocks, label) if parts <= blocks.devices else math.inf
            best = min(best, float(costs.max()))
    return best


@examples(120)
@given(problem=uniform_problems(), seed=st.integers(0, 99))
def test_costs_are_those_of_the_evaluator(problem: ThroughputProblem, seed: int) -> None:
    """Costs of blocks equal evaluated loads; a block that breaks a hard limit is infinite."""
    assume(blocks_refusal(problem, ThroughputOptions()) is None)
    assert problem.device_count
    instance = build_instance(problem)
    for items in (absorb(instance), instance):
        blocks = make_blocks(problem, items)
        random = np.random.default_rng(seed)
        order = random_order(blocks, seed)
        label = np.empty(blocks.items, dtype=np.int32)
        label[order] = np.sort(random.integers(0, blocks.devices, blocks.items))
        evaluation = evaluate(problem, plan_of(problem, blocks, label))
        costs = costs_of(blocks, label)
        assert evaluation.acyclic
        assert evaluation.feasible == bool(np.isfinite(costs).all())
        if evaluation.feasible:
            used = np.unique(label)
            assert costs[used] == pytest.approx([stage.load for stage in evaluation.stages], abs=1e-9)


@examples(120)
@given(problem=uniform_problems(), seed=st.integers(0, 99))
def test_cuts_are_the_best_of_all(problem: ThroughputProblem, seed: int) -> None:
    """The table, the decisions, and the genetic decoder against all cuts of an order."""
    assume(blocks_refusal(problem, ThroughputOptions()) is None)
    blocks = make_blocks(problem)
    order = random_order(blocks, seed)
    cutter = Cutter(blocks, np.zeros(1, dtype=np.int64))
    expected = cuts(blocks, order, blocks.devices)
    table = np.empty((blocks.items + 1, blocks.devices + 1))
    cut_order(blocks, order, math.inf, None, table, np.empty(table.shape, dtype=np.int32), cutter.stop)
    assert table[-1, -1] == pytest.approx(expected, abs=1e-9)
    found = cutter.best(order)
    assert (math.inf if found is None else found[0]) == pytest.approx(expected, abs=1e-9)
    if found is None:
        return
    assert float(costs_of(blocks, found[1]).max()) == found[0]
    by_decisions = cutter._by_decisions(order, blocks.most, np.zeros(blocks.items, dtype=np.int32))
    assert by_decisions[0] == pytest.approx(expected, rel=1e-8, abs=1e-9)
    assert cutter.best(order, expected) is None
    better = cutter.best(order, expected * (1 + 1e-6) + 1e-6)
    assert better is not None
    assert better[0] == pytest.approx(expected, abs=1e-9)
    # The decoder with the keys that give this order.
    keys = np.empty((1, blocks.items))
    keys[0, order] = np.linspace(0, 1, blocks.items)
    values, orders = np.zeros(1), np.zeros((1, blocks.items), dtype=np.int32)
    above = np.array([1e-300, blocks.most])
    decode(blocks, keys, blocks.devices, False, above, values, orders, np.zeros(1, dtype=np.int64))
    assert (orders[0] == order).all()
    assert values[0] == pytest.approx(expected, abs=1e-9)


@examples(150)
@given(problem=uniform_problems(), seed=st.integers(0, 9))
def test_partition_annealing_finds_the_optimum(problem: ThroughputProblem, seed: int) -> None:
    """On tiny problems it hits what trying everything finds, with and without memory."""
    solver = PartitionAnnealing()
    assume(solver.supports(problem, ThroughputOptions()) is None)
    outcome = solver.solve(problem, ThroughputOptions(seed=seed), Monitor(5.0))
    best = brute_force.best(problem, "acyclic")
    if best is None:
        assert outcome.plan is None
        return
    assert outcome.plan is not None
    assert evaluate(problem, outcome.plan).objective == pytest.approx(best, abs=1e-9)


@examples(25)
@given(problem=uniform_problems(max_operators=8))
def test_orders_find_the_optimum(problem: ThroughputProblem) -> None:
    """So do enough random orders and the genetic search, because every partition is a cut of some order."""
    best = brute_force.best(problem, "acyclic")
    for solver in (RandomOrders(), Evolution()):
        assume(solver.supports(problem, ThroughputOptions()) is None)
        outcome = solver.solve(problem, ThroughputOptions(), Monitor(5.0))
        assert (outcome.plan is None) == (best is None)
        if outcome.plan is not None:
            assert evaluate(problem, outcome.plan).objective == pytest.approx(best, abs=1e-9)


@examples(30)
@given(problem=uniform_problems(), data=st.data())
def test_partitions_found_elsewhere_are_taken(problem: ThroughputProblem, data: st.DataObject) -> None:
    """A better partition is kept, a worse one is not, and one against the order raises."""
    assume(blocks_refusal(problem, ThroughputOptions()) is None)
    blocks = make_blocks(problem)
    search = PartitionSearch(blocks)
    order = random_order(blocks, 1)
    label = np.empty(blocks.items, dtype=np.int32)
    label[order] = sorted(data.draw(st.integers(0, blocks.devices - 1)) for _ in range(blocks.items))
    value = float(costs_of(blocks, label).max())
    assert search.offer(label) == (value < math.inf)
    assert search.value == value
    assert not search.offer(label)
    search.run(rounds=2)
    assert search.value <= value
    first = blocks.graph.succ_ptr[1] > 0
    if first and blocks.devices > 1:
        falling = np.zeros(blocks.items, dtype=np.int32)
        falling[0] = blocks.devices - 1
        with pytest.raises(ValueError, match="fall"):
            search.offer(falling)
