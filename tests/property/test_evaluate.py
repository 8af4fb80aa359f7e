"""evaluate against a second evaluator that shares no code with it, on plans of every kind."""

from __future__ import annotations

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

import brute_force
import independent_evaluator
from partita.throughput.evaluate import evaluate
from partita.throughput.plan import Plan
from partita.throughput.problem import ThroughputProblem
from strategies import examples, plans, throughput_problems

problems_with_plans = throughput_problems().flatmap(lambda p: st.tuples(st.just(p), plans(p)))


def _agree(problem: ThroughputProblem, plan: Plan) -> None:
    ours = evaluate(problem, plan)
    theirs = independent_evaluator.evaluate(problem, plan)
    event(f"feasible={theirs.feasible} acyclic={theirs.acyclic}")
    assert [stage.load for stage in ours.stages] == [stage.load for stage in theirs.stages]
    assert [stage.memory.total for stage in ours.stages] == [stage.memory for stage in theirs.stages]
    assert [stage.in_flight for stage in ours.stages] == [stage.in_flight for stage in theirs.stages]
    assert ours.objective == theirs.objective
    assert ours.acyclic == theirs.acyclic
    assert ours.feasible == theirs.feasible
    assert ours.feasible == (not ours.violations)


@examples(250)
@given(problems_with_plans)
def test_evaluate_agrees_on_arbitrary_plans(case: tuple[ThroughputProblem, Plan]) -> None:
    """Valid plans and plans that break classes, memory, order or support."""
    _agree(*case)


@examples(100)
@given(throughput_problems(max_operators=5, max_devices=3, unsupported=False), st.sampled_from(["acyclic", "free"]))
def test_evaluate_agrees_on_every_plan_of_tiny_problems(problem: ThroughputProblem, contiguity: str) -> None:
    """All plans that keep classes, so that feasible ones are well represented."""
    for plan in brute_force.all_plans(problem, contiguity):
        _agree(problem, plan)


@given(problems_with_plans)
def test_bottleneck_is_the_first_stage_with_the_objective(case: tuple[ThroughputProblem, Plan]) -> None:
    """The bottleneck's load is the objective, and no earlier stage has it."""
    evaluation = evaluate(*case)
    loads = [stage.load for stage in evaluation.stages]
    assert evaluation.bottleneck == loads.index(evaluation.objective)


@given(problems_with_plans)
def test_renaming_devices_of_a_kind_changes_nothing(case: tuple[ThroughputProblem, Plan]) -> None:
    """Devices of a kind are alike: counted from the other end they give the same values."""
    problem, plan = case
    counts = {kind.name: kind.count for kind in problem.kinds}
    renamed = Plan(
        stages=tuple(
            msgspec.structs.replace(
                stage, device=f"{stage.kind}:{counts[stage.kind] - 1 - int(stage.device.rpartition(':')[2])}"
            )
            for stage in plan.stages
        ),
        contiguity=plan.contiguity,
    )
    ours, other = evaluate(problem, plan), evaluate(problem, renamed)
    assert (ours.objective, ours.feasible, ours.acyclic) == (other.objective, other.feasible, other.acyclic)


@given(throughput_problems(max_operators=5, max_devices=3))
def test_brute_force_agrees_with_trying_every_plan(problem: ThroughputProblem) -> None:
    """The brute force that solvers are held against equals the best of all plans, each evaluated on its own."""
    for contiguity in ("acyclic", "free"):
        values = [
            answer.objective
            for plan in brute_force.all_plans(problem, contiguity)
            if (answer := independent_evaluator.evaluate(problem, plan)).feasible
        ]
        assert brute_force.best(problem, contiguity) == min(values, default=None)
