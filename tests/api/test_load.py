"""An answer that was saved is the same answer, but for what needs the traced model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from api.answers import mapped, placed, row, scheduled, through_host
from partita.api.answer import AnyAnswer

ANSWERS = {"placed": placed, "scheduled": scheduled, "mapped": mapped, "through_host": through_host}


@pytest.fixture(params=list(ANSWERS))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[AnyAnswer, AnyAnswer]:
    """An answer, and what came back from its file."""
    answer = ANSWERS[request.param]()
    answer.save(tmp_path / "R.json")
    return answer, pt.load(tmp_path / "R.json")


def test_figures_and_parts_are_the_same(pair: tuple[AnyAnswer, AnyAnswer]) -> None:
    answer, again = pair
    for name in ("objective", "gap", "status", "stop_reason", "solver", "seed", "runtime_s", "reason", "argument"):
        assert getattr(again, name) == getattr(answer, name), name
    assert again.problem == answer.problem
    assert again.plan == answer.plan
    assert again.evaluation == answer.evaluation
    assert again.stages == answer.stages
    assert again.memory == answer.memory
    assert again.notes == answer.notes
    assert again.limits == answer.limits
    assert (again.bound.value, again.bound.method, again.bound.scope, again.bound.argument) == (
        *(answer.bound.value, answer.bound.method, answer.bound.scope, answer.bound.argument),
    )
    assert [event.objective for event in again.statistics.events] == [e.objective for e in answer.statistics.events]
    assert [(row.name, row.note) for row in again.baselines] == [(row.name, row.note) for row in answer.baselines]
    assert str(again) == str(answer)
    assert repr(again) == repr(answer)


def test_it_is_saved_again_as_it_was(pair: tuple[AnyAnswer, AnyAnswer], tmp_path: Path) -> None:
    _, again = pair
    again.save(tmp_path / "S.json")
    assert (tmp_path / "S.json").read_bytes() == (tmp_path / "R.json").read_bytes()


def test_it_can_be_used(pair: tuple[AnyAnswer, AnyAnswer], tmp_path: Path) -> None:
    answer, again = pair
    assert again.simulate().step_time == answer.simulate().step_time
    assert again.check() == answer.check()
    assert again._repr_html_() == answer._repr_html_()
    again.report(tmp_path / "again.html")
    answer.report(tmp_path / "answer.html")
    assert (tmp_path / "again.html").read_text() == (tmp_path / "answer.html").read_text()


def test_tables_of_a_file_have_what_it_says(tmp_path: Path) -> None:
    placed().save(tmp_path / "R.json")
    text = pt.load(tmp_path / "R.json").summary()
    for part in ("row: 6 operators", "Stages", "What limits the plan", "Where it runs", "Compared with", "Notes"):
        assert part in text, part
    assert "equal-layers" in text
    assert text.splitlines()[-1] == placed().summary().splitlines()[-1]


def test_what_needs_the_model_says_so(tmp_path: Path) -> None:
    placed().save(tmp_path / "R.json")
    again = pt.load(tmp_path / "R.json")
    assert again.graph is None
    assert again.cluster == placed().cluster
    assert again.split == placed().split
    with pytest.raises(pt.InputError, match="was read from a file, without its traced model; plan the model for this"):
        _ = again.priced


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a result file."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "format": (lambda d: d.update(format="x"), "is not a partita.result file"),
    "version": (lambda d: d.update(version=7), "version 7 of partita.result is not known here; expected 1"),
    "problem": (lambda d: d["problem"].pop("stated"), "does not hold the problem that its plan is of; give it as"),
    "objective": (
        lambda d: d.update(objective=1e-9),
        "contradicts itself: its objective is 1e-09, and its plan is wor",
    ),
    "status": (lambda d: d.update(status="fine"), "it is no complete partita.result document: ValueError"),
    "missing": (lambda d: d.pop("solver"), "it is no complete partita.result document: KeyError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_not_right_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "R.json"
    placed().save(path)
    edit(path, WRONG[name][0])
    with pytest.raises((pt.InputError, pt.FormatError), match=WRONG[name][1]):
        pt.load(path)


def test_no_file_and_no_json(tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match="there is no such file"):
        pt.load(tmp_path / "none.json")
    (tmp_path / "R.json").write_text("{")
    with pytest.raises(pt.FormatError, match="is not valid JSON"):
        pt.load(tmp_path / "R.json")


def test_a_problem_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "R.json"
    placed().save(path)
    edit(path, lambda d: d["problem"].pop("stated"))
    pt.write_problem(tmp_path / "P.json", placed().problem)
    for problem in (placed().problem, tmp_path / "P.json", str(tmp_path / "P.json")):
        assert pt.load(path, problem).objective == placed().objective


def test_a_file_of_the_command_line_is_loaded(partita: Callable[..., Any], tmp_path: Path) -> None:
    graph, path = tmp_path / "row.json", tmp_path / "R.json"
    pt.write_graph(graph, row())
    assert partita("plan", graph, "--cluster", "2xL4", "--time-limit", "5", "--output", path).code == 0
    answer = pt.load(path)
    assert answer.objective == json.loads(path.read_text())["objective"]
    assert answer.problem.name == "row on 2xL4"
