"""Bounds where each is made to be strong, against trying everything, and beside the critical path."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from instances.strategies import examples
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds import DEFAULT_BOUNDS
from partita.problems.makespan.bounds.chain import BlockBounds
from partita.problems.makespan.bounds.energetic import destructive_bound, refuted
from partita.problems.makespan.bounds.multipliers import multiplier_bound
from partita.problems.makespan.bounds.simple import simple_bound, work_bound
from partita.problems.makespan.generators import random_makespan_problem
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem
from partita.problems.makespan.separators import chain_of
from problems.makespan.brute_force import best_makespan
from problems.makespan.strategies import chain_problems
from problems.makespan.test_exact import FAMILIES, tight_chains


def link(time: float, devices: int = 2) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(0.0 if a == b else time for b in range(devices)) for a in range(devices))


def problem_of(
    times: list[tuple[float, ...]], edges: list[tuple[int, int, float]], memory: float | None = None
) -> MakespanProblem:
    """Operators of memory 1 on as many devices as they have times."""
    devices = len(times[0])
    return MakespanProblem(
        name="made",
        devices=tuple(Device(name=f"d{d}", memory=memory) for d in range(devices)),
        operators=tuple(MakespanOperator(id=v, times=row, memory=1.0) for v, row in enumerate(times)),
        flows=tuple(
            MakespanFlow(id=f, source=u, target=v, times=link(t, devices)) for f, (u, v, t) in enumerate(edges)
        ),
    )


@pytest.mark.parametrize("family", [*FAMILIES, "tight chains"])
def test_never_above_the_optimum(family: str) -> None:
    """All of them on the same problems; the energetic one is never below chains and work."""
    checked = [0]

    @examples(15)
    @given(tight_chains() if family == "tight chains" else FAMILIES[family])
    def run(problem: MakespanProblem) -> None:
        optimum = best_makespan(problem)
        found = {
            method.name: method.bound(problem, Monitor(20.0)).value
            for method in DEFAULT_BOUNDS
            if method.supports(problem) is None
        }
        for name, value in found.items():
            assert optimum is None or value <= optimum * (1 + 1e-9), (name, value, optimum)
        assert found["energetic"] >= found["critical path"]
        checked[0] += 1

    run()
    assert checked[0] >= 8


@pytest.mark.parametrize("family", ["layered", "wide", "branches", "series-parallel"])
@pytest.mark.parametrize("room", [None, 1.2])
def test_never_weaker_than_the_critical_path(family: str, room: float | None) -> None:
    """On problems with separators and without."""
    problem = random_makespan_problem(3, family=family, nodes=40, devices=3, room=room)
    instance = build_instance(problem)
    bounds = {m.name: m.bound(problem, Monitor(20.0)).value for m in DEFAULT_BOUNDS if m.supports(problem) is None}
    assert bounds["critical path"] == instance.critical > 0
    assert bounds["energetic"] >= simple_bound(instance)
    assert bounds.get("separators", math.inf) >= bounds["critical path"]


def test_producers_queue_at_a_device() -> None:
    """Three producers of 4, transfers of 4, and a reader: two of them share the device or its link, after all."""
    problem = problem_of([(4.0, 4.0)] * 3 + [(1.0, 1.0)], [(u, 3, 4.0) for u in range(3)])
    instance = build_instance(problem)
    # A chain is 4 + 1; on d the three take 12 of work and transfers, halved 6, and then 1.
    assert instance.critical == pytest.approx(7.0, rel=1e-6)
    free = build_instance(problem.replace(receiver_congestion=False))
    assert free.critical == pytest.approx(5.0, rel=1e-6)
    optimum = best_makespan(problem)
    assert optimum is not None
    assert optimum >= instance.critical


def test_readers_queue_at_a_device() -> None:
    """The same backwards; a reader of two results counts once, with both transfers."""
    problem = problem_of([(1.0, 1.0)] + [(4.0, 4.0)] * 3, [(0, v, 4.0) for v in (1, 2, 3)])
    assert build_instance(problem).critical == pytest.approx(7.0, rel=1e-6)
    twice = problem.replace(flows=(*problem.flows, MakespanFlow(id=9, source=0, target=1, times=link(4.0))))
    assert build_instance(twice).critical <= (best_makespan(twice) or 0.0) * (1 + 1e-9)
    assert build_instance(problem.replace(sender_congestion=False)).critical == pytest.approx(5.0, rel=1e-6)


def test_memory_is_priced() -> None:
    """Ten operators of 1 on a fast device and 4 on a slow one; the fast one has room for half of them."""
    times = [(1.0, 4.0)] * 10
    free, tight = build_instance(problem_of(times, [])), build_instance(problem_of(times, [], memory=5.0))
    assert work_bound(tight) == pytest.approx(8.0, rel=1e-2)
    assert multiplier_bound(free, Monitor()) == pytest.approx(8.0, rel=1e-2)
    # Five of them on the slow device.
    assert multiplier_bound(tight, Monitor()) > 19.9
    assert multiplier_bound(tight, Monitor()) <= 20.0


def test_memory_takes_devices_away() -> None:
    """What can only be on the first device fills it, so that the others are slow."""
    problem = problem_of([(1.0, 90.0), (1.0, 90.0), (1.0, 5.0)], [], memory=2.0)
    instance = build_instance(problem)
    assert simple_bound(instance) < 4.0
    assert destructive_bound(instance, simple_bound(instance), Monitor()) == pytest.approx(5.0, rel=2e-3)


def test_work_between_a_fork_and_a_join() -> None:
    """Neither the longest chain nor all work sees that four of 3 must run on two devices between two of 5."""
    times = [(5.0, 5.0)] + [(3.0, 3.0)] * 4 + [(5.0, 5.0)]
    edges = [(0, v, 0.0) for v in range(1, 5)] + [(v, 5, 0.0) for v in range(1, 5)]
    instance = build_instance(problem_of(times, edges))
    assert simple_bound(instance) == pytest.approx(13.0, rel=1e-6)
    assert destructive_bound(instance, 13.0, Monitor()) == pytest.approx(16.0, rel=2e-3)
    assert not refuted(instance, 16.0, Monitor(), np.zeros(1, dtype=np.int64))


def test_traffic_is_priced() -> None:
    """Sources stay on the first device; to move 2 of work to the second takes its receiving side 6."""
    made = problem_of([(0.0, 0.0)] * 8 + [(2.0, 2.0)] * 8, [(v, v + 8, 6.0) for v in range(8)])
    fixed = tuple(MakespanOperator(id=op.id, times=(0.0, None) if op.id < 8 else op.times) for op in made.operators)
    instance = build_instance(made.replace(operators=fixed))
    assert work_bound(instance) == pytest.approx(8.0, rel=1e-6)
    # Two of eight move.
    assert multiplier_bound(instance, Monitor()) == pytest.approx(12.0, rel=1e-2)
    assert multiplier_bound(instance, Monitor()) <= 12.0


def test_blocks_have_the_bounds_of_their_own_problems() -> None:
    """For every pair of devices of their ends, as if each were built by itself."""
    compared = [0]

    @examples(30)
    @given(chain_problems(blocks=(2, 3), most=3))
    def run(problem: MakespanProblem) -> None:
        chain = chain_of(build_instance(problem))
        for block in chain.blocks:
            bounds = BlockBounds(block)
            for source in range(2) if block.entry >= 0 else (-1,):
                for target in range(2) if block.exit >= 0 else (-1,):
                    expected = simple_bound(block.at(source, target))
                    assert bounds.bound(source, target) == pytest.approx(expected, rel=1e-9)
                    compared[0] += 1

    run()
    assert compared[0] >= 100


def test_limits_are_seen_by_blocks() -> None:
    """Classes, memory, and ends that cannot run somewhere."""
    compared = [0]

    @examples(20)
    @given(tight_chains())
    def run(problem: MakespanProblem) -> None:
        first = problem.operators[0]
        able = problem.replace(
            operators=(MakespanOperator(id=first.id, times=(None, 1.0), memory=first.memory), *problem.operators[1:])
        )
        chain = chain_of(build_instance(able))
        rows = chain.rows
        for k, block in enumerate(chain.blocks):
            bounds = BlockBounds(block)
            for source in rows[k]:
                for target in rows[k + 1]:
                    value, optimum = bounds.bound(source, target), best_makespan(block.problem(source, target))
                    # Members of the class of an end are with it, which is more than the block by itself says.
                    assert value >= simple_bound(block.at(source, target)) * (1 - 1e-9)
                    assert optimum is None or value <= optimum * (1 + 1e-9)
                    compared[0] += 1
            if block.entry == 0:
                # Where it runs is for the path to say: equal blocks have other entries.
                assert rows[k] == [1]
                here, there = (bounds.bound(d, rows[k + 1][0]) for d in (0, 1))
                assert math.isinf(here) == math.isinf(there)

    run()
    assert compared[0] >= 50
