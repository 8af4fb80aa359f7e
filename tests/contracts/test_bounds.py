"""What every lower bound of every problem keeps: it is never above what it bounds, however early it is stopped.

A bound joins by being in the list of its problem; there is nothing to add here.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import msgspec
import pytest

from contracts.cases import Case, all_kinds, at_most, bound_cases, families_of, options_of, refusal
from contracts.samples import samples_of
from partita.conductor.compare import run_baselines
from partita.conductor.judge import best_of
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from running.soon import SOON_S

CASES = bound_cases()

every_bound = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])


def compute(case: Case, problem: Any, monitor: Monitor) -> tuple[Bound, list[Any]]:
    """The bound, and all options whose plans it holds for; the problem stays as it is."""
    before = msgspec.json.encode(problem)
    bound = case.component.bound(problem, monitor)
    assert msgspec.json.encode(problem) == before, "the problem was changed"
    assert bound.method == case.component.name
    assert not math.isnan(bound.value)
    wanted = options_of(case.kind)
    covered = [options for options in wanted if options.covers(bound.scope)]
    assert covered, f"it holds for {bound.scope!r}, which nobody asks for"
    # It may hold for more than it declares.
    assert all(options in covered for options in wanted if options.covers(case.component.scope))
    return bound, covered


def check(case: Case, problem: Any, monitor: Monitor) -> bool:
    """Never above the optimum of what it is valid for; whether it says anything."""
    bound, covered = compute(case, problem, monitor)
    for options in covered:
        optimum = samples_of(case.kind.name).optimum(problem, options)
        if math.isinf(bound.value):
            assert bound.value > 0
            assert optimum is None, f"infinite says that there is no plan, but there is one with objective {optimum}"
        elif optimum is not None:
            assert at_most(bound.value, optimum), f"{bound.value} is above the optimum {optimum}"
    return bound.value > 0


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.title)
def test_names_pick_one(kind: Any) -> None:
    """Names are no solver's, and names and summaries can be shown on a line."""
    names = [component.name for component in kind.bounds]
    assert len(set(names)) == len(names)
    assert all(names)
    assert all(component.summary and "\n" not in component.summary for component in kind.bounds)


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.title)
def test_who_proves_something_says_how(kind: Any) -> None:
    """In a sentence that does not need the code."""
    silent = [solver for solver in kind.solvers if "proves nothing" in solver.summary and not solver.argument]
    listed = [component for component in (*kind.bounds, *kind.solvers) if component not in silent]
    assert len(listed) >= len(kind.bounds) + 1
    for component in listed:
        assert len(component.argument.split()) >= 5, component.name
        assert "\n" not in component.argument
        assert kind.argument(component.name)
    assert kind.argument("nobody") == ""


@pytest.mark.parametrize(
    ("kind", "component"),
    [(kind, bound) for kind in all_kinds() for bound in kind.bounds],
    ids=lambda value: value.name,
)
def test_no_bound_is_left_out(kind: Any, component: Any) -> None:
    """What takes on nothing that is tested would be tested by nothing."""
    said = [refusal(component, family.typical, None) for family in families_of(kind)]
    if all(sentence is not None and "pip install" in sentence for sentence in said):
        pytest.skip(f"{said[0]}")
    assert any(case.component is component for case in CASES), f"it takes on no problem of the samples: {said}"


@every_bound
def test_never_above_the_optimum(case: Case) -> None:
    """On tiny problems with every feature that it takes on."""
    assert case.over(40, lambda problem: check(case, problem, Monitor(5.0))), "it never proved anything"


@every_bound
def test_never_above_the_optimum_without_time(case: Case) -> None:
    """A bound that is stopped early is weak, not wrong."""

    def without_time(problem: Any) -> bool:
        stopped = Monitor()
        stopped.interrupt()
        check(case, problem, Monitor(1e-9))
        return check(case, problem, stopped)

    case.over(20, without_time)


@cache
def best_by_hand(kind: str, number: int, options: Any) -> float | None:
    """The best that the baselines make of a large problem; None if nothing."""
    best = best_of(run_baselines(samples_of(kind).large[number], options, 1.5), options)
    return None if best is None else float(best.evaluation.objective)


@every_bound
def test_never_above_a_plan_of_a_larger_problem(case: Case) -> None:
    """Every plan is an upper bound, also where trying everything cannot go."""
    assert case.large, "it takes on none of the large problems"
    compared = 0
    for number, problem in enumerate(samples_of(case.kind.name).large):
        if not case.accepts(problem):
            continue
        bound, covered = compute(case, problem, Monitor(1.0))
        for options in covered:
            best = best_by_hand(case.kind.name, number, options)
            if best is not None:
                assert at_most(bound.value, best)
                compared += 1
    assert compared, "no baseline made a plan to compare with"


@every_bound
def test_time_limit_is_kept(case: Case) -> None:
    """On large problems the run ends soon after its limit."""
    case.warm()
    for problem in case.large:
        monitor = Monitor(0.3)
        compute(case, problem, monitor)
        assert monitor.elapsed_s < SOON_S


@every_bound
def test_at_least_what_anyone_can_prove(case: Case) -> None:
    """On the plainest problems."""
    floors = [(problem, least) for problem, least in samples_of(case.kind.name).floors if case.accepts(problem)]
    assert floors, "it refuses the plainest problem"
    for problem, least in floors:
        check(case, problem, Monitor(5.0))
        assert at_most(least, compute(case, problem, Monitor(5.0))[0].value)
