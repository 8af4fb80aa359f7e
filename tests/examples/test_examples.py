"""The examples run, small, as a reader runs them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from cli.conftest import workload

pytest.importorskip("torch")
pytest.importorskip("transformers")

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def example(name: str, *arguments: object) -> int:
    """The exit status of an example's ``main``."""
    found = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=f"example_{name}")
    status: int = found["main"]([str(argument) for argument in arguments])
    return status


# The notebook for the edge does the same from Python, and tests of the commands do it one by one.
@pytest.mark.slow
def test_gpt2_from_a_profile_to_verified_gradients(capfd: pytest.CaptureFixture[str]) -> None:
    assert example("train_gpt2", "--layers", 2, "--width", 32, "--tokens", 16, "--repeats", 2) == 0
    shown = capfd.readouterr().out
    assert "verified" in shown
    assert "gradient" in shown


def test_a_mixed_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("mixed_cluster", "--layers", 6, "--width", 512, "--time-limit", 2) == 0
    shown = capsys.readouterr().out
    assert "2xA100-40GB+4xT4" in shown
    assert "A100-40GB:0" in shown


def test_bring_your_own_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("own_module", "--width", 64) == 0
    assert "4 devices:" in capsys.readouterr().out


def test_a_contest_on_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the chain of three operators everybody finds the best split."""
    (tmp_path / "chain.json").write_text(json.dumps(workload()))
    assert example("contest", tmp_path, "--time-limit", 5) == 0
    line = capsys.readouterr().out.splitlines()[-1].split()
    assert line == ["chain", "6.0000", "6.0000", "6.0000", "1.000"]


def test_a_contest_without_files_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("contest", "--time-limit", 2) == 0
    assert "no published instances" in capsys.readouterr().out


def test_resnet_through_onnx_runtime(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    small = ("depths=[1, 1]", "hidden_sizes=[16, 32]", "embedding_size=8", "layer_type=basic")
    assert example("resnet_onnxruntime", *(word for entry in small for word in ("--set", entry))) == 0
    assert "largest difference" in capfd.readouterr().out
