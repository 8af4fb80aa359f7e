"""Plans of models say where they run: ``partita plan`` on a topology, and the search over stages and replicas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from partita.documents.stated import write_graph
from partita.frontends.models import load_model
from running.command_line import Run


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model, traced for training."""
    pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("graphs") / "g.json"
    fields = {"n_layer": "2", "n_embd": "32", "n_head": "2", "vocab_size": "64"}
    write_graph(path, load_model("hf:gpt2", set_fields=fields, training=True, batch_size=1, sequence_length=16))
    return str(path)


def test_a_plan_says_where_it_runs(partita: Callable[..., Run], graph: str, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    where = "two-level:2x2:device=V100-32GB"
    run = partita(
        "plan", graph, "--cluster", where, "--objective", "throughput", "--microbatches", "4",
        "--time-limit", "5", "--output", result,
    )  # fmt: skip
    assert run.code == 0, run.err
    assert "Placement on two-level:2x2" in run.out
    document = json.loads(result.read_text())
    placement = document["placement"]
    assert len(placement["stages"]) == len(document["plan"]["devices"])
    used = [d for stage in placement["stages"] for replica in stage["replicas"] for d in replica["devices"]]
    assert len(used) == len(set(used))
    assert placement["step_time"] <= placement["in_order"]["step_time"]
    assert placement["bound"] <= placement["objective"] * (1 + 1e-9)
    again = partita("map", result, "--topology", where, "--json")
    assert again.code == 0, again.err
    assert again.document["objective"] <= placement["objective"] * (1 + 1e-9)
    missing = partita("map", result)
    assert missing.code == 2
    assert "say where to place it with --topology" in missing.err


@pytest.mark.parametrize("objective", ["throughput", "hybrid"])
def test_stages_and_replicas_are_searched(partita: Callable[..., Run], graph: str, objective: str) -> None:
    run = partita(
        "plan", graph, "--cluster", "two-level:2x2:device=V100-32GB", "--objective", objective,
        "--microbatches", "4", "--time-limit", "200", "--search-replicas", "--json",
    )  # fmt: skip
    assert run.code == 0, run.err
    search = run.document["search"]
    steps = [one["step_time"] for one in search["explored"] if one["step_time"] is not None]
    assert run.document["placement"]["step_time"] == min(steps)
    assert {"plan of objective throughput", "plan of objective hybrid"} <= {one["name"] for one in search["explored"]}
    for one in search["explored"]:
        if one["step_time"] is not None and one["bound"] is not None:
            assert one["bound"] <= one["step_time"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--jobs", "2"), "are for --search-replicas"),
        (
            ("--objective", "hybrid", "--minimise", "steady", "--search-replicas"),
            "numbers of stages and replicas are searched for steps",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(
    partita: Callable[..., Run], graph: str, flags: tuple[str, ...], said: str
) -> None:
    run = partita("plan", graph, "--cluster", "two-level:1x2:device=V100-32GB", *flags)
    assert run.code == 2
    assert said in run.err
