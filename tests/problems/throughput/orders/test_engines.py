"""The engines of the searches: repeatable in slices, told to stop, and refused what they do not know."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from partita.engines.kernels.throughput.orders import cut_order
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.contraction.blocks import make_blocks, uniform
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.orders.genetic import Arrangement, Evolution, Genetic
from partita.problems.throughput.orders.order_run import Cutter, RandomOrders
from partita.problems.throughput.orders.partition_search import PartitionAnnealing, PartitionSearch
from partita.problems.throughput.problem import DeviceKind, TimedOperator
from partita.problems.throughput.protocol import Solver, ThroughputOptions
from partita.problems.throughput.solvers.exact import Exact
from running.soon import SOON_S

SOLVERS: tuple[Solver, ...] = (PartitionAnnealing(), RandomOrders(), Evolution(), Arrangement())


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_history_and_counters(solver: Solver) -> None:
    """Best values over time and counters are in the statistics, and the plan is worth the last of them."""
    problem = regal_problem(3, nodes=40, devices=4)
    solver.solve(
        regal_problem(3, nodes=10, devices=2), ThroughputOptions(), Monitor(60.0)
    )  # Compiling takes time, too.
    monitor = Monitor(0.5)
    outcome = solver.solve(problem, ThroughputOptions(), monitor)
    assert outcome.plan is not None
    assert outcome.bound is not None
    values = [event.objective for event in monitor.statistics.events if event.objective is not None]
    assert values == sorted(values, reverse=True)
    assert evaluate(problem, outcome.plan).objective == pytest.approx(values[-1], rel=1e-9)
    assert monitor.statistics.counters["orders"] > 0
    assert monitor.statistics.counters["orders_per_s"] > 0


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_other_devices_are_refused(solver: Solver) -> None:
    """Mixed devices and free splits get a sentence that names another solver."""
    problem = regal_problem(1, nodes=5)
    operators = tuple(TimedOperator(id=op.id, times=(*op.times, 1.0)) for op in problem.operators)
    mixed = problem.replace(kinds=(*problem.kinds, DeviceKind(name="other", count=1)), operators=operators)
    refusal = solver.supports(mixed, ThroughputOptions())
    assert refusal is not None
    assert "slicing" in refusal
    refusal = solver.supports(problem, ThroughputOptions(contiguity="free"))
    assert refusal is not None
    assert "annealing" in refusal
    refusal = solver.supports(problem.replace(communication="overlap"), ThroughputOptions())
    assert refusal is not None
    assert "exact" in refusal


def test_slices_of_time_change_nothing() -> None:
    """Many short runs make the same steps as one long one."""
    blocks = make_blocks(regal_problem(2, nodes=60, devices=4))
    whole, sliced = PartitionSearch(blocks, seed=5), PartitionSearch(blocks, seed=5)
    whole.run(rounds=4)
    while sliced.number < 4:
        sliced.run(seconds=1e-9, rounds=4 - sliced.number) or sliced.run(seconds=1e-4, rounds=4 - sliced.number)
    assert sliced.value == whole.value
    assert (sliced.label == whole.label).all()
    assert sliced.trials == whole.trials


def test_the_bounds_relaxation_can_be_searched() -> None:
    """Labels are of the items that the bounds know, and offers from elsewhere are kept."""
    problem = regal_problem(4, nodes=50, devices=4)
    relaxed = uniform(problem)
    blocks = relaxed._replace(devices=min(relaxed.devices, relaxed.items))
    search = PartitionSearch(blocks, seed=1)
    search.run(seconds=0.2)
    loads = [relaxed.load(search.label == block) for block in range(4)]
    assert max(loads) == pytest.approx(search.value, rel=1e-12)
    other = PartitionSearch(blocks, seed=2)
    assert other.offer(search.label)
    assert other.value == search.value
    with pytest.raises(ValueError, match="labels from 0 to 3"):
        other.offer(np.full(blocks.items, 4, dtype=np.int32))


def test_a_raised_flag_ends_the_work() -> None:
    """Nothing is done after the flag is raised, and a genetic generation ends between chromosomes."""
    blocks = make_blocks(regal_problem(2, nodes=60, devices=4))
    stop = np.ones(1, dtype=np.int64)
    assert not PartitionSearch(blocks, stop=stop).run(seconds=60.0)
    genetic = Genetic(blocks, 0, stop)
    assert not genetic.generation()
    assert genetic.order is None


def test_more_blocks_are_never_worse() -> None:
    """The table for all numbers of blocks falls along them, and agrees with the cut for one of them."""
    blocks = make_blocks(regal_problem(6, devices=8))
    cutter = Cutter(blocks, np.zeros(1, dtype=np.int64))
    order = cutter.order(np.random.default_rng(0).random(blocks.items))
    table = np.empty((blocks.items + 1, 65))
    cut_order(blocks, order, math.inf, None, table, np.empty(table.shape, dtype=np.int32), cutter.stop)
    values = table[-1]
    assert (np.diff(values[1:]) <= 0).all()
    found = cutter.best(order)
    assert found is not None
    assert found[0] == pytest.approx(values[8], rel=1e-12)


def test_generations_do_not_forget() -> None:
    """Fitness never rises, and the best order has it."""
    blocks = make_blocks(regal_problem(7, nodes=80, devices=4))
    stop = np.zeros(1, dtype=np.int64)
    genetic, cutter = Genetic(blocks, 0, stop, population=20), Cutter(blocks, stop)
    before = float("inf")
    for _ in range(10):
        better = genetic.generation()
        assert genetic.fitness < before if better else genetic.fitness == before
        before = genetic.fitness
    assert genetic.order is not None
    found = cutter.best(genetic.order)
    assert found is not None
    assert found[0] == pytest.approx(genetic.fitness, rel=1e-12)


@pytest.mark.parametrize("seed", [2, 3])
def test_proven_optima_are_found(seed: int) -> None:
    """What the exact solver proves on graphs of 30 operators, annealing finds in a second or two."""
    problem = regal_problem(seed, nodes=30, devices=4)
    outcome = Exact().solve(problem, ThroughputOptions(), Monitor(600.0))
    assert outcome.plan is not None
    assert outcome.bound is not None
    optimum = evaluate(problem, outcome.plan).objective
    assert outcome.bound >= optimum * (1 - 1e-6)
    search = PartitionSearch(make_blocks(problem), seed=0, low=optimum)
    search.run(seconds=5.0)
    assert search.value == pytest.approx(optimum, rel=1e-9)


def test_large_graphs_get_a_partition_soon() -> None:
    """5,000 operators on 8 devices: a partition within the limit and a little."""
    problem = regal_problem(1, nodes=5_000, family="layered", noise="operator", devices=8)
    blocks = make_blocks(problem)
    PartitionSearch(make_blocks(regal_problem(0, nodes=10))).run(rounds=1)
    started = time.perf_counter()
    search = PartitionSearch(blocks)
    search.run(seconds=1.0)
    assert search.value < float("inf")
    assert time.perf_counter() - started < SOON_S
