"""Published files, results, and the command line about layer placements."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.ground.errors import FormatError, InputError
from partita.problems.layer_placement.generators import random_layer_placement
from partita.problems.layer_placement.problem import PublishedFlow
from running.command_line import Run, partita

__all__ = ["partita"]

PUBLISHED: dict[str, Any] = {
    "name": "two",
    "source": "where it is from",
    "layers": 3,
    "machines": [
        {"name": "0", "type": "L4", "tokens_per_s": {"1": 8.0, "2": 4.0}},
        {"name": "1", "tokens_per_s": {"1": 6.0}},
    ],
    "links": [
        {"from": "source", "to": "0", "tokens_per_s": 50.0},
        {"from": "0", "to": "1", "tokens_per_s": 5.0},
        {"from": "1", "to": "sink", "tokens_per_s": 50.0},
    ],
    "published": {"objective": 3.5, "bound": 9.0, "seconds": 60.0},
}


def write(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "two.json"
    path.write_text(json.dumps({**PUBLISHED, **changes}))
    return path


def test_published_files_are_recognised_by_their_keys(tmp_path: Path) -> None:
    problem = pt.read_problem(write(tmp_path))
    assert problem.kind == "layer_placement"
    assert (problem.name, problem.layers, problem.overlap) == ("two", 3, False)
    assert problem.machines[0].tokens_per_s == {1: 8.0, 2: 4.0}
    assert [(link.source, link.target) for link in problem.links] == [("source", "0"), ("0", "1"), ("1", "sink")]
    assert problem.published == PublishedFlow(objective=3.5, bound=9.0, seconds=60.0)
    assert problem.notes == ("where it is from",)
    assert pt.read_problem(write(tmp_path, overlap=True, published=None)).overlap


def test_tokens_of_more_bytes_make_links_narrower(tmp_path: Path) -> None:
    problem = pt.read_problem(write(tmp_path), scale_communication=2.0)
    assert [link.tokens_per_s for link in problem.links] == [25.0, 2.5, 25.0]
    with pytest.raises(InputError, match="scale is 0"):
        problem.scale_communication(0.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": "many"}, "layers"),
        ({"machines": [{"name": "0"}]}, "tokens_per_s"),
        ({"links": [{"from": "source", "tokens_per_s": 1.0}]}, "to"),
        ({"machines": [{"name": "0", "tokens_per_s": {"one": 1.0}}]}, "tokens_per_s"),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=said) as found:
        pt.read_problem(write(tmp_path, **changes))
    assert "two.json" in str(found.value)


def test_solving_says_tokens_per_second_and_writes_intervals_and_flows(
    tmp_path: Path, partita: Callable[..., Run]
) -> None:
    path, result = write(tmp_path), tmp_path / "result.json"
    run = partita("solve", path, "--json", "--output", result)
    assert run.code == 0
    document = run.document
    assert (document["objective"], document["tokens_per_s"]) == (0.25, 4.0)
    assert document["tokens_per_s_bound"] == pytest.approx(4.0)
    assert document["status"] == "optimal"
    assert [(m["name"], m["layers"]) for m in document["plan"]["machines"]] == [("0", [0, 2]), ("1", [2, 3])]
    assert {(f["from"], f["to"]): f["tokens_per_s"] for f in document["plan"]["flows"]} == {
        ("source", "0"): 4.0,
        ("0", "1"): 4.0,
        ("1", "sink"): 4.0,
    }
    assert document["limiting_machines"] == ["0"]
    again = partita("evaluate", path, result, "--json")
    assert again.code == 0
    assert (again.document["objective"], again.document["tokens_per_s"]) == (0.25, 4.0)


def test_people_read_what_limits_the_flow(tmp_path: Path, partita: Callable[..., Run]) -> None:
    said = partita("solve", write(tmp_path)).out
    assert "limited by machine 0" in said
    assert "published: 3.5 tokens/s; this plan has 1.143 times as many" in said
    beside = partita("compare", write(tmp_path)).out
    for name in ("petals", "swarm", "equal layers", "one kind", "separate pipelines"):
        assert name in beside


def test_more_layers_and_overlap_are_asked_for(tmp_path: Path, partita: Callable[..., Run]) -> None:
    missing = partita("solve", write(tmp_path), "--layers", 4, "--json")
    assert missing.code == 1
    assert missing.document["status"] == "infeasible"
    assert "hold 3 layers, and the model has 4" in missing.document["reason"]
    # Without a table for one layer the first machine ends at 2, and the second begins before that.
    machines = [{"name": "0", "tokens_per_s": {"2": 4.0}}, {"name": "1", "tokens_per_s": {"2": 3.0}}]
    path = write(tmp_path, machines=machines)
    assert partita("solve", path, "--json").code == 1
    assert partita("solve", path, "--overlap", "--json").document["tokens_per_s"] == 3.0


def test_sweeps_have_tokens_per_second(tmp_path: Path, partita: Callable[..., Run]) -> None:
    run = partita("sweep", write(tmp_path), "--layers", "2,3", "--bandwidth", "0.5,1", "--json")
    rows = [(row["layers"], row["bandwidth"], row["tokens_per_s"]) for row in run.document["rows"]]
    assert rows == [(2, 0.5, 2.5), (2, 1.0, 5.0), (3, 0.5, 2.5), (3, 1.0, 4.0)]


def test_random_placements_are_like_what_was_asked_for(tmp_path: Path, partita: Callable[..., Run]) -> None:
    path = tmp_path / "random.json"
    partita("generate", "layer-placement", "--machines", 6, "--regions", 2, "--seed", 4, "--output", path)
    assert pt.read_problem(path) == random_layer_placement(4, machines=6, regions=2)
    narrow = {link.tokens_per_s < 1_000 for link in pt.read_problem(path).links}
    assert narrow == {True, False}
    with pytest.raises(InputError, match="machines"):
        random_layer_placement(0, machines=0)
