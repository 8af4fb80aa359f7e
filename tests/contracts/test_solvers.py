"""What every solver and baseline of every problem keeps, whatever it does inside.

A component joins by being in a list of its problem; there is nothing to add here. Baselines are solvers too, with one
licence: what they return may not fit, because they do not look.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.cases import (
    Case,
    all_kinds,
    at_most,
    equal,
    families_of,
    options_of,
    refusal,
    solver_cases,
)
from contracts.samples import samples_of
from partita.conductor.documents import result_document
from partita.conductor.judge import judge
from partita.documents.document import write_json
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Event, Result, Status, StopReason
from partita.problems.outcome import Outcome
from running.soon import SOON_S

CASES = solver_cases()

every_case = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
every_solver = pytest.mark.parametrize(
    "case", [case for case in CASES if case.trusted], ids=[case.id for case in CASES if case.trusted]
)
every_default = pytest.mark.parametrize(
    "case", [case for case in CASES if case.default], ids=[case.id for case in CASES if case.default]
)

#: Enough for a tiny problem; a solver that runs on until the clock stops it uses all of it.
TINY_S = 0.5

#: Enough for a proof on a tiny problem.
PROOF_S = 60.0

#: Baselines that fit few of the drawn problems; those of the typical ones are held against their plans.
RARE = {"hybrid-about-a-step-pure-tensor-parallel"}

#: Far too little.
NO_TIME_S = 1e-9


def run(case: Case, problem: Any, monitor: Monitor, options: Any = None) -> tuple[Outcome[Any], Result[Any, Any, Any]]:
    """Solve and judge; check what needs no optimum: the plan is one, keeps what was asked for, and nothing changed."""
    options = case.options if options is None else options
    before = msgspec.json.encode(problem)
    outcome = case.component.solve(problem, options, monitor)
    assert msgspec.json.encode(problem) == before, "the problem was changed"
    result = judge(problem, case.component, outcome, options, monitor, trusted=case.trusted)
    if outcome.plan is None:
        return outcome, result
    assert not outcome.infeasible, "a plan, and a proof that there is none"
    samples_of(case.kind.name).check(problem, outcome.plan, options)
    evaluation = case.kind.evaluate(problem, outcome.plan)
    assert options.unkept(evaluation) is None
    if outcome.bound is not None and evaluation.feasible:
        assert at_most(outcome.bound, evaluation.objective)
    return outcome, result


def check_against_optimum(case: Case, problem: Any, monitor: Monitor) -> Result[Any, Any, Any]:
    """Solve a tiny problem, and hold what is claimed against the optimum."""
    outcome, result = run(case, problem, monitor)
    optimum = samples_of(case.kind.name).optimum(problem, case.options)
    if outcome.infeasible:
        assert optimum is None, f"there is a plan with objective {optimum}"
    if optimum is None:
        assert result.plan is None, "trying everything finds no plan"
        return result
    scope = case.options.scope if outcome.scope is None else outcome.scope
    if outcome.lossless and case.options.covers(scope):
        for claimed in (outcome.bound, monitor.bound):
            assert claimed is None or at_most(claimed, optimum), f"bound {claimed} is above the optimum {optimum}"
    assert monitor.objective is None or at_most(optimum, monitor.objective), "an objective was reported that none has"
    if result.objective is not None:
        assert at_most(optimum, result.objective)
    if result.status is Status.OPTIMAL:
        assert equal(result.objective, optimum)
    return result


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.title)
def test_lists_hold_named_components(kind: Any) -> None:
    """Names pick one, and names and summaries can be shown on a line."""
    components = (*kind.solvers, *kind.baselines)
    names = [component.name for component in components]
    assert kind.solvers
    assert len(set(names)) == len(names)
    for component in components:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9', -]*", component.name), component.name
        assert component.summary
        assert "\n" not in component.summary


@pytest.mark.parametrize(
    ("kind", "component"),
    [(kind, component) for kind in all_kinds() for component in (*kind.solvers, *kind.baselines)],
    ids=lambda value: value.name.replace(" ", "-"),
)
def test_no_component_is_left_out(kind: Any, component: Any) -> None:
    """What takes on nothing that is tested would be tested by nothing."""
    said = [refusal(component, family.typical, options) for options in options_of(kind) for family in families_of(kind)]
    if all(sentence is not None and "pip install" in sentence for sentence in said):
        pytest.skip(f"{said[0]}")
    assert any(case.component is component for case in CASES), f"it takes on no problem of the samples: {said}"


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.title)
def test_whatever_is_asked_for_has_a_default(kind: Any) -> None:
    """Whatever the options, the default solver takes on the plainest problems, and with its own options all of them."""
    solvers = {solver.name: solver for solver in kind.solvers}
    families = families_of(kind)
    for options in options_of(kind):
        for family in families if options == kind.options() else families[:1]:
            chosen = solvers[kind.default_solver(family.typical, options)]
            assert refusal(chosen, family.typical, options) is None, family.name


@every_case
def test_a_typical_problem_gets_a_plan(case: Case) -> None:
    """Of every family that is taken on; of a baseline, one at least."""
    found = [check_against_optimum(case, family.typical, Monitor(PROOF_S, target=None)) for family in case.families]
    kept = [result.plan is not None for result in found]
    assert all(kept) if case.trusted else any(kept), [family.name for family in case.families]


@every_case
def test_claims_hold(case: Case) -> None:
    """Plans are plans, bounds are below the optimum, infeasible means that there is none, optimal means optimal."""

    def check(problem: Any) -> bool:
        return check_against_optimum(case, problem, Monitor(TINY_S)).plan is not None

    # Some baselines fit few of the problems.
    planned = any(case.over(count, check) for count in (16, 40, 140))
    assert planned or case.id in RARE, f"{case.id} made no plan for any of the problems"


@every_case
def test_claims_hold_without_time(case: Case) -> None:
    """With no time at all it may find nothing, but it raises nothing and claims nothing wrong."""

    def check(problem: Any) -> bool:
        check_against_optimum(case, problem, Monitor(NO_TIME_S))
        return True

    case.over(15, check)


@every_default
def test_the_default_proves_tiny_problems(case: Case) -> None:
    """What is used if nothing is said finds the optimum and proves it, or proves that there is no plan."""

    def check(problem: Any) -> bool:
        monitor = Monitor(PROOF_S)
        result = check_against_optimum(case, problem, monitor)
        assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
        assert result.stop_reason is StopReason.PROVED
        return result.status is Status.OPTIMAL

    assert case.over(20, check)


@every_solver
def test_infeasible_problems_have_no_plan(case: Case) -> None:
    """The default says so; others do not claim otherwise."""
    if not samples_of(case.kind.name).infeasible:
        pytest.skip(f"every {case.kind.name} problem has a plan")
    problems = [problem for problem in samples_of(case.kind.name).infeasible if case.accepts(problem)]
    assert problems, "it takes on none of the infeasible problems"
    for problem in problems:
        assert samples_of(case.kind.name).optimum(problem, case.options) is None
        _, result = run(case, problem, Monitor(TINY_S if not case.default else PROOF_S))
        assert result.plan is None
        if case.default:
            assert result.status is Status.INFEASIBLE
            assert case.kind.explain_infeasible(problem, case.component, case.options)


@every_case
def test_same_seed_same_plan(case: Case) -> None:
    """Twice the same, unless the clock stopped it."""
    options = msgspec.structs.replace(case.options, seed=7)

    def check(problem: Any) -> bool:
        monitors = [Monitor(PROOF_S), Monitor(PROOF_S)]
        (first, _), (second, _) = (run(case, problem, monitor, options) for monitor in monitors)
        if all(monitor.remaining_s > 0 for monitor in monitors):
            assert first == second
            return True
        return False

    assert case.over(8, check), "the clock stopped it every time"


@every_case
def test_time_limit_is_kept(case: Case) -> None:
    """On large problems the run ends soon after its limit."""
    assert case.large, "it takes on none of the large problems"
    case.warm()
    for problem in case.large:
        monitor = Monitor(0.3)
        run(case, problem, monitor)
        assert monitor.elapsed_s < SOON_S


@every_case
def test_interrupted_before_it_starts(case: Case) -> None:
    """It returns at once, with a plan or without."""
    case.warm()
    monitor = Monitor()
    monitor.interrupt()
    started = time.perf_counter()
    _, result = run(case, case.large[0], monitor)
    assert time.perf_counter() - started < SOON_S
    assert result.stop_reason in (StopReason.INTERRUPTED, StopReason.PROVED)


@every_solver
def test_interrupted_by_its_own_progress(case: Case) -> None:
    """A caller that has seen enough stops the run from the progress callback and gets the best plan so far."""
    case.warm()
    seen: list[float] = []

    def enough(event: Event) -> None:
        if event.objective is not None:
            seen.append(event.objective)
            monitor.interrupt()

    monitor = Monitor(4 * SOON_S, enough)
    outcome, result = run(case, case.large[0], monitor)
    assert seen, "it reported no plan"
    assert monitor.elapsed_s < SOON_S
    assert outcome.plan is not None
    assert at_most(result.objective, seen[0])


@every_case
def test_history_agrees_with_the_outcome(case: Case) -> None:
    """Objectives fall and bounds rise along the events, and the outcome is no worse than the last event."""
    for problem in case.large:
        monitor = Monitor(TINY_S)
        _, result = run(case, problem, monitor)
        events = monitor.statistics.events
        objectives = [event.objective for event in events if event.objective is not None]
        bounds = [event.bound for event in events if event.bound is not None]
        assert objectives == sorted(objectives, reverse=True)
        assert bounds == sorted(bounds)
        assert objectives or result.plan is None or not case.trusted, "a plan came without a report"
        if objectives:
            assert result.objective is not None
            assert at_most(result.objective, objectives[-1])
        if bounds and result.plan is not None:
            assert at_most(bounds[-1], result.objective)


@every_case
def test_plans_survive_a_result_file(case: Case, tmp_path: Path) -> None:
    """Written and read again, a plan is worth the same."""
    written = 0
    for family in case.families:
        problem = family.typical
        _, result = run(case, problem, Monitor(PROOF_S))
        if result.plan is None:
            continue
        path = tmp_path / f"{family.name.replace(' ', '-')}.json"
        write_json(path, result_document(result))
        plan = case.kind.files.read_plan(path, problem)
        assert case.kind.evaluate(problem, plan) == result.evaluation
        written += 1
    assert written, "it has no plan for any typical problem"
