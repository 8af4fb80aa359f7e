"""Planning one sample of a model from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt

FIELDS = {"n_layer": "2", "n_embd": "256", "n_head": "8", "vocab_size": "2000"}
CLUSTER = "(1xT4+1xCPU)+1xL4:ethernet-1g"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small GPT-2."""
    path = tmp_path_factory.mktemp("graphs") / "gpt2.json"
    pt.write_graph(path, pt.load_model("hf:gpt2", sequence_length=128, set_fields=FIELDS))
    return path


def test_a_plan_is_a_schedule_with_its_reasons(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    output, problem = tmp_path / "r.json", tmp_path / "p.json"
    arguments = ("--objective", "latency", "--time-limit", "20", "--output", output, "--problem-output", problem)
    run = partita("plan", small, "--cluster", CLUSTER, *arguments, "--json")
    assert run.code == 0, run.err
    document = run.document
    assert (document["unit"], document["cluster"]["name"]) == ("s", CLUSTER)
    assert document["bound"] <= document["objective"] * (1 + 1e-9)
    assert document["objective"] <= min(r["objective"] for r in document["baselines"] if r["feasible"]) * (1 + 1e-9)
    assert {row["name"] for row in document["baselines"]} >= {"single device", "HEFT", "contiguous pieces"}
    assert set(next(iter(document["plan"]["operators"].values()))) == {"device", "start", "end"}
    named = [name for device in document["plan"]["devices"] for name in device["modules"] + device["partial_modules"]]
    assert "lm_head" in named
    assert any(name.startswith("transformer") for name in named)
    path = document["critical_path"]
    assert path["operators"] + path["transfers"] + path["waiting"] == pytest.approx(document["objective"])
    assert json.loads(output.read_text())["plan"] == document["plan"]
    again = partita("evaluate", problem, output, "--json").document
    assert again["feasible"]
    assert again["objective"] == pytest.approx(document["objective"], rel=1e-9)
    simulated = partita("simulate", output, "--json").document
    assert simulated["step_time"] == pytest.approx(document["objective"], rel=1e-9)


def test_what_people_read(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.html"
    run = partita(
        "plan", small, "--cluster", CLUSTER, "--objective", "latency", "--time-limit", "10", "--gantt", picture
    )
    assert run.code == 0, run.err
    for expected in ("Devices", "modules", "Critical path", "transformer.", "the critical path takes", "Notes"):
        assert expected in run.out
    text = picture.read_text()
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert "<?xml" not in text


def test_it_is_compared_and_swept(partita: Callable[..., Any], small: Path) -> None:
    about = ("--cluster", CLUSTER, "--objective", "latency", "--time-limit", "5")
    rows = partita("compare", small, *about, "--json").document["baselines"]
    assert [row["name"] for row in rows if row["feasible"]]
    swept = partita("sweep", small, *about, "--bandwidth", "1,4", "--json")
    assert swept.code == 0, swept.err
    slow, fast = swept.document["rows"]
    assert (slow["bandwidth"], fast["bandwidth"]) == (1.0, 4.0)
    assert fast["objective"] <= slow["objective"] * (1 + 1e-9)


def test_pieces_through_host_memory(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    about = ("--cluster", "(2xT4+1xCPU)", "--objective", "host-memory", "--pieces", "2", "--memory", "4e6")
    output = tmp_path / "r.json"
    document = partita("plan", small, *about, "--time-limit", "10", "--output", output, "--json").document
    assert document["bound"] <= document["objective"] * (1 + 1e-9)
    assert document["plan"]["devices"][-1]["kind"] == "cpu"
    assert document["plan"]["devices"][-1]["operators"], "not all weights fit on the accelerators"
    simulated = partita("simulate", output, "--json").document
    assert simulated["step_time"] == pytest.approx(document["objective"], rel=1e-9)
    run = partita("plan", small, *about[2:], "--cluster", "2xT4")
    assert (run.code, "use another objective: throughput or latency" in run.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hf:gpt2", "--training"), "objective latency is not for training; leave --training out"),
        (("hf:gpt2", "--gantt", "plan.pdf"), "ends in .png or .svg or .html"),
        (("hf:gpt2", "--decode", "9", "--sequence-length", "8"), "leave the sequence length out"),
    ],
)
def test_what_is_refused(partita: Callable[..., Any], arguments: tuple[str, ...], message: str) -> None:
    run = partita("plan", *arguments, "--cluster", CLUSTER, "--objective", "latency")
    assert run.code == 2
    assert message in run.err
    assert "Traceback" not in run.err
