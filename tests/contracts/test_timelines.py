"""Time lines of every problem: what any plan of any problem promises when it runs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from contracts.cases import all_kinds, families_of
from partita.conductor.simulate import sensitivities, simulate_plan
from partita.conductor.solve import options_of, run_solver
from partita.engines.search.monitor import Monitor
from partita.ground.errors import UnsupportedError
from partita.problems.facets.timeline import TimeLine
from partita.simulator.document import simulation_document
from partita.simulator.program import CONTENTIONS
from partita.simulator.trace_file import trace_document

KINDS = {kind.title.removesuffix(" problems"): kind for kind in all_kinds()}


def plans_of(kind: Any) -> list[tuple[Any, Any]]:
    """A plan of the default solver for the typical problem of every family."""
    found = []
    for family in families_of(kind):
        result = run_solver(family.typical, None, options_of(kind, 0, 2, {}), Monitor(20.0), explain=False)
        if result.plan is not None:
            found.append((family.typical, result.plan))
    assert found
    return found


def has_time_line(kind: Any) -> bool:
    return type(kind.timeline) is not TimeLine


def test_some_problems_have_time_lines_and_some_have_none() -> None:
    named = {kind.name for kind in KINDS.values() if has_time_line(kind)}
    assert named == {"throughput", "hybrid", "latency", "makespan", "mapping", "serving"}


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not has_time_line(kind)])
def test_a_problem_without_time_line_says_so(name: str) -> None:
    for problem, plan in plans_of(KINDS[name]):
        with pytest.raises(UnsupportedError, match=f"plans of {name} problems have no time line"):
            simulate_plan(problem, plan)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if has_time_line(kind)])
def test_the_default_solvers_plans_run(name: str) -> None:
    """As they are, and under every contention; what is written of them is plain and the same every time."""
    kind = KINDS[name]
    run = 0
    for problem, plan in plans_of(kind):
        evaluation = kind.evaluate(problem, plan)
        for contention in CONTENTIONS:
            found = simulate_plan(problem, plan, contention=contention)
            simulation = found.simulation
            assert simulation.step_time >= 0
            assert 0 <= simulation.bubble_fraction <= 1
            names = [device for use in simulation.uses for device in use.devices]
            assert len(set(names)) == len(names)
            for use in simulation.uses:
                spent = use.busy + use.communication_exposed + use.idle
                assert spent == pytest.approx(simulation.step_time, rel=1e-9, abs=1e-12)
            document = simulation_document(simulation, sensitivities(found), found.holdings)
            assert json.loads(msgspec.json.encode(document))["step_time"] == simulation.step_time
            again = simulate_plan(problem, plan, contention=contention)
            traces = [msgspec.json.encode(trace_document(s.simulation.timeline)) for s in (found, again)]
            assert traces[0] == traces[1]
            run += 1
        alone = simulate_plan(problem, plan)
        # What runs one sample has no pace.
        assert (alone.steady_period is None) == (alone.simulation.program.schedule == "as planned")
        if alone.steady_period is not None and kind.report.per(problem) == " per sample":
            assert alone.steady_period >= evaluation.objective * (1 - 1e-9)
    assert run >= 2 * 3


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if has_time_line(kind)])
def test_reports_agree_with_the_simulation(name: str) -> None:
    """The step of a report is the one that a user sees who simulates the plan."""
    kind, run = KINDS[name], 0
    for problem, plan in plans_of(kind):
        evaluation = kind.evaluate(problem, plan)
        step = kind.report.step(problem, plan, evaluation)
        assert step == pytest.approx(simulate_plan(problem, plan).simulation.step_time, rel=1e-9)
        run += 1
    assert run >= 2
