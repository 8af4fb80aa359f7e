"""partita compare: baselines and experts' splits beside the plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from partita.documents.stated import write_problem
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    ThroughputProblem,
    TimedOperator,
)
from running.command_line import Run

Call = Callable[..., Run]


def write_split(path: Path, *sets: list[int]) -> Path:
    """A split file of the published format."""
    path.write_text(json.dumps({"fpgas": [{"nodes": ids} for ids in sets], "cpus": []}))
    return path


def test_experts_are_rows(partita: Call, chain: Path, tmp_path: Path) -> None:
    """Times 2, 3, 4, transfers 1: {a} | {b, c} has max(2 + 1, 7 + 1) = 8, {a, c} | {b} has max(6 + 2, 3 + 2) = 8.

    The second runs as three virtual stages: in the full pipeline a sample takes 3 · 8 in rounds. Without waiting for
    their ends, it takes a (3) and waits for c of the sample before (5), for a of the next one (3), and takes c (5).
    """
    first = write_split(tmp_path / "ann.json", [0], [1, 2])
    second = write_split(tmp_path / "bob.json", [0, 2], [1])
    run = partita("compare", chain, "--expert", first, "--expert", second, "--json")
    assert run.code == 0
    rows = {row["name"]: row for row in run.document["baselines"]}
    assert rows["expert ann"]["objective"] == 8.0
    assert rows["expert bob"]["objective"] == 8.0
    assert rows["expert bob"]["pipeline"]["virtual_stages"] == 3
    assert rows["expert bob"]["pipeline"]["latency"] == 16.0
    assert rows["expert bob"]["pipeline"]["formula"]["latency"] == 24.0
    assert run.document["objective"] == 6.0
    assert run.document["plan"]["pipeline"] == {
        "stages": 2,
        "virtual_stages": 2,
        "depth": 2,
        "period": 6.0,
        "latency": 11.0,
        "latency_alone": 11.0,
        "formula": {"latency": 12.0, "latency_alone": 11.0},
    }
    assert all(row["load"] is None or row["load"] >= 6.0 for row in rows.values())


def test_a_broken_expert_is_one_message(partita: Call, chain: Path, tmp_path: Path) -> None:
    """Before the search."""
    run = partita("compare", chain, "--expert", write_split(tmp_path / "ann.json", [0], [1]))
    assert run.code == 2
    assert "operator 2" in run.err


def test_a_better_expert_is_adopted(partita: Call, chain: Path, tmp_path: Path) -> None:
    """A baseline asked for as the solver has 9 on one device; the expert's 6 becomes the plan, free splits included."""
    split = write_split(tmp_path / "ann.json", [0, 1], [2])
    run = partita("compare", chain, "--solver", "single-device", "--expert", split, "--json")
    assert run.document["objective"] == 6.0
    assert any("adopted" in event["note"] for event in run.document["statistics"]["events"])


def test_rows_are_ranked_by_objective_or_by_step(partita: Call, tmp_path: Path) -> None:
    """A deep free split has the better pace, and needs longer to fill than the short batch goes on."""
    times = [2.0, 3.0, 2.0, 3.0, 2.0, 3.0]
    problem = tmp_path / "row.json"
    write_problem(
        problem,
        ThroughputProblem(
            name="row",
            kinds=(DeviceKind(name="gpu", count=2),),
            operators=tuple(TimedOperator(id=i, times=(time,)) for i, time in enumerate(times)),
            tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.0) for i in range(5)),
            schedule=MicrobatchSchedule(microbatches=2),
            unit="ms",
        ),
    )
    for by, key in (("objective", lambda row: row["objective"]), ("step", lambda row: row["step"]["time"])):
        run = partita("compare", problem, "--contiguity", "free", "--rank", by, "--json")
        assert run.code == 0
        rows = [row for row in run.document["baselines"] if row["feasible"]]
        assert len(rows) >= 5
        values = [key(row) for row in rows]
        assert values == sorted(values)
        assert len(set(values)) > 1
    shown = partita("compare", problem, "--contiguity", "free", "--rank", "step").out
    assert "% step" in shown
    assert "% time" not in shown
