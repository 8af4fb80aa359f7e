"""Variants on the command line, on a file and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: A chain of work 2, 6, 4 with 10 bytes each and transfers of 1; two accelerators.
WORKLOAD: dict[str, Any] = {
    "maxSizePerFPGA": 30.0,
    "maxFPGAs": 2,
    "maxCPUs": 0,
    "nodes": [
        {"id": i, "supportedOnFpga": True, "cpuLatency": 99.0, "fpgaLatency": t, "isBackwardNode": False, "size": 10.0}
        for i, t in enumerate((2.0, 6.0, 4.0))
    ],
    "edges": [{"sourceId": i, "destId": i + 1, "cost": 1.0, "size": 10.0} for i in range(2)],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(WORKLOAD))
    return path


@pytest.mark.parametrize(
    ("options", "objective"),
    [
        ((), 9.0),  # 0 and 1 work 8 and send 1
        (("--communication", "overlap"), 8.0),
        (("--max-replicas", 2), 7.5),  # 12 / 2, and half of 30 bytes at 1 / 10
        (("--max-replicas", 2, "--weight-sync-per-batch", "--microbatches", 2), 6.75),
        (("--groups", 2, "--group-bandwidth", 0.1), 10.0),  # a link that takes 10 for the tensor
        (("--devices", 1, "--memory", 20, "--streaming"), 13.0),  # 10 bytes too many at 1 / 10
        (("--devices", 1, "--memory", 20, "--streaming", "--reload-bandwidth", 1000), 22.0),
    ],
)
def test_objectives(
    partita: Callable[..., Any], file: Path, tmp_path: Path, options: tuple[object, ...], objective: float
) -> None:
    result = tmp_path / "r.json"
    run = partita("solve", file, *options, "--output", result, "--json")
    assert run.code == 0, run.err
    assert run.document["objective"] == pytest.approx(objective)
    assert run.document["status"] == "optimal"
    again = partita("evaluate", file, result, *options, "--json")
    assert again.document["objective"] == pytest.approx(objective)
    assert again.document["feasible"]
    bound = partita("bound", file, *options, "--json")
    assert bound.document["bound"] == pytest.approx(objective)


def test_free_splits_refuse_variants(partita: Callable[..., Any], file: Path) -> None:
    run = partita("solve", file, "--max-replicas", 2, "--contiguity", "free")
    assert run.code == 2
    assert "replica" in run.err


def test_gpipe_on_a_file_changes_nothing_for_inference(partita: Callable[..., Any], file: Path) -> None:
    assert partita("solve", file, "--schedule", "gpipe", "--json").document["objective"] == pytest.approx(9.0)


def test_compare_takes_variants(partita: Callable[..., Any], file: Path) -> None:
    run = partita("compare", file, "--communication", "overlap", "--json")
    assert run.document["objective"] == pytest.approx(8.0)
    assert all(row["load"] is None or row["load"] >= 8.0 for row in run.document["baselines"])
