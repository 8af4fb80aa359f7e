"""Small problems are closed, by the default solver and without ortools, as trying everything plainly says."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given

import partita as pt
from crosscheck.makespan_problems import FAMILIES as DRAWN
from crosscheck.makespan_problems import TINY
from instances.strategies import examples
from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.improving import try_everything
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from problems.makespan.brute_force import best_makespan
from problems.makespan.test_exact import FAMILIES, tight_chains

needs_program = pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")


@pytest.mark.parametrize("family", [*FAMILIES, "tight chains"])
def test_against_trying_everything_plainly(family: str) -> None:
    checked, infeasible = [0], [0]

    @examples(40)
    @given(tight_chains() if family == "tight chains" else FAMILIES[family])
    def run(problem: MakespanProblem) -> None:
        best, optimum = Incumbent[MakespanPlan](), best_makespan(problem)
        assert try_everything(build_instance(problem), best)
        checked[0] += 1
        infeasible[0] += optimum is None
        if optimum is None:
            assert best.infeasible
        else:
            assert best.value == pytest.approx(optimum, rel=1e-12)
            assert best.closed
            assert best.bound <= optimum

    run()
    assert checked[0] >= 20
    assert family != "limits" or infeasible[0] >= 1


def test_schedules_below_a_limit_only() -> None:
    """Nothing below the optimum, which is then a bound; and the optimum where a little more is allowed."""
    proven = found = 0
    for seed in range(160):
        problem = DRAWN["tiny repeated"](random.Random(seed))
        optimum = best_makespan(problem) if len(problem.operators) <= 5 and len(problem.flows) <= 6 else None
        if not optimum:
            continue
        instance, best = build_instance(problem), Incumbent[MakespanPlan]()
        assert try_everything(instance, best, most=optimum)
        assert best.answer is None
        assert best.bound == pytest.approx(optimum, rel=1e-12)
        assert best.bound <= optimum
        proven += 1
        best = Incumbent[MakespanPlan]()
        assert try_everything(instance, best, most=1.01 * optimum)
        assert best.value == pytest.approx(optimum, rel=1e-12)
        found += best.closed
    assert min(proven, found) >= 20


@pytest.mark.parametrize("seed", [*range(6), 30422, 33612])
def test_the_schedule_is_as_long_as_it_is_said_to_be(seed: int) -> None:
    """Operators without time stand where others begin and end, and rounding must not change who is first."""
    best = Incumbent[MakespanPlan]()
    assert try_everything(build_instance(DRAWN["relays real"](random.Random(seed))), best)
    assert best.closed


def test_it_gives_up() -> None:
    """After so many steps nothing is proven, and what is too large is not begun."""
    problem = DRAWN["relays"](random.Random(3))
    best = Incumbent[MakespanPlan]()
    assert not try_everything(build_instance(problem), best, steps=20)
    assert best.bound == 0
    many = problem.replace(
        operators=tuple(msgspec.structs.replace(problem.operators[0], id=v) for v in range(40)), flows=()
    )
    assert not try_everything(build_instance(many.replace(precedence=())), best)
    assert best.answer is None


@pytest.mark.parametrize("solver", [pytest.param(None, marks=needs_program), "annealing"])
def test_tiny_problems_are_closed(solver: str | None) -> None:
    """Hundreds, with zeros, ratios of up to 10¹², limits, classes, blocks: proven, and as trying everything says."""
    optimal = infeasible = 0
    for seed in range(600):
        problem = DRAWN[TINY[seed % len(TINY)]](random.Random(seed))
        if len(problem.operators) > 6 or len(problem.devices) ** len(problem.operators) > 300 or len(problem.flows) > 7:
            continue
        optimum = best_makespan(problem)
        result = pt.solve(problem, solver=solver, explain=False, time_limit_s=20.0)
        assert result.stop_reason is pt.StopReason.PROVED, (seed, result.status, result.objective, result.bound)
        if optimum is None:
            assert result.status is pt.Status.INFEASIBLE
            infeasible += 1
        else:
            assert result.status is pt.Status.OPTIMAL
            assert result.objective == pytest.approx(optimum, rel=1e-9)
            optimal += 1
    assert optimal >= 150
    assert infeasible >= 10
