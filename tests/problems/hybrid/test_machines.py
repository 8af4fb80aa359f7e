"""The exact solver on machines of several devices, against trying everything."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.descriptor import STEADY
from partita.problems.hybrid.explain import explain_infeasible
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.report.limits import hybrid_sentences
from partita.problems.hybrid.report.tables import plan_tables, slowest_stage
from partita.problems.hybrid.steady.solvers import decision, exact
from partita.problems.hybrid.steady.solvers.exact import HybridExact
from problems.hybrid.brute_force_machines import best_objective_on_machines
from problems.hybrid.check_exact import EQUAL, check_exact
from problems.hybrid.strategies import hybrid_problems, machine_problems


def check_against_everything(problem: HybridProblem) -> None:
    check_exact(problem, best_objective_on_machines(problem))


@given(machine_problems())
@settings(max_examples=60)
def test_equals_trying_everything(problem: HybridProblem) -> None:
    check_against_everything(problem)


@pytest.mark.slow
@given(machine_problems())
@settings(max_examples=1000, derandomize=False)
def test_equals_trying_everything_often(problem: HybridProblem) -> None:
    check_against_everything(problem)


@given(machine_problems())
@settings(max_examples=30)
def test_a_plan_from_a_few_orders_changes_nothing(problem: HybridProblem) -> None:
    """Large graphs are first planned along a few orders; small ones are here made to take that way, too."""
    with mock.patch.object(exact, "FEW_SETS", 0):
        check_against_everything(problem)


@given(machine_problems(), st.booleans())
@settings(max_examples=30)
def test_times_that_are_not_remembered_change_nothing(problem: HybridProblem, few: bool) -> None:
    """Many stages, or many counts of microbatches in flight, leave no room to remember their times."""
    with mock.patch.object(decision, "_MOST_STAGES" if few else "_MOST_TIMES", 0):
        check_against_everything(problem)


@given(hybrid_problems(max_layers=4, max_devices=4))
@settings(max_examples=40)
def test_one_machine_is_the_flat_problem(problem: HybridProblem) -> None:
    machine = Hierarchy(devices_per_machine=problem.devices, machine_bandwidth_bytes_per_unit=1e-3)
    flat = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    nested = HybridExact().solve(problem.replace(hierarchy=machine), HybridOptions(), Monitor(600.0))
    assert flat.infeasible == nested.infeasible
    if flat.plan is not None:
        assert nested.plan is not None
        best = evaluate(problem, flat.plan).objective
        assert evaluate(problem.replace(hierarchy=machine), nested.plan).objective == pytest.approx(best, rel=EQUAL)


def small_machines(**changes: Any) -> HybridProblem:
    """Six layers of 4 bytes on machines of two devices with 8 bytes each."""
    way = Configuration(id="c", time=1.0, weight_bytes=2.0, memory_bytes=4.0)
    problem = HybridProblem(
        name="row",
        devices=2,
        memory_bytes=8.0,
        bandwidth_bytes_per_unit=100.0,
        microbatches=8,
        layers=tuple(Layer(id=v, configurations={1: (way,)}) for v in range(6)),
        edges=tuple(Edge(source=v, target=v + 1, bytes=1.0) for v in range(5)),
        hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=100.0),
    )
    return problem.replace(**changes)


def test_infeasible_machines_say_how_many_would_do() -> None:
    """Three devices hold all layers, two a machine."""
    for devices in (1, 2):
        reason = explain_infeasible(STEADY, small_machines(devices=devices))
        assert "the smallest count that fits is 2 machines of 2 devices" in reason
        assert "the smallest memory per device that fits is about" in reason
    assert "machines" not in explain_infeasible(STEADY, small_machines(memory_bytes=3.0))


def test_reports_show_the_links_between_machines() -> None:
    problem = small_machines(
        devices=4, hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=0.1)
    )
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(60.0))
    assert outcome.plan is not None
    found = evaluate(problem, outcome.plan)
    assert slowest_stage(found) is None
    screen = Console(width=160, file=io.StringIO())
    screen.print(*plan_tables(problem, outcome.plan, found))
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "Links between machines: 2 of 2 machines" in text
    stages, links = text.split("Links between machines")
    assert "◀" not in stages
    assert "◀" in links
    assert any("are the bottleneck" in line for line in hybrid_sentences(problem, outcome.plan, found))
    fast = problem.replace(hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=1e6))
    assert slowest_stage(evaluate(fast, outcome.plan)) is not None
    assert len(plan_tables(problem.replace(hierarchy=None), outcome.plan, found)) == 1
