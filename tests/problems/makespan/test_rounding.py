"""Where rounding decides: memory at the very limit, and times that differ by many powers of ten."""

from __future__ import annotations

import pytest

import partita as pt
from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds import DEFAULT_BOUNDS
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import (
    Device,
    MakespanFlow,
    MakespanOperator,
    MakespanPlan,
    MakespanProblem,
    PlacedOperator,
)
from partita.problems.makespan.solvers.program import prove_by_program

needs_program = pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")

SOLVERS = [pytest.param(solver, marks=needs_program) for solver in ("exact", "cp-sat")]


def at_the_limit(share: float) -> MakespanProblem:
    """Two operators in a row that belong onto the first device, which has this share of what they hold."""
    link = ((0.0, 1.0), (1.0, 0.0))
    return MakespanProblem(
        name="at the limit",
        devices=(Device(name="fast", memory=9.0 * share), Device(name="slow")),
        operators=tuple(MakespanOperator(id=v, times=(1.0, 9.0), memory=4.5, colocation=0) for v in range(2)),
        flows=(MakespanFlow(id=0, source=0, target=1, times=link),),
    )


@pytest.mark.parametrize("share", [1 - 9e-10, 1 - 7e-10, 1 - 3e-10, 1.0])
@pytest.mark.parametrize("method", DEFAULT_BOUNDS, ids=lambda method: method.name)
def test_what_the_evaluator_takes_is_not_excluded(share: float, method: pt.BoundMethod) -> None:
    """A device may be a little more than full, as far as it is for the evaluator."""
    problem = at_the_limit(share)
    plan = MakespanPlan(
        operators={0: PlacedOperator(device=0, start=0.0, end=1.0), 1: PlacedOperator(device=0, start=1.0, end=2.0)},
        flows={},
    )
    assert evaluate(problem, plan).feasible
    if method.supports(problem) is None:
        assert 0 < method.bound(problem, Monitor(20.0)).value <= 2.0


@pytest.mark.parametrize("share", [1 - 9e-10, 1 - 7e-10, 1 - 3e-10, 1.0])
@pytest.mark.parametrize("solver", SOLVERS)
def test_memory_at_the_limit(share: float, solver: str) -> None:
    result = pt.solve(at_the_limit(share), solver=solver, explain=False, time_limit_s=30.0)
    assert result.status is pt.Status.OPTIMAL
    assert result.objective == pytest.approx(2.0)


def test_memory_above_the_limit() -> None:
    problem = at_the_limit(1 - 2e-9)
    assert build_instance(problem).choices == [[1]]


def uneven(long: float, short: float) -> MakespanProblem:
    """Two pairs on two devices; a slow device and a slow link take so much longer that nothing sees the rest beside."""
    rows = ((short, 2 * short, long), (3 * short, 2 * short, long), (2 * short, short, long), (short, short, long))
    matrix = ((0.0, short, long), (long, 0.0, long), (short, short, 0.0))
    return MakespanProblem(
        name="uneven",
        devices=tuple(Device(name=f"d{d}") for d in range(3)),
        operators=tuple(MakespanOperator(id=v, times=row) for v, row in enumerate(rows)),
        flows=tuple(
            MakespanFlow(id=f, source=u, target=v, times=matrix)
            for f, (u, v) in enumerate([(0, 1), (0, 2), (1, 3), (2, 3)])
        ),
    )


@pytest.mark.parametrize("ratio", [1e6, 1e12])
@pytest.mark.parametrize("unit", [1 / 3, 1e-30])
@pytest.mark.parametrize("solver", SOLVERS)
def test_times_that_differ_by_a_lot(ratio: float, unit: float, solver: str) -> None:
    result = pt.solve(uneven(ratio * unit, unit), solver=solver, explain=False, time_limit_s=30.0)
    assert result.status is pt.Status.OPTIMAL
    expected = pt.solve(uneven(100.0, 1.0), solver=solver, explain=False, time_limit_s=30.0)
    assert result.objective == pytest.approx((expected.objective or 0.0) * unit, rel=1e-6)


@needs_program
@pytest.mark.parametrize("ratio", [1e6, 1e12])
def test_the_model_from_nothing_becomes_finer(ratio: float) -> None:
    """Without a schedule to start from the longest times set the scale at first."""
    best = Incumbent[MakespanPlan]()
    problem = uneven(ratio / 3, 1 / 3)
    assert prove_by_program(build_instance(problem), best, lambda: False, time_s=30.0, options=MakespanOptions())
    assert best.closed
