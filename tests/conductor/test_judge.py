"""The judge: what an answer is worth, and what may be called proven.

The problem is a row of three operators of times 4, 1 and 3 with transfers of 1 between them, on two GPUs of 20 bytes:

=====================  =====================================  =========
split                  loads                                  objective
=====================  =====================================  =========
{0} | {1, 2}           4 + 1, 1 + 4                           5
{0, 1} | {2}           5 + 1, 1 + 3                           6
{0, 1, 2}              8                                      8
{0, 2} | {1}           7 + 2, 1 + 2, and not contiguous       9
=====================  =====================================  =========
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from partita.conductor.judge import (
    adopt,
    adopt_better,
    best_of,
    evaluate,
    explained,
    judge,
    judge_plan,
    judge_stated,
    proven,
    with_bound,
)
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Event, Result, Rival, Status, StopReason
from partita.ground.errors import DisagreementError, InputError
from partita.nouns.pipeline import Contiguity, Plan, Stage
from partita.problems import kind_of
from partita.problems.outcome import Outcome
from partita.problems.throughput.options import ThroughputOptions
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator

PROBLEM = ThroughputProblem(
    name="row",
    kinds=(DeviceKind(name="gpu", count=2, memory_bytes=20.0),),
    operators=tuple(TimedOperator(id=i, times=(time,), memory_bytes=6.0) for i, time in enumerate((4.0, 1.0, 3.0))),
    tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=1.0) for i in range(2)),
)


def split(*stages: tuple[int, ...], contiguity: Contiguity = "acyclic") -> Plan:
    return Plan(
        stages=tuple(Stage(devices=(f"gpu:{i}",), kind="gpu", operators=ids) for i, ids in enumerate(stages)),
        contiguity=contiguity,
    )


BEST, WORSE, ALONE = split((0,), (1, 2)), split((0, 1), (2,)), split((0, 1, 2))
TANGLED = split((0, 2), (1,), contiguity="free")
ACYCLIC, FREE = ThroughputOptions(seed=3), ThroughputOptions(contiguity="free")


class Named:
    """A solver that has already answered."""

    name, summary, argument = "oracle", "it knows", "it was told so"

    def supports(self, problem: Any, options: Any) -> str | None:
        return None

    def solve(self, problem: Any, options: Any, monitor: Monitor) -> Outcome[Any]:
        raise AssertionError("it is not asked again")


def judged(
    plan: Plan | None,
    bound: float | None = None,
    *,
    options: ThroughputOptions = ACYCLIC,
    trusted: bool = True,
    problem: ThroughputProblem = PROBLEM,
    monitor: Monitor | None = None,
    **fields: Any,
) -> Result[Any, Any, Any]:
    outcome = Outcome(plan, bound, **fields)
    return judge(problem, Named(), outcome, options, monitor or Monitor(), trusted=trusted)


def value_of(result: Result[Any, Any, Any]) -> tuple[float | None, float | None, str]:
    return result.objective, None if result.bound is None else result.bound.value, str(result.status)


class TestJudge:
    """What a solver hands back becomes a result."""

    def test_every_field(self) -> None:
        monitor = Monitor()
        monitor.statistics.counters["nodes"] = 4.0
        found = judged(BEST, 4.0, monitor=monitor, reason="not needed")
        assert found.problem is PROBLEM
        assert found.plan == BEST
        assert found.evaluation == evaluate(PROBLEM, BEST)
        assert found.bound is not None
        assert (found.bound.value, found.bound.method, found.bound.scope) == (4.0, "oracle", "acyclic")
        assert (found.status, found.stop_reason) == (Status.FEASIBLE, StopReason.FINISHED)
        assert (found.solver, found.seed, found.gap) == ("oracle", 3, 0.2)
        assert found.statistics is monitor.statistics
        assert found.runtime_s >= found.bound.runtime_s > 0

    def test_arguments(self) -> None:
        """Of a bound that of the method that proved it, or the solver's; of a result only where there is no plan."""
        capacity = kind_of(PROBLEM).argument("capacity")
        for method, argument in (("capacity", capacity), ("", "it was told so")):
            found = judged(BEST, 4.0, proven_by=method)
            assert found.bound is not None
            assert (found.bound.argument, found.argument) == (argument, "")
        assert judged(None, infeasible=True).argument == "it was told so"

    @pytest.mark.parametrize(("memory", "status"), [(20.0, Status.FEASIBLE), (5.0, Status.INFEASIBLE)])
    def test_a_plan_that_was_asked_for(self, memory: float, status: Status) -> None:
        problem = PROBLEM.replace(memory_bytes=memory)
        worth = evaluate(problem, BEST)
        assert judge_stated(problem, BEST, ACYCLIC) == Result(
            problem, BEST, worth, None, status, StopReason.FINISHED, "stated", 3, 0.0, "; ".join(worth.violations)
        )
        assert len(worth.violations) == (0 if status is Status.FEASIBLE else 2)

    def test_a_bound_that_meets_the_plan_proves_it(self) -> None:
        found = judged(BEST, 5.0)
        assert value_of(found) == (5.0, 5.0, "optimal")
        assert found.stop_reason is StopReason.PROVED

    @pytest.mark.parametrize(("bound", "status"), [(5 * (1 - 0.9e-6), "optimal"), (5 * (1 - 1.1e-6), "feasible")])
    def test_optimal_is_a_gap_of_a_millionth(self, bound: float, status: str) -> None:
        assert value_of(judged(BEST, bound)) == (5.0, bound, status)

    def test_rounding_above_the_plan_is_taken_off(self) -> None:
        assert value_of(judged(BEST, 5 * (1 + 0.9e-9))) == (5.0, 5.0, "optimal")

    @pytest.mark.parametrize("bound", [5 * (1 + 1.1e-9), 6.0, math.inf, math.nan])
    def test_a_bound_above_the_plan_is_a_contradiction(self, bound: float) -> None:
        with pytest.raises(DisagreementError, match=r"oracle claims bound .* above the known objective 5\.0"):
            judged(BEST, bound)

    def test_without_a_bound_nothing_is_proven(self) -> None:
        assert value_of(judged(BEST)) == (5.0, None, "feasible")

    def test_without_a_plan(self) -> None:
        found = judged(None, 4.0, reason="no time")
        assert value_of(found) == (None, 4.0, "unknown")
        assert (found.plan, found.evaluation, found.reason) == (None, None, "no time")
        assert found.stop_reason is StopReason.FINISHED

    def test_proven_to_have_none(self) -> None:
        found = judged(None, infeasible=True, reason="too small")
        assert (found.status, found.stop_reason) == (Status.INFEASIBLE, StopReason.PROVED)
        assert found.reason == "too small"

    def test_a_plan_where_there_is_none_is_a_contradiction(self) -> None:
        with pytest.raises(DisagreementError, match="oracle returned a plan, and says that there is none"):
            judged(BEST, infeasible=True)

    def test_stopped(self) -> None:
        monitor = Monitor()
        monitor.interrupt()
        assert judged(BEST, 4.0, monitor=monitor).stop_reason is StopReason.INTERRUPTED
        assert judged(BEST, 5.0, monitor=monitor).stop_reason is StopReason.PROVED


