"""The comparison with measured serving runs: that rows are read and priced, and that missing data is said."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import pytest
from benchmarks._serving import Compared

from benchmarks import _serving

pytest.importorskip("transformers", reason="models are traced with transformers")

#: Made up, in the form of the measured files.
CLOSED = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "backend": "trtllm",
    "backend_version": "1",
    "weights": "",
    "moe_weights": "",
    "isl": "512",
    "osl": "16",
    "concurrency": "4",
    "tensor": "2",
    "pipeline": "1",
    "attention_data": "",
    "moe_tensor": "1",
    "moe_expert": "1",
    "ttft_ms": "100",
    "tpot_ms": "5",
}
BATCH = {
    "model": "llama2-70b",
    "hardware": "h100-80gb",
    "tensor_parallel": "8",
    "prompt_size": "512",
    "batch_size": "2",
    "token_size": "128",
    "prompt_time": "80",
    "token_time": "30",
}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, which finds what is beside it as scripts do."""
    monkeypatch.syspath_prepend(str(Path(_serving.__file__).parent))
    return importlib.import_module("validate_serving")


def written(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_missing_data_is_said(command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main([str(tmp_path / "nowhere")]) == 0
    assert "skipped: there is no folder" in capsys.readouterr().out


def test_names_of_models() -> None:
    assert _serving.model_named("Qwen/Qwen3-235B-A22B-FP8") == "Qwen/Qwen3-235B-A22B"
    assert _serving.model_named("meta-llama/Llama-3.1-8B-Instruct") == "meta-llama/Llama-3.1-8B"
    with pytest.raises(KeyError, match="no configuration for 'x'"):
        _serving.model_named("x")
    assert all(entry["source"] for entry in _serving.models().values())


def test_layouts_of_rows() -> None:
    row = CLOSED | {"model": "Qwen/Qwen3-235B-A22B-FP8", "tensor": "4", "moe_expert": "8", "weights": "fp8_block"}
    layout = _serving.layout_of(row, True)
    assert (layout.tensor, layout.attention_data, layout.expert, layout.expert_tensor) == (4, 2, 8, 1)
    assert _serving.layout_of(CLOSED | {"weights": "fp8"}, False).cache == "fp8"


def test_rows_are_predicted(tmp_path: Path) -> None:
    (closed,) = _serving.closed_loops(written(tmp_path / "aggregated.csv", CLOSED))
    # Eight billion weights in two parts take at least 2.4 ms of a device's memory, and a step not three times that.
    assert 2.4e-3 < closed.predicted["tpot"] < 7.2e-3
    assert closed.measured == {"tpot": 5e-3, "ttft": 0.1}
    batches = [BATCH, BATCH | {"prompt_time": "90"}, BATCH | {"prompt_time": "500"}]
    (batch,) = _serving.static_batches(written(tmp_path / "batches.csv", *batches))
    assert batch.measured == {"prompt": 0.09, "token": 0.03}
    assert 0.5 < batch.predicted["token"] / 0.03 < 2


def test_errors_are_summed_up(command: Any) -> None:
    labels = {"model": "m", "system": "s", "backend": "b"}
    rows = [
        Compared("closed loop", labels, {"tpot": p, "ttft": 1.0}, {"tpot": 1.0, "ttft": 2.0}, n)
        for n, p in enumerate((1.1, 0.8, 1.5))
    ]
    said = command.summary(rows)
    assert said[-1] == "closed loop, all (3): tpot median 20.0%, 67% within 25%; ttft median 50.0%, 0% within 25%"
    assert "rows on which no constant was set (2)" in said[1]
    assert command.row(rows[0])["tpot_error"] == 0.1
