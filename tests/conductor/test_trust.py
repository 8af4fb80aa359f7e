"""Whatever a problem from elsewhere claims, the conductor says only what is proven, and raises where claims clash."""

from __future__ import annotations

from typing import Any

import pytest

import partita as pt
from partita.conductor.bound import proof
from partita.conductor.judge import adopt_better, judge_plan
from partita.conductor.sweep import grid, sweep
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.facets.sweep import Sweep
from partita.problems.outcome import Outcome
from toy.registered import registered
from toy.tasks import Branching, ListOrder, Options, Schedule, TaskProblem, Tasks

#: Best is 6 s: {5}, {3, 3}, {2, 2, 2}.
SIX = TaskProblem(name="six", machines=3, times=(3.0, 3.0, 2.0, 2.0, 2.0, 5.0))
BEST = Schedule((1, 1, 2, 2, 2, 0))
#: All on one machine: 17 s.
WORST = Schedule((0,) * 6)
#: Three tasks, and room for two.
FULL = TaskProblem(name="full", machines=2, times=(1.0, 1.0, 1.0), most_tasks=1)


class Says(Branching):
    """A solver with a given answer."""

    name = "says"

    def __init__(self, *answer: Any, **claims: Any) -> None:
        self.answer = Outcome(*answer, **claims)

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        """That."""
        return self.answer


class Careless(ListOrder):
    """The baseline, which does not look at what is asked for."""

    def supports(self, problem: TaskProblem, options: Options) -> str | None:
        """Everything."""
        return None


class Claims:
    """A bound of a given value."""

    name = "claims"
    summary = "a value"
    argument = "it says so"

    def __init__(self, value: float, scope: str = "") -> None:
        self.value, self.scope = value, scope

    def supports(self, problem: TaskProblem) -> str | None:
        """Every problem."""
        return None

    def bound(self, problem: TaskProblem, monitor: Monitor) -> Bound:
        """That."""
        return Bound(self.value, self.name, self.scope)


def kind(**parts: Any) -> Any:
    """Independent tasks with other parts, for a block of code."""
    usual = {"usual_solver": parts["solvers"][0].name} if "solvers" in parts else {}
    return registered(type("Changed", (Tasks,), usual | parts)())


def test_a_proof_of_all_plans_counts() -> None:
    """The same answers as below, without the flaw."""
    with kind(solvers=(Says(BEST, 6.0),)):
        assert pt.solve(SIX).status is pt.Status.OPTIMAL
    with kind(solvers=(Says(None, infeasible=True),)):
        assert pt.solve(FULL).status is pt.Status.INFEASIBLE


def test_a_lossy_answer_never_becomes_optimal() -> None:
    with kind(solvers=(Says(BEST, 6.0, lossless=False),)):
        result = pt.solve(SIX)
    assert result.objective == 6.0
    assert result.bound is None
    assert result.status is pt.Status.FEASIBLE
    assert result.stop_reason is pt.StopReason.FINISHED


def test_a_lossy_answer_never_becomes_infeasible() -> None:
    """Neither the status, nor the reason, nor the search for what would be enough."""
    with kind(solvers=(Says(None, infeasible=True, lossless=False),)):
        result = pt.solve(FULL)
    assert result.status is pt.Status.UNKNOWN
    assert result.stop_reason is not pt.StopReason.PROVED
    assert "no plan satisfies" not in result.reason


def test_a_lossy_solver_proves_no_bound() -> None:
    with kind(solvers=(Says(BEST, 6.0, lossless=False),)):
        with pytest.raises(pt.InputError, match="says proved no bound"):
            pt.bound(SIX, "says")
        # What holds by the listed bounds stays.
        assert pt.bound(SIX).value == 17.0 / 3
    with kind(solvers=(Says(None, infeasible=True, lossless=False),)):
        assert pt.bound(FULL).value == 1.5
        assert not proof(FULL).infeasible


def test_a_lossy_answer_of_a_point_says_nothing_about_others() -> None:
    """A sweep hands on proofs from point to point; there is none here."""

    class Fewer(Sweep[TaskProblem, Schedule]):
        def relaxes(self, easier: TaskProblem, harder: TaskProblem) -> bool:
            return easier.machines >= harder.machines and easier.times == harder.times

    lossy = Says(None, infeasible=True, lossless=False)
    with kind(solvers=(lossy,), baselines=(), sweep=property(Fewer)):
        swept = sweep(grid({"machines": (1, 2, 3)}), lambda point: Fewer(Tasks()).at(SIX, point))
    assert [point.result.status for point in swept.points] == [pt.Status.UNKNOWN] * 3


