"""A traced model as a file, and planning from it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from running.command_line import Run

NET = (
    "import torch\ndef build(batch_size=2, width=8):\n    layers = [torch.nn.Linear(width, width) for _ in range(6)]\n"
)
NET += "    return torch.nn.Sequential(*layers), (torch.zeros(batch_size, width),)\n"

#: Plans a graph file where neither torch nor transformers can be imported.
PLAN = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "transformers", "onnx"):
            raise AssertionError(f"{name} is imported")
sys.meta_path.insert(0, Refuse())
from partita.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def test_the_graph_is_that_of_the_model(partita: Callable[..., Run], net: Path, tmp_path: Path) -> None:
    output, model = tmp_path / "g.json", f"{net}:build"
    run = partita("trace", model, "--training", "--batch-size", 3, "--set", "width=4", "--output", output)
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("build: ")
    assert "120 parameters" in run.out
    assert "The model returns no loss" in run.out
    assert pt.read_graph(output) == pt.load_model(model, training=True, batch_size=3, set_fields={"width": "4"})


def test_the_graph_on_standard_output(partita: Callable[..., Run], net: Path) -> None:
    run, other = partita("trace", f"{net}:build", "--output", "-"), partita("trace", f"{net}:build", "--json")
    assert run.document == other.document
    assert run.document["format"] == "partita.graph"
    assert run.err.startswith("build: 6 operators")
    assert other.err == ""


def test_what_is_no_model_is_refused(partita: Callable[..., Run], tmp_path: Path) -> None:
    run = partita("trace", tmp_path / "config.json")
    assert run.code == 2
    assert "is no model that can be traced" in run.err
    assert partita("trace", "hf:gpt2", "--output", tmp_path / "nowhere" / "g.json").code == 2


def test_planning_a_graph_file_imports_no_torch(partita: Callable[..., Run], net: Path, tmp_path: Path) -> None:
    output = tmp_path / "g.json"
    partita("trace", f"{net}:build", "--output", output)
    arguments = ["plan", str(output), "--cluster", "2xL4", "--json"]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PLAN, *arguments], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_graph_is_kept_unless_told_otherwise(
    partita: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the command line to the frontends: what plans, and what traces."""
    asked: list[Any] = []

    def load(spec: str, *, cache: bool, **settings: Any) -> None:
        asked.append(cache)
        raise pt.InputError("enough")

    monkeypatch.setattr("partita.frontends.models.load_model", load)
    for command in (("plan", "hf:gpt2", "--cluster", "2xL4"), ("trace", "hf:gpt2")):
        partita(*command)
        partita(*command, "--no-cache")
    assert asked == [True, False, True, False]