class TestReductions:
    """What is proven of something else is no proof."""

    def test_a_reduction_that_loses_plans(self) -> None:
        assert value_of(judged(BEST, 5.0, lossless=False)) == (5.0, None, "feasible")
        assert value_of(judged(None, 4.0, infeasible=True, lossless=False)) == (None, None, "unknown")
        assert value_of(judged(BEST, infeasible=True, lossless=False)) == (5.0, None, "feasible")
        assert value_of(judged(BEST, 7.0, lossless=False)) == (5.0, None, "feasible"), "no contradiction either"

    def test_other_plans_than_those_asked_for(self) -> None:
        """A bound on acyclic splits says nothing about free ones; the other way round it does."""
        assert value_of(judged(BEST, 5.0, options=FREE, scope="acyclic")) == (5.0, None, "feasible")
        assert value_of(judged(None, infeasible=True, options=FREE, scope="acyclic")) == (None, None, "unknown")
        found = judged(BEST, 5.0, scope="free")
        assert value_of(found) == (5.0, 5.0, "optimal")
        assert found.bound is not None
        assert found.bound.scope == "free"


class TestPlansThatFail:
    """A solver's is a defect, a baseline's is none."""

    small = PROBLEM.replace(memory_bytes=13.0)

    def test_limits(self) -> None:
        with pytest.raises(DisagreementError, match="oracle returned a plan that fails: stage 0 on gpu:0 needs 18 B"):
            judged(ALONE, problem=self.small)
        found = judged(ALONE, 4.0, problem=self.small, trusted=False)
        assert value_of(found) == (None, 4.0, "unknown")
        assert found.plan is None
        assert found.reason.startswith("stage 0 on gpu:0 needs 18 B")

    def test_contiguity(self) -> None:
        with pytest.raises(DisagreementError, match="fails: the split is not contiguous"):
            judged(TANGLED)
        found = judged(TANGLED, trusted=False)
        assert (found.plan, found.evaluation, found.reason) == (None, None, "the split is not contiguous")
        assert value_of(judged(TANGLED, options=FREE)) == (9.0, None, "feasible")

    def test_a_baselines_plan_that_fails_is_no_contradiction(self) -> None:
        found = judged(ALONE, infeasible=True, problem=self.small, trusted=False)
        assert found.status is Status.UNKNOWN

    def test_a_baseline_that_holds(self) -> None:
        assert value_of(judged(WORSE, trusted=False)) == (6.0, None, "feasible")

    def test_a_baseline_leaves_the_order_open(self) -> None:
        """Where memory is a peak, its plan gets an order in which operators can run; a solver's is taken as it is."""
        peaks = PROBLEM.replace(streaming=True, working_memory="peak", memory_bytes=math.inf)
        found = judged(split((2, 1, 0)), problem=peaks, trusted=False)
        assert found.plan.stages[0].operators == (0, 1, 2)
        with pytest.raises(DisagreementError, match="runs operator 1 before operator 0"):
            judged(split((2, 1, 0)), problem=peaks)

    def test_what_is_no_plan(self) -> None:
        with pytest.raises(InputError, match="operator 2 is in no stage"):
            judged(split((0, 1)))


