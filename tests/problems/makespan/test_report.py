"""What people read of a schedule: devices, a Gantt chart, the critical path."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from rich.console import Console

import partita as pt
from instances.strategies import examples
from partita.problems import kind_of
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.problem import (
    Device,
    MakespanFlow,
    MakespanOperator,
    MakespanPlan,
    MakespanProblem,
    PlacedOperator,
    Sent,
)
from partita.problems.makespan.timeline import schedule_timeline
from partita.simulator.critical import critical_path, critical_summary
from problems.makespan.strategies import makespan_problems
from problems.makespan.test_evaluate import PLAN, PROBLEM, changed


def shown(*tables: object) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


def test_sentences() -> None:
    """The path waits for devices and links, too: 1 holds the device of 2, flow 12 the way of flow 13."""
    said = kind_of(PROBLEM).report.sentences(PROBLEM, PLAN, evaluate(PROBLEM, PLAN))
    assert said == [
        "the critical path takes 10 s: 7 s of operators, 3 s of transfers, 0 s of waiting",
        "it is operator 0 → flow 10, a → b → operator 1 → operator 2 (two) → flow 13 (two), b → a → operator 3",
    ]


def test_waiting_is_said() -> None:
    later = changed({3: {"start": 9.5, "end": 10.5}})
    said = kind_of(PROBLEM).report.sentences(PROBLEM, later, evaluate(PROBLEM, later))
    assert said[0] == "the critical path takes 10.5 s: 7 s of operators, 3 s of transfers, 500 ms of waiting"


def test_tables() -> None:
    text = shown(*kind_of(PROBLEM).report.tables(PROBLEM, PLAN, evaluate(PROBLEM, PLAN)))
    assert "3.00 B" in text or "3 B (75%)" in text
    rows = [line for line in text.splitlines() if "|" in line]
    assert [line.split("|")[0].strip() for line in rows] == ["a", "out", "b", "out"]
    assert "o operator" in text
    assert "= transfer" in text


@pytest.mark.parametrize("limits", [False, True])
def test_critical_paths_end_with_the_makespan(limits: bool) -> None:
    """And of schedules that are as early as they can be they are without waiting."""

    @examples(30)
    @given(makespan_problems(limits=limits))
    def run(problem: object) -> None:
        result = pt.solve(problem, solver="annealing", explain=False)
        if result.plan is None:
            return
        timeline = schedule_timeline(problem, result.plan)
        path = critical_path(timeline)
        spent = critical_summary(timeline, path)
        assert spent.finish == pytest.approx(result.objective)
        assert spent.waiting == pytest.approx(0.0, abs=1e-9)

    run()


@pytest.mark.parametrize("devices", [(0, 0, 0, 0), (0, 1, 0, 1), (0, 1, 0, 0)], ids=str)
def test_what_takes_no_time_has_its_causes_in_order(devices: tuple[int, ...]) -> None:
    """All of a chain listed backwards happens at the same instant, on its devices and on the links between them."""
    nothing = ((0.0, 0.0), (0.0, 0.0))
    problem = MakespanProblem(
        name="backwards",
        unit="s",
        devices=(Device(name="a"), Device(name="b")),
        operators=tuple(MakespanOperator(id=v, times=(0.0, 0.0)) for v in range(4)),
        flows=tuple(MakespanFlow(id=9 - v, source=v, target=v - 1, times=nothing) for v in (3, 2, 1)),
    )
    sent = {9 - v: (devices[v], devices[v - 1]) for v in (3, 2, 1) if devices[v] != devices[v - 1]}
    plan = MakespanPlan(
        operators={v: PlacedOperator(device=d, start=0.0, end=0.0) for v, d in enumerate(devices)},
        flows={flow: Sent(source=a, target=b, start=0.0, end=0.0) for flow, (a, b) in sent.items()},
    )
    evaluation = evaluate(problem, plan)
    assert evaluation.feasible
    assert len(critical_path(schedule_timeline(problem, plan))) <= 4 + len(sent)
    assert kind_of(problem).report.verdict(problem, evaluation) is not None
    assert pt.simulate(problem, plan).finish == 0.0
