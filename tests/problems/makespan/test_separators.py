"""Blocks between separators: what is known of one is used for its equals, wherever these stand."""

from __future__ import annotations

import random

import pytest

import partita as pt
from crosscheck.makespan_problems import FAMILIES
from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.chain import Separators
from partita.problems.makespan.bounds.simple import impossible
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.separators import chain_of
from partita.problems.makespan.solvers.path import ShortestPath

needs_program = pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")

Row = tuple[float | None, ...]


def repeated(
    ends: list[Row], inside: list[Row], edges: list[tuple[int, int]], link: tuple[tuple[float, ...], ...]
) -> MakespanProblem:
    """The same block between every two ends; in its edges 0 is the entry, then come the operators, then the exit."""
    operators, flows = [ends[0]], []
    for end in ends[1:]:
        entry = len(operators) - 1
        operators += [*inside, end]
        flows += [(entry + u, entry + v) for u, v in edges]
    return MakespanProblem(
        name="repeated",
        devices=tuple(Device(name=f"d{d}") for d in range(len(link))),
        operators=tuple(MakespanOperator(id=v, times=row) for v, row in enumerate(operators)),
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=link) for f, (u, v) in enumerate(flows)),
    )


#: By name a problem, whose separators run on few devices, and others at every place, and the optimum.
CASES: dict[str, tuple[MakespanProblem, float]] = {
    "two empty blocks": (
        repeated([(0.0, None), (10.0, 1.0), (None, 1.0)], [], [(0, 1)], ((0.0, 1.0), (1.0, 0.0))),
        3.0,
    ),
    "two pairs": (
        repeated(
            [(None, 0.0, None), (None, None, 2.0), (None, 2.0, None)],
            [(0.0, 3.0, 1.0), (2.0, 0.0, 1.0)],
            [(0, 1), (0, 2), (1, 3), (2, 3)],
            ((0.0, 2.0, 2.0), (2.0, 0.0, 2.0), (2.0, 1.0, 0.0)),
        ),
        10.0,
    ),
    "four of six": (
        repeated(
            [(1.0, 2.0, None), (0.0, 0.0, None), (1.0, None, None), (None, 2.0, 1.0), (1.0, None, None)],
            [(1.0, 3.0, 5.0), (5.0, 7.0, 8.0), (4.0, 9.0, 2.0), (4.0, 7.0, 4.0), (2.0, 4.0, 3.0), (5.0, 5.0, 2.0)],
            [*((0, v) for v in range(1, 7)), (1, 3), (2, 4), (2, 5), (2, 6), (5, 6), *((v, 7) for v in range(1, 7))],
            ((0.0, 8.0, 3.0), (5.0, 0.0, 7.0), (8.0, 2.0, 0.0)),
        ),
        95.0,
    ),
}


@needs_program
@pytest.mark.parametrize("name", CASES)
def test_equal_blocks_between_separators_of_few_devices(name: str) -> None:
    """Equal blocks are asked for other pairs of devices at every place."""
    problem, optimum = CASES[name]
    chain, best = chain_of(build_instance(problem)), Incumbent[MakespanPlan]()
    inner = [block for block in chain.blocks if block.entry >= 0 and block.exit >= 0]
    assert len(inner) >= 2
    assert len({block.key for block in inner}) == 1
    assert 0.5 * optimum < Separators().bound(problem, Monitor(30.0)).value <= optimum
    ShortestPath(chain, best, MakespanOptions(), Monitor(60.0)).close()
    assert best.closed
    assert best.value == pytest.approx(optimum)
    result = pt.solve(problem, solver="exact", explain=False, time_limit_s=60.0)
    assert result.status is pt.Status.OPTIMAL
    assert result.objective == pytest.approx(optimum)


#: Families whose blocks repeat between separators that differ, and others with separators.
DRAWN = (
    *("repeated", "repeated ties", "repeated zeros", "tiny repeated", "zeros", "past", "classes"),
    *("repeated memory", "repeated memory"),
)


@pytest.mark.parametrize("count", [90, pytest.param(240, marks=pytest.mark.slow)])
def test_chains_against_trying_everything(count: int) -> None:
    """Bounds and paths over separators stay below the optimum, and paths find it where nothing couples the blocks."""
    compared, closed, refuted = 0, 0, 0
    for seed in range(count):
        problem = FAMILIES[DRAWN[seed % len(DRAWN)]](random.Random(seed))
        instance, best = build_instance(problem), Incumbent[MakespanPlan]()
        chain = chain_of(instance)
        if not chain.helps or impossible(instance) is not None or not try_everything(instance, best, steps=200_000):
            continue
        compared += 1
        refuted += best.infeasible
        if seed % 6 == 0:
            least = Separators().bound(problem, Monitor(10.0)).value
            assert best.infeasible or 0 <= least <= best.value, seed
        if schedule_refusal() is not None:
            continue
        path = Incumbent[MakespanPlan]()
        ShortestPath(chain, path, MakespanOptions(threads=1), Monitor(10.0)).close()
        assert path.bound <= best.value, seed
        if path.closed and path.answer is not None:
            closed += 1
            assert path.value == pytest.approx(best.value, rel=1e-9), seed
    assert compared >= count * 5 / 8
    assert refuted >= count / 80
    assert schedule_refusal() is not None or closed >= count * 5 / 12
