"""The contest runs from end to end on a file, and says where a baseline wins."""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import partita

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "benchmarks" / "makespan_contest.py"


def fork(path: Path) -> None:
    """Two branches between two ends, on two equal devices: 2.5 side by side, with transfers of half."""
    link = [[0.0, 0.5], [0.5, 0.0]]
    pairs = [(0, 1), (0, 2), (1, 3), (2, 3)]
    times = (0.0, 2.0, 2.0, 0.0)
    document = {
        "devices": [{"memory_bits": 10.0}] * 2,
        "operators": [{"id": v, "time_ms": [t, t], "memory_bits": 1.0} for v, t in enumerate(times)],
        "flows": [{"id": f, "source": u, "target": v, "time_ms": link} for f, (u, v) in enumerate(pairs)],
        "precedence": [],
    }
    path.write_text(json.dumps(document))


def contest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder), "--out", str(folder / "out"), *arguments]
    found = {"PYTHONPATH": str(Path(partita.__file__).parents[1])}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | found, timeout=300)


def test_rows_of_a_file(tmp_path: Path) -> None:
    """A solver and a baseline, with values, gaps and what each took."""
    pytest.importorskip("ortools", reason="the proof needs CP-SAT")
    fork(tmp_path / "fork.json")
    done = contest(tmp_path, "--instances", "fork", "--solvers", "exact,single device", "--time-limit", "5")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "makespan_contest.csv").open() as stream:
        exact, single = csv.DictReader(stream)
    assert [exact["solver"], single["solver"]] == ["exact", "single device"]
    assert (float(exact["makespan"]), float(exact["bound"]), float(exact["gap"])) == pytest.approx((2.5, 2.5, 0.0))
    assert (float(single["makespan"]), float(single["gap"])) == pytest.approx((4.0, 0.375))
    assert all(float(row["time_s"]) > 0 and float(row["peak_mb"]) > 10 for row in (exact, single))
    assert "37.5%" in done.stdout


def test_a_baseline_that_wins_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where ours has no schedule at all; equal ones do not win."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    contest_of = importlib.import_module(SCRIPT.stem)
    values = {"a": (2.0, 1.0), "b": (None, 3.0), "c": (2.0, 2.0), "d": (2.0, None), "e": (None, None)}
    rows = [
        {"instance": name, "devices": 2, "graph": "original", "solver": solver, "makespan": value}
        for name, pair in values.items()
        for solver, value in zip(("exact", "HEFT"), pair, strict=True)
    ]
    found = contest_of.better_than("exact", rows)
    assert found == [f"{name} 2 original: HEFT is better than exact" for name in ("a", "b")]


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    """Of instances, with what there is."""
    fork(tmp_path / "fork.json")
    done = contest(tmp_path, "--instances", "fork,spoon")
    assert done.returncode != 0
    assert "'spoon'" in done.stderr
    assert "fork" in done.stderr


@pytest.mark.slow
def test_a_model_as_it_is_and_fused(tmp_path: Path) -> None:
    """The folding trunk, one block: fused it has fewer operators, and takes less."""
    pytest.importorskip("transformers", reason="models need transformers")
    arguments = ("--instances", "esmfold-trunk", "--devices", "2", "--solvers", "annealing,m-ETF", "--time-limit", "5")
    done = contest(tmp_path, "--quick", *arguments)
    with (tmp_path / "out" / "makespan_contest.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["graph"] for row in rows] == ["original", "original", "fused", "fused"]
    assert int(rows[0]["operators"]) > int(rows[2]["operators"]) > 20
    assert float(rows[0]["makespan"]) > float(rows[2]["makespan"]) > 0
