"""One class of answers for all problems: what it knows and says."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from api.answers import mapped, placed, row, scheduled, through_host
from models.runtime_models import random_model
from partita.api.answer import AnyAnswer
from partita.problems import find_kind
from running.command_line import Run


@pytest.fixture(scope="module")
def trained() -> AnyAnswer:
    """The training of a model, with degrees of every stage."""
    return pt.plan(random_model(3, training=True), "4xA100-40GB", microbatches=4, time_limit_s=5)


@pytest.fixture(params=["placed", "scheduled", "mapped", "through_host", "trained"])
def answer(request: pytest.FixtureRequest) -> AnyAnswer:
    """One of each problem."""
    known: dict[str, Callable[[], AnyAnswer]] = {
        "placed": placed,
        "scheduled": scheduled,
        "mapped": mapped,
        "through_host": through_host,
    }
    name = request.param
    found: AnyAnswer = known[name]() if name in known else request.getfixturevalue(name)
    return found


def test_figures_of_the_run(answer: AnyAnswer) -> None:
    """What is asked for one by one is what the evaluator and the judge say."""
    assert answer.objective == answer.evaluation.objective
    assert pt.evaluate(answer.problem, answer.plan) == answer.evaluation == pt.evaluate(answer.problem, answer)
    assert answer.bound is not None
    assert answer.bound <= answer.objective * (1 + 1e-9)
    assert answer.gap == answer.result.gap
    assert isinstance(answer.result, pt.Result)
    assert not isinstance(answer.result, pt.Answer)
    assert answer.result.plan is answer.plan


def test_stages_hold_every_operator_once(answer: AnyAnswer) -> None:
    stages = answer.stages
    assert stages
    assert len({stage.number for stage in stages}) == len(stages)
    ids = [identity for stage in stages for identity in stage.operators]
    operators = getattr(answer.problem, "operators", ()) or getattr(answer.problem, "layers", ())
    assert sorted(ids) == sorted(op.id for op in operators)
    # Of a mapping, what is placed are the stages themselves.
    assert [place["id"] for place in answer.records("operators")] == (sorted(ids) or [s.number for s in stages])
    of = {place["id"]: place["stage"] for place in answer.records("operators")}
    assert all(of[identity] == stage.number for stage in stages for identity in stage.operators)
    assert all(stage.time is not None and stage.time >= 0 for stage in stages)


def test_memory_is_within_its_limit() -> None:
    memory = placed().memory
    assert [use.stage for use in memory] == [stage.number for stage in placed().stages]
    for use, stage in zip(memory, placed().stages, strict=True):
        assert use.total_bytes == stage.memory_bytes == pytest.approx(sum(use.parts.values()))
        assert use.limit_bytes is not None
        assert use.total_bytes <= use.limit_bytes
    assert "weights" in memory[0].parts


def test_stages_of_a_model_have_modules_and_devices() -> None:
    assert any("layers" in name for stage in placed().stages for name in stage.modules)
    assert {stage.device.split(":")[0] for stage in placed().stages} <= {"A100-40GB", "T4"}
    names = {name for stage in mapped().stages for name in stage.devices}
    assert len(names) == sum(stage.device_count for stage in mapped().stages)


def test_a_stage_of_training_has_degrees(trained: AnyAnswer) -> None:
    for stage in trained.stages:
        degrees = stage.data_parallel * stage.tensor_parallel * stage.context_parallel
        assert stage.device_count == degrees
    assert sum(stage.device_count for stage in trained.stages) <= 4


def test_it_prints_as_a_short_verdict(answer: AnyAnswer) -> None:
    lines = str(answer).splitlines()
    assert len(lines) < 25
    assert lines[0].startswith("objective ")
    assert f"{answer.gap:.4%}" in lines[0]
    assert sum(line.startswith("stage ") for line in lines) == len(answer.stages)
    assert repr(answer).startswith(f"<Answer of {answer.problem.name!r}: objective ")
    assert str(answer.status) in repr(answer)


def test_the_summary_is_what_the_command_line_prints(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Line for line, but for the time that it took."""
    path = tmp_path / "row.json"
    pt.write_graph(path, row())
    asked = ("--cluster", "2xA100-40GB+2xT4", "--microbatches", "4", "--time-limit", "10")
    printed = partita("plan", path, *asked).out.splitlines()
    mine = placed().summary().splitlines()
    assert [line for line in printed if " s, solver" not in line] == [line for line in mine if " s, solver" not in line]
    assert "Compared with" in placed().summary()


