"""A problem from elsewhere, once registered, has every verb of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

import partita as pt
from partita.conductor.documents import result_document
from partita.conductor.sweep import grid, sweep
from partita.documents.document import write_json
from partita.problems import find_kind, kind_of, kinds
from toy.registered import registered
from toy.samples import MANY
from toy.tasks import TASKS, Options, Schedule, TaskProblem, Tasks

UNEVEN = TaskProblem(name="uneven", machines=2, times=(4.0, 4.0, 2.0, 1.0, 1.0))


def test_it_is_there_once_registered_and_gone_afterwards() -> None:
    with pytest.raises(pt.InputError, match="no problem 'tasks'"):
        find_kind("tasks")
    with registered(TASKS):
        assert kinds()[-1] is TASKS
        assert kind_of(MANY) is TASKS
        listed = ", ".join(kind.name for kind in kinds())
        with pytest.raises(pt.InputError, match=f"no problem 'knots'; known are {listed}$"):
            find_kind("knots")
        pt.register(TASKS)
        with pytest.raises(pt.InputError, match="already is a problem 'tasks'"):
            pt.register(Tasks())
    assert TASKS not in kinds()


def test_solve(tasks: TaskProblem) -> None:
    result = pt.solve(tasks)
    assert result.objective == 6.0
    assert result.bound is not None
    assert result.bound.value == 6.0
    assert result.status is pt.Status.OPTIMAL
    assert result.stop_reason is pt.StopReason.PROVED
    assert result.solver == "branching"


def test_its_own_options(tasks: TaskProblem) -> None:
    # Any assignment: {4, 2} and {4, 1, 1}; in a row {4} and {4, 2, 1, 1}.
    assert pt.solve(UNEVEN).objective == 6.0
    assert pt.solve(UNEVEN, assignment="consecutive").objective == 8.0
    with pytest.raises(pt.InputError, match="no option 'contiguity'; known are seed, threads, assignment"):
        pt.solve(tasks, contiguity="free")
    with pytest.raises(pt.InputError, match="'some' is unknown; use any or consecutive"):
        pt.solve(tasks, assignment="some")


def test_a_baseline_refuses_what_it_does_not_give(tasks: TaskProblem) -> None:
    with pytest.raises(pt.UnsupportedError, match="list order: it does not keep tasks in a row"):
        pt.solve(UNEVEN, solver="list order", assignment="consecutive")
    (row,) = pt.compare(UNEVEN, assignment="consecutive")
    assert row.plan is None
    assert row.note.startswith("it does not keep tasks in a row")


def test_bounds(tasks: TaskProblem) -> None:
    assert pt.bound(tasks).value == 6.0
    assert pt.bound(tasks, "mean").value == 17.0 / 3
    assert pt.bound(tasks, "branching").value == 6.0
    with pytest.raises(pt.InputError, match="no bound 'capacity'; known are mean, branching"):
        pt.bound(tasks, "capacity")


def test_evaluate_and_compare(tasks: TaskProblem) -> None:
    assert pt.evaluate(tasks, Schedule((0, 0, 1, 1, 1, 2))).objective == 6.0
    rows = pt.compare(tasks)
    assert [(row.name, row.evaluation.objective, row.feasible) for row in rows] == [("list order", 8.0, True)]


def test_a_sweep_over_what_may_be_changed(tasks: TaskProblem) -> None:
    swept = sweep(grid({"machines": (1, 2, 3, 6), "most_tasks": (3, 6)}), lambda point: TASKS.sweep.at(tasks, point))
    values = [(row["machines"], row["most_tasks"], row["objective"], row["status"]) for row in swept.rows()]
    assert values == [
        (1, 3, None, "infeasible"),
        (1, 6, 17.0, "optimal"),
        (2, 3, 9.0, "optimal"),
        (2, 6, 9.0, "optimal"),
        (3, 3, 6.0, "optimal"),
        (3, 6, 6.0, "optimal"),
        (6, 3, 5.0, "optimal"),
        (6, 6, 5.0, "optimal"),
    ]


def test_its_own_file_format(tasks: TaskProblem, tasks_file: Path, tmp_path: Path) -> None:
    assert tasks_file.read_text().startswith('{\n "format": "toy.tasks",\n "version": 1,')
    assert pt.read_problem(tasks_file) == tasks
    assert pt.read_problem(tasks_file, "partita", "tasks") == tasks
    with pytest.raises(pt.UnsupportedError, match="states a tasks problem, not a hybrid one"):
        pt.read_problem(tasks_file, problem="hybrid")
    text = tasks_file.read_text()
    broken = tmp_path / "broken.json"
    for old, new, message in (
        ('"version": 1', '"version": 2', "version 2 of toy.tasks is not known here"),
        ('"machines"', '"devices"', "unknown key `devices`"),
        ('"machines": 3', '"machines": 0', "needs a machine"),
    ):
        broken.write_text(text.replace(old, new))
        with pytest.raises(pt.FormatError, match=message):
            pt.read_problem(broken)


def test_result_files(tasks: TaskProblem, tmp_path: Path) -> None:
    result = pt.solve(tasks)
    path = tmp_path / "r.json"
    write_json(path, result_document(result, pt.compare(tasks)))
    assert TASKS.files.read_plan(path, tasks) == result.plan


def test_progress_is_monotone_and_a_target_ends_the_search(tasks: TaskProblem) -> None:
    seen: list[pt.Event] = []
    result = pt.solve(tasks, progress=seen.append, target=8.0)
    values = [event.objective for event in seen if event.objective is not None]
    assert values
    assert values == sorted(values, reverse=True)
    assert result.objective == values[-1] <= 8.0
    assert result.stop_reason is pt.StopReason.TARGET_REACHED


def test_a_time_limit_is_kept(tasks: TaskProblem) -> None:
    result = pt.solve(MANY, time_limit_s=1.0)
    assert result.stop_reason is pt.StopReason.TIME_LIMIT
    assert result.status is pt.Status.FEASIBLE
    assert result.objective is not None
    assert result.bound is not None
    assert 0 < result.bound.value < result.objective
    assert result.runtime_s < 4.0


def test_an_infeasible_problem_is_recognised() -> None:
    with registered(TASKS):
        result = pt.solve(TaskProblem(name="full", machines=2, times=(1.0, 1.0, 1.0), most_tasks=1))
    assert result.status is pt.Status.INFEASIBLE
    assert result.reason == "no plan satisfies every constraint"


def test_what_a_solver_does_not_support_is_refused(tasks: TaskProblem) -> None:
    large = TaskProblem(name="large", machines=2, times=(1.0,) * 201)
    with pytest.raises(pt.UnsupportedError, match="solver branching: it searches at most 200 tasks"):
        pt.solve(large)
    assert pt.solve(large, solver="list order").objective == 101.0
    assert pt.bound(large, "mean").value == 100.5


def test_options_are_one_declaration(tasks: TaskProblem) -> None:
    assert TASKS.options is Options
    assert [axis.setting.flag for axis in TASKS.sweep.axes] == ["--machines", "--most-tasks"]
