"""Simulating, exporting, running, placing and mapping what was planned."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from api.answers import placed, row, scheduled, through_host
from running.command_line import Run


def test_a_simulation_is_the_command_lines(partita: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "R.json"
    placed().save(path)
    found = placed().simulate(microbatches=6)
    run = partita("simulate", path, "--microbatches", "6", "--json")
    assert json.loads(msgspec.json.encode(found.document())) == run.document
    assert found.step_time == run.document["step_time"]
    assert found.bubble_fraction == run.document["bubble_fraction"]
    assert found.summary().splitlines() == partita("simulate", path, "--microbatches", "6").out.splitlines()
    assert pt.simulate(path, microbatches=6).step_time == found.step_time
    assert pt.simulate(placed(), microbatches=6).step_time == found.step_time
    assert pt.simulate(placed().problem, placed().plan, microbatches=6).step_time == found.step_time
    assert (found.microbatches, found.unit, found.schedule) == (6, "s", "forward")
    assert len(found.latencies) == 6
    assert found.steady_period == pytest.approx(placed().objective)


def test_a_simulation_in_pictures_and_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = placed().simulate()
    found.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())
    assert events["traceEvents"]
    for ending, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".html", b"<!doctype")):
        found.save(tmp_path / f"gantt{ending}")
        assert (tmp_path / f"gantt{ending}").read_bytes().startswith(start)
    assert len(found.plot().get_yticklabels()) >= len(placed().stages)
    with pytest.raises(pt.InputError, match=r"is written as .json \(a trace\) or as a picture"):
        found.save(tmp_path / "gantt.docx")
    assert len(found.to_frame()) == len(placed().stages)
    assert len(str(found).splitlines()) <= 25


def test_what_cannot_be_simulated(tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match="there is no schedule 'x'; use forward"):
        placed().simulate(schedule="x")
    with pytest.raises(pt.InputError, match="leave --schedule, --chunks and --microbatches out"):
        through_host().simulate(microbatches=3)
    with pytest.raises(pt.InputError, match="int is no answer; give what plan, solve or load returns"):
        pt.simulate(3)  # type: ignore[call-overload]
    with pytest.raises(pt.InputError, match="unknown field `speed`"):
        pt.simulate(placed(), speed=2)  # type: ignore[call-overload]


def test_an_export_is_the_command_lines(partita: Callable[..., Run], tmp_path: Path) -> None:
    answer = pt.plan(row(12, layers=6, name="rows"), "2xL4", time_limit_s=5, runtime="accelerate", baselines=False)
    path = tmp_path / "R.json"
    answer.save(path)
    found = answer.export("accelerate", tmp_path / "a.json")
    assert found.written == (str(tmp_path / "a.json"),)
    assert partita("export", path, "--to", "accelerate", "--output", tmp_path / "b.json").code == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    pt.export(path, "accelerate", tmp_path / "c.json")
    assert (tmp_path / "c.json").read_bytes() == (tmp_path / "a.json").read_bytes()
    with pytest.raises(pt.InputError, match="there is no exporter 'x'; known are accelerate"):
        answer.export("x", tmp_path / "x")
    with pytest.raises(pt.InputError, match="accelerate takes the plan alone; leave --model out"):
        answer.export("accelerate", tmp_path / "x", model="hf:gpt2")
    with pytest.raises(pt.InputError, match="does not say what of a model each stage has; only plans of models"):
        through_host().export("accelerate", tmp_path / "x")


def test_where_stages_go() -> None:
    placed_again = placed().place("2xA100-40GB+2xT4")
    assert placed_again.chosen.layout == placed().placed.chosen.layout
    answer = pt.map_stages(placed(), "2xA100-40GB+2xT4", time_limit_s=10)
    assert answer.objective == pytest.approx(placed().placement["objective"])
    with pytest.raises(pt.InputError, match="the answer holds a plan; say where to place it with --topology"):
        pt.map_stages(placed())
    with pytest.raises(pt.UnsupportedError, match="are not made of stages, so they cannot be placed"):
        pt.map_stages(scheduled(), "4xL4")
    with pytest.raises(pt.InputError, match=r"give it to partita\.solve"):
        pt.map_stages(placed().problem)


MODEL = """
import torch

def build(batch_size=2):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 8) for _ in range(4)]
    return torch.nn.Sequential(*layers), (torch.zeros(batch_size, 8),)
"""


def test_a_plan_runs_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way from a file of one's own to gradients that agree."""
    pytest.importorskip("torch")
    (tmp_path / "model.py").write_text(MODEL)
    answer = pt.plan(
        f"{tmp_path}/model.py:build", "2xT4", training=True, objective="throughput", microbatches=2, time_limit_s=5
    )
    answer.save(tmp_path / "R.json")
    ran = pt.run(tmp_path / "R.json", repeats=1)
    assert ran.verified
    assert ran.worst_gradient_error < 1e-4
    assert ran.step_time_s["measured"] > 0
    assert len(ran.to_frame()) == len(answer.stages)
    assert str(ran).startswith("verified: ")
    assert len(repr(ran)) < 5000
    ran.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert ran.document()["verified"]


def test_a_plan_of_no_named_model_is_not_run() -> None:
    pytest.importorskip("torch")
    with pytest.raises(pt.InputError, match="the answer does not say how its model is made; name it with --model"):
        placed().run()


def test_pages(tmp_path: Path) -> None:
    for number, one in enumerate((placed(), scheduled(), placed().simulate())):
        one.report(tmp_path / f"{number}.html")
        assert (tmp_path / f"{number}.html").read_text().startswith("<!doctype html>")


def test_simulations_beyond_the_objective(tmp_path: Path) -> None:
    found: Any = placed().simulate(contention="serial")
    assert found.step_time >= placed().simulate().step_time
    assert any("faster" in change.what or "wide" in change.what for change in found.changes)