def test_a_proof_about_other_plans_is_none_about_these() -> None:
    """Consecutive plans are fewer: no better one among them, or none at all, says nothing about any plans."""
    for claim in (Says(BEST, 6.0, scope="consecutive"), Says(None, infeasible=True, scope="consecutive")):
        with kind(solvers=(claim,)):
            result = pt.solve(SIX)
        assert result.bound is None
        assert result.status is (pt.Status.UNKNOWN if claim.answer.plan is None else pt.Status.FEASIBLE)
    row = Schedule((0, 0, 1, 1, 1, 2))
    with kind(solvers=(Says(row, 6.0, scope=""),)):
        # What holds for all plans holds for fewer.
        assert pt.solve(SIX, assignment="consecutive").status is pt.Status.OPTIMAL


def test_a_bound_of_fewer_plans_is_not_the_best_of_all() -> None:
    """A value for consecutive plans is larger, and does not stand for all plans."""
    with kind(bounds=(Claims(6.5, "consecutive"), Claims(5.0))):
        found = pt.bound(SIX)
        assert found.value == 6.0
        assert found.scope == ""
        assert pt.bound(SIX, "claims").scope in ("", "consecutive")


def test_a_wrong_bound_is_a_defect() -> None:
    with kind(solvers=(Says(BEST, 6.5),)), pytest.raises(pt.DisagreementError, match=r"says claims bound 6\.5 above"):
        pt.solve(SIX)
    # Rounding is taken off, and no more than that.
    with kind(solvers=(Says(BEST, 6.0 * (1 + 0.9e-9)),)):
        result = pt.solve(SIX)
    assert result.bound is not None
    assert result.bound.value == 6.0


def test_an_infinite_bound_beside_a_plan_is_a_defect() -> None:
    with kind(solvers=(Says(BEST, float("inf")),)), pytest.raises(pt.DisagreementError):
        pt.solve(SIX)


def test_bounds_that_clash_with_a_plan_are_a_defect() -> None:
    """Of a listed bound and the search that comes after it, one is wrong."""
    with kind(bounds=(Claims(7.0),)), pytest.raises(pt.DisagreementError, match="claims"):
        pt.bound(SIX)
    with kind(bounds=(Claims(float("inf")),)), pytest.raises(pt.DisagreementError, match="claims"):
        pt.bound(SIX)


def test_a_plan_and_the_proof_that_there_is_none_are_a_defect() -> None:
    with kind(solvers=(Says(BEST, infeasible=True),)), pytest.raises(pt.DisagreementError, match="that there is none"):
        pt.solve(SIX)


def test_a_plan_that_fails_is_a_defect_of_a_solver() -> None:
    bad = Schedule((0, 0, 1))
    with kind(solvers=(Says(bad),)), pytest.raises(pt.DisagreementError, match="machine 0 takes 2 tasks, at most 1"):
        pt.solve(FULL)
    with kind(solvers=(Says(BEST),)), pytest.raises(pt.DisagreementError, match="do not follow one another"):
        pt.solve(SIX, assignment="consecutive")


def test_a_plan_that_fails_is_a_row_of_a_baseline() -> None:
    with kind():
        (row,) = pt.compare(FULL)
        assert not row.feasible
        assert row.note == "machine 0 takes 2 tasks, at most 1 fit"
        result = pt.solve(FULL, solver="list order")
    assert result.plan is None
    assert result.status is pt.Status.UNKNOWN
    assert result.reason == row.note


def test_a_baseline_better_than_what_is_proven_is_a_defect() -> None:
    with kind(solvers=(Says(WORST, 17.0),)):
        result = pt.solve(SIX)
        assert result.status is pt.Status.OPTIMAL
        row = judge_plan(SIX, "expert", "a plan from elsewhere", BEST)
        with pytest.raises(pt.DisagreementError, match=r"17\.0 above the known objective 6\.0"):
            adopt_better(result, [row], Options())
    with kind(solvers=(Says(None, infeasible=True),)):
        result = pt.solve(SIX)
        with pytest.raises(pt.DisagreementError, match="proved that there is no plan, but expert has one"):
            adopt_better(result, [row], Options())


def test_a_better_baseline_is_adopted_if_it_keeps_what_was_asked_for() -> None:
    with kind(solvers=(Says(WORST),), baselines=(Careless(),)):
        result = pt.solve(SIX)
        rows = pt.compare(SIX)
        assert adopt_better(result, rows, Options()).objective == 8.0
        row = pt.solve(SIX, assignment="consecutive")
        assert adopt_better(row, rows, Options(assignment="consecutive")).objective == 17.0
        by_hand = pt.solve(SIX, solver="list order", assignment="consecutive")
    assert by_hand.plan is None
    assert by_hand.reason == "a machine takes tasks that do not follow one another"


def test_no_answer_is_no_proof() -> None:
    with kind(solvers=(Says(None, reason="nothing applies"),)):
        result = pt.solve(SIX)
    assert result.status is pt.Status.UNKNOWN
    assert result.reason == "nothing applies"
