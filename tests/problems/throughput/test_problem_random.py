"""Problems, plans and graphs as files, and changes to problems."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import graphs, plans, throughput_problems
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Plan
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem

problems_with_plans = throughput_problems().flatmap(lambda p: st.tuples(st.just(p), plans(p)))


@given(problems_with_plans)
def test_problems_and_plans_survive_json(case: tuple[ThroughputProblem, Plan]) -> None:
    """Written and read again they are equal, and so is what the plan is worth."""
    problem, plan = case
    again = msgspec.json.decode(msgspec.json.encode(problem), type=ThroughputProblem)
    plan_again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert again == problem
    assert plan_again == plan
    assert evaluate(again, plan_again) == evaluate(problem, plan)
    assert msgspec.json.encode(again) == msgspec.json.encode(problem)


@given(graphs())
def test_graphs_survive_json(graph: Graph) -> None:
    """Written and read again it is equal."""
    assert msgspec.json.decode(msgspec.json.encode(graph), type=Graph) == graph


@given(throughput_problems())
def test_replacing_nothing_changes_nothing(problem: ThroughputProblem) -> None:
    """A copy equals its original."""
    assert problem.replace() == problem


@given(problems_with_plans, st.integers(0, 3))
def test_more_devices_keep_every_plan(case: tuple[ThroughputProblem, Plan], more: int) -> None:
    """Devices that a plan does not use change nothing about it."""
    problem, plan = case
    kinds = tuple(msgspec.structs.replace(kind, count=kind.count + more) for kind in problem.kinds)
    assert evaluate(problem.replace(kinds=kinds), plan) == evaluate(problem, plan)


@given(problems_with_plans)
def test_without_memory_limits_nothing_is_over_memory(case: tuple[ThroughputProblem, Plan]) -> None:
    """An infinite limit removes exactly the violations of limits; objectives stay."""
    problem, plan = case
    unlimited = problem.replace(memory_bytes=math.inf)
    assert all(kind.memory_bytes is None for kind in unlimited.kinds)
    before, after = evaluate(problem, plan), evaluate(unlimited, plan)
    assert after.objective == before.objective
    assert set(after.violations) <= set(before.violations)
    lost = set(before.violations) - set(after.violations)
    over = [s for s in before.stages if s.memory.limit is not None and s.memory.total > s.memory.limit]
    assert len(lost) == len(over)