def test_the_document_is_what_the_command_line_writes(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Key for key, but for what depends on the clock."""
    graph, written, saved = (tmp_path / name for name in ("row.json", "R.json", "S.json"))
    pt.write_graph(graph, row())
    asked = ("--cluster", "2xA100-40GB+2xT4", "--microbatches", "4", "--time-limit", "10", "--output", written)
    assert partita("plan", graph, *asked).code == 0
    placed().save(saved)
    theirs, mine = json.loads(written.read_text()), json.loads(saved.read_text())
    assert list(theirs) == list(mine)
    for key in set(mine) - {"runtime_s", "statistics", "baselines", "made"}:
        assert mine[key] == theirs[key], key
    assert [one["name"] for one in mine["baselines"]] == [one["name"] for one in theirs["baselines"]]
    assert partita("plan", graph, *asked, "--json").document.keys() == placed().document(stated=False).keys() | {"made"}


def test_notes_limits_and_baselines() -> None:
    answer = placed()
    assert any("bottleneck" in sentence for sentence in answer.limits)
    assert any("estimates" in note for note in answer.notes)
    assert len(answer.baselines) > 5
    assert min(b.evaluation.objective for b in answer.baselines if b.feasible) >= answer.objective * (1 - 1e-9)
    assert len(answer.records("baselines")) == len(answer.baselines)
    assert answer.placement is not None
    assert len(answer.placement["stages"]) == len(answer.stages)
    assert through_host().limits == ()
    assert through_host().baselines == ()


def test_what_a_model_was_planned_from() -> None:
    answer = placed()
    assert answer.graph == row()
    assert answer.cluster == pt.read_cluster("2xA100-40GB+2xT4")
    assert answer.priced.problem == answer.problem
    assert answer.free is None
    assert answer.split is not None
    assert sum(len(stage.operators) for stage in answer.split.stages) == 6
    assert through_host().graph is None
    assert through_host().cluster is None
    with pytest.raises(pt.InputError, match="is of a stated problem, without its traced model"):
        _ = through_host().priced


def test_another_plan_in_its_place_is_what_it_then_says() -> None:
    """``dataclasses.replace`` is how results are changed."""
    everything = tuple(range(6))
    stage = pt.Stage(operators=everything, kind=placed().plan.stages[0].kind, devices=placed().plan.stages[0].devices)
    plan = pt.Plan(stages=(stage,))
    changed = dataclasses.replace(placed(), plan=plan, evaluation=pt.evaluate(placed().problem, plan))
    assert len(changed.stages) == 1
    assert changed.document()["objective"] == changed.objective > placed().objective
    assert len(changed.split.stages) == 1


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    for what in ("stages", "memory", "baselines", "operators"):
        found = placed().to_frame(what)
        assert isinstance(found, pandas.DataFrame)
        assert len(found) == len(placed().records(what)) > 0
    assert list(placed().to_frame()["time"]) == [stage.time for stage in placed().stages]
    with pytest.raises(pt.InputError, match="there is no frame of 'x'; known are stages, memory, baselines"):
        placed().to_frame("x")  # type: ignore[arg-type]


def test_records_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert placed().to_frame() == placed().records()


def test_a_plot_has_a_bar_for_each_stage(answer: AnyAnswer) -> None:
    pytest.importorskip("matplotlib")
    ax = answer.plot()
    assert len(ax.patches) == 2 * len(answer.stages)
    assert [text.get_text()[0] for text in ax.get_yticklabels()] == [str(s.number) for s in answer.stages]
    widths = [patch.get_width() for patch in ax.patches]
    assert widths[: len(answer.stages)] == pytest.approx([stage.compute for stage in answer.stages])
    assert answer.plot(ax) is ax


def test_an_infeasible_problem_says_what_is_missing(tmp_path: Path) -> None:
    problem = placed().problem
    answer = pt.solve(problem, memory=1.0)
    assert answer.status == "infeasible"
    assert answer.stages == () == answer.memory
    assert answer.reason
    assert answer.reason in str(answer)
    assert "objective none" in repr(answer)
    answer.save(tmp_path / "R.json")
    assert pt.load(tmp_path / "R.json").reason == answer.reason
    for use in (answer.simulate, answer.plot, lambda: answer.export("vllm", "x"), lambda: answer.place("dgx1")):
        with pytest.raises(pt.InputError, match="there is no plan to be"):
            use()


def test_checks_itself() -> None:
    assert placed().check().plan.verified
    assert pt.check(placed()) == placed().check()


def test_html_for_notebooks(answer: AnyAnswer) -> None:
    found: Any = answer._repr_html_()
    assert isinstance(found, str)
    assert 0 < len(found) <= 200_000


def test_certificates_are_made_for_documents_alone() -> None:
    """Making one takes longer than many a search; whoever reads the verdict does not wait for it."""
    answer = pt.solve(find_kind("throughput").samples[0][0])
    assert answer.notes is not None
    assert answer.limits is not None
    assert str(answer)
    assert answer.summary()
    assert callable(vars(answer.result.bound)["certificate"])
    proof = answer.document()["proof"]
    assert isinstance(proof, dict)
    assert proof["certificate"] is not None
    assert proof["certificate"] is answer.result.bound.certificate  # type: ignore[union-attr]
