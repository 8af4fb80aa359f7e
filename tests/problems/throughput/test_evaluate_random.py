"""evaluate against a second evaluator that shares no code with it, on plans of every kind."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from instances.strategies import examples, plans, throughput_problems
from partita.nouns.pipeline import Plan
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from second_opinions import brute_force, independent_evaluator

problems_with_plans = throughput_problems().flatmap(lambda p: st.tuples(st.just(p), plans(p)))


def _agree(problem: ThroughputProblem, plan: Plan) -> None:
    ours = evaluate(problem, plan)
    theirs = independent_evaluator.evaluate(problem, plan)
    event(f"feasible={theirs.feasible} acyclic={theirs.acyclic}")
    # Thirds of replicas are not exact; everything else is, so this forgives no more than rounding.
    assert [stage.load for stage in ours.stages] == pytest.approx([stage.load for stage in theirs.stages], rel=1e-12)
    assert [stage.memory.total for stage in ours.stages] == [stage.memory for stage in theirs.stages]
    assert [stage.in_flight for stage in ours.stages] == [stage.in_flight for stage in theirs.stages]
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-12)
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
    """The bottleneck's load is the objective (unless phases have their own), and no earlier stage has it."""
    evaluation = evaluate(*case)
    if case[0].gpipe:
        assert evaluation.objective >= evaluation.stages[evaluation.bottleneck].load
        return
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
                stage,
                devices=tuple(
                    f"{stage.kind}:{counts[stage.kind] - 1 - int(name.rpartition(':')[2])}" for name in stage.devices
                ),
            )
            for stage in plan.stages
        ),
        contiguity=plan.contiguity,
    )
    ours, other = evaluate(problem, plan), evaluate(problem, renamed)
    assert (ours.objective, ours.feasible, ours.acyclic) == (other.objective, other.feasible, other.acyclic)


VARIANTS = [(), ("overlap", "duplex"), ("replicas",), ("groups",), ("streaming",)]
VARIANTS += [("overlap", "duplex", "replicas", "streaming"), ("overlap", "duplex", "groups", "replicas")]


@pytest.mark.parametrize("variants", VARIANTS[1:], ids="-".join)
@given(data=st.data())
def test_evaluate_agrees_on_variants(variants: tuple[str, ...], data: st.DataObject) -> None:
    """Arbitrary plans of problems with variants, GPipe's objective among them."""
    problem = data.draw(throughput_problems(variants=variants))
    _agree(problem, data.draw(plans(problem)))


@pytest.mark.parametrize("variants", VARIANTS, ids=lambda v: "-".join(v) or "plain")
@given(data=st.data())
def test_brute_force_agrees_with_trying_every_plan(variants: tuple[str, ...], data: st.DataObject) -> None:
    """The brute force that solvers are held against equals the best of all plans, each evaluated on its own."""
    problem = data.draw(throughput_problems(max_operators=4, max_devices=3, variants=variants))
    for contiguity in ("acyclic", "free"):
        values = [
            answer.objective
            for plan in brute_force.all_plans(problem, contiguity)
            if (answer := independent_evaluator.evaluate(problem, plan)).feasible
        ]
        best = brute_force.best(problem, contiguity)
        assert (best is None) == (not values)
        assert best is None or best == pytest.approx(min(values), rel=1e-12)