class TestProven:
    """A bound beside an objective."""

    def test_nothing_known(self) -> None:
        assert proven(5.0, None) == (None, Status.FEASIBLE)

    def test_exactly_a_millionth_is_optimal(self) -> None:
        """(1000000 - 999999) / 1000000."""
        assert proven(1e6, Bound(999999.0, "m"))[1] is Status.OPTIMAL

    def test_other_fields_stay(self) -> None:
        bound = Bound(5 * (1 + 0.5e-9), "m", "free", 2.5)
        assert proven(5.0, bound) == (Bound(5.0, "m", "free", 2.5), Status.OPTIMAL)
        assert proven(5.0, Bound(4.0, "m")) == (Bound(4.0, "m"), Status.FEASIBLE)


def row(plan: Plan | None, name: str = "expert", **fields: Any) -> Rival:
    return replace(judge_plan(PROBLEM, name, "by hand", plan), **fields)


class TestRows:
    """Plans from anywhere."""

    def test_a_plan(self) -> None:
        found = judge_plan(PROBLEM, "expert", "by hand", BEST, 1.5, "unused")
        assert found == Rival("expert", "by hand", BEST, evaluate(PROBLEM, BEST), 1.5, "")
        assert found.feasible
        assert judge_plan(PROBLEM, "expert", "by hand", BEST).runtime_s == 0.0

    def test_a_plan_that_fails_is_kept_with_the_reason(self) -> None:
        found = judge_plan(TestPlansThatFail.small, "expert", "by hand", ALONE)
        assert not found.feasible
        assert found.plan == ALONE
        assert found.note.startswith("stage 0 on gpu:0 needs 18 B")

    def test_no_plan(self) -> None:
        assert judge_plan(PROBLEM, "e", "s", None, 2.0) == Rival(
            "e", "s", None, None, 2.0, "it finds no plan that fits"
        )
        assert judge_plan(PROBLEM, "e", "s", None, note="no layers").note == "no layers"

    def test_the_best_that_keeps_what_was_asked_for(self) -> None:
        rows = [row(ALONE, "a"), row(None, "b"), row(BEST, "c"), row(BEST, "d"), row(WORSE, "e")]
        found = best_of(rows, ACYCLIC)
        assert found is rows[2]
        assert best_of([row(TANGLED)], ACYCLIC) is None
        assert best_of([row(TANGLED)], FREE) is not None
        broken = judge_plan(TestPlansThatFail.small, "expert", "", ALONE)
        assert best_of([broken], ACYCLIC) is None
        assert best_of([], ACYCLIC) is None


class TestAdopting:
    """A better plan takes the place of a result's own."""

    def test_every_field(self) -> None:
        before = judged(WORSE, 4.0)
        before.statistics.counters["nodes"] = 2.0
        before.statistics.events.append(Event(0.0, 6.0, 4.0, "found"))
        found = adopt(replace(before, reason="unclear"), row(BEST), ACYCLIC)
        assert (found.plan, found.evaluation) == (BEST, evaluate(PROBLEM, BEST))
        assert value_of(found) == (5.0, 4.0, "feasible")
        assert (found.reason, found.solver) == ("", "oracle")
        assert [event.note for event in found.statistics.events] == ["found", "plan of expert adopted"]
        assert found.statistics.events[1] == Event(before.runtime_s, 5.0, 4.0, "plan of expert adopted")
        assert found.statistics.counters == {"nodes": 2.0}
        assert len(before.statistics.events) == 1, "what was is left alone"

    def test_without_a_bound(self) -> None:
        found = adopt(judged(WORSE), row(BEST), ACYCLIC)
        assert found.statistics.events[-1].bound is None
        assert value_of(found) == (5.0, None, "feasible")

    def test_the_plan_claims_what_was_asked_for(self) -> None:
        assert adopt(judged(WORSE, options=FREE), row(BEST), FREE).plan == split((0,), (1, 2), contiguity="free")

    def test_a_bound_that_meets_it(self) -> None:
        assert value_of(adopt(judged(WORSE, 5 * (1 + 0.5e-9)), row(BEST), ACYCLIC)) == (5.0, 5.0, "optimal")

    def test_contradictions(self) -> None:
        with pytest.raises(DisagreementError, match=r"oracle proved that there is no plan, but expert has one: 5\.0"):
            adopt(judged(None, infeasible=True), row(BEST), ACYCLIC)
        with pytest.raises(DisagreementError, match=r"oracle claims bound 5\.5 above the known objective 5\.0"):
            adopt(judged(WORSE, 5.5), row(BEST), ACYCLIC)


class TestAdoptingTheBest:
    """Only what is better takes the place, and nothing may contradict."""

    def test_better(self) -> None:
        found = adopt_better(judged(WORSE, 4.0), [row(ALONE, "a"), row(BEST, "b")], ACYCLIC)
        assert found.plan == BEST
        assert found.statistics.events[-1].note == "plan of b adopted"

    def test_the_first_plan(self) -> None:
        assert adopt_better(judged(None, 4.0), [row(ALONE)], ACYCLIC).plan == ALONE

    def test_no_better(self) -> None:
        before = judged(BEST, 4.0)
        for rows in ([row(BEST)], [row(WORSE)], [row(None)], [row(TANGLED)], []):
            assert adopt_better(before, rows, ACYCLIC) is before

    def test_better_by_rounding_is_no_better(self) -> None:
        """A billionth, relative, is no reason to change."""
        known = evaluate(PROBLEM, BEST)
        for share, taken in ((0.9e-9, False), (1e-9, False), (1.1e-9, True)):
            before = replace(
                judged(BEST),
                evaluation=type(known)(
                    **{
                        **{name: getattr(known, name) for name in known.__struct_fields__},
                        "objective": 5.0 / (1 - share),
                    }
                ),
            )
            assert (adopt_better(before, [row(BEST)], ACYCLIC) is not before) is taken

    def test_a_row_that_is_no_better_may_still_contradict(self) -> None:
        with pytest.raises(DisagreementError):
            adopt_better(replace(judged(BEST), bound=Bound(5.5, "wrong")), [row(BEST)], ACYCLIC)
        with pytest.raises(DisagreementError, match="there is no plan, but expert has one"):
            adopt_better(judged(None, infeasible=True), [row(ALONE)], ACYCLIC)

    def test_interrupted_meanwhile(self) -> None:
        before = judged(BEST, 4.0)
        found = adopt_better(before, [row(WORSE), row(None, interrupted=True)], ACYCLIC)
        assert found.stop_reason is StopReason.INTERRUPTED
        assert found.plan == BEST
        assert before.stop_reason is StopReason.FINISHED


class TestAnotherBound:
    """A tighter bound from elsewhere."""

    def test_tighter(self) -> None:
        found = with_bound(judged(BEST, 3.0), Bound(4.0, "other", "free"))
        assert found.bound == Bound(4.0, "other", "free")
        assert (found.status, found.stop_reason) == (Status.FEASIBLE, StopReason.FINISHED)
        assert with_bound(judged(BEST), Bound(4.0, "other")).bound == Bound(4.0, "other")

    def test_it_may_prove_the_plan(self) -> None:
        found = with_bound(judged(BEST, 3.0), Bound(5 * (1 + 0.5e-9), "other"))
        assert value_of(found) == (5.0, 5.0, "optimal")
        assert found.stop_reason is StopReason.PROVED

    def test_no_tighter(self) -> None:
        before = judged(BEST, 3.0)
        for bound in (None, Bound(3.0, "other"), Bound(2.0, "other")):
            assert with_bound(before, bound) is before

    def test_without_a_plan(self) -> None:
        found = with_bound(judged(None, 3.0), Bound(40.0, "other"))
        assert found.bound == Bound(40.0, "other")
        assert found.status is Status.UNKNOWN
        none = judged(None, infeasible=True)
        assert with_bound(none, Bound(40.0, "other")) is none

    def test_above_the_plan(self) -> None:
        with pytest.raises(DisagreementError, match=r"other claims bound 6\.0"):
            with_bound(judged(BEST, 3.0), Bound(6.0, "other"))


def test_bounds_are_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, certificate = kind_of(PROBLEM), DeviceKind(name="shown", count=1)
    monkeypatch.setattr(type(kind), "certify", staticmethod(lambda problem, bound: certificate))
    found = explained(PROBLEM, Bound(4.0, "capacity"))
    assert found == Bound(4.0, "capacity", argument=kind.argument("capacity"), certificate=certificate)
    assert found.argument
    other = Bound(4.0, "capacity", argument="as told", certificate=PROBLEM.kinds[0])
    assert explained(PROBLEM, other) == other


def test_evaluate_needs_a_problem() -> None:
    with pytest.raises(InputError, match="str is not a problem"):
        evaluate("row", BEST)
