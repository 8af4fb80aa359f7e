"""A result file has one plan: whatever else it says of it is compared before anybody uses it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from exporters.splits import graph_of
from partita.conductor.documents import answer_document
from partita.documents.document import write_json
from partita.documents.result_file import with_problem
from partita.ground.errors import InputError
from partita.problems.planned import read_plan, read_planned, read_split
from running.command_line import Run, partita

__all__ = ["partita"]

#: What is planned of each sort: a row of devices, replicas in two stages of two parts, devices that differ.
SORTS: dict[str, dict[str, Any]] = {
    "throughput": {"objective": "throughput", "cuts": "layer"},
    "hybrid": {
        "objective": "hybrid",
        "layout": "tensor=1,pipeline=2,data=2,chunks=2,zero=1,recompute=full",
        "microbatches": (8,),
    },
    "latency": {"objective": "latency"},
}
CLUSTERS = {"throughput": "1xA100-40GB+2xL4", "hybrid": "4xL4", "latency": "2xL4"}


@cache
def answered(sort: str) -> dict[str, Any]:
    """The result file of a plan, as JSON."""
    graph = graph_of("decoder", sort == "hybrid")
    # Too little memory for one device of two.
    settings = {"memory": 14_000.0} if sort == "latency" else {}
    cluster = pt.Cluster.from_spec(CLUSTERS[sort])
    answer = pt.plan(graph, cluster, time_limit_s=60, baselines=False, **SORTS[sort], **settings)
    assert answer.result.plan is not None
    document = with_problem(answer_document(answer), answer.problem)
    found: dict[str, Any] = json.loads(msgspec.json.encode(msgspec.to_builtins(document, str_keys=True)))
    return found


def at(document: Any, *path: Any) -> Any:
    for step in path:
        document = document[step]
    return document


def swap(document: dict[str, Any], *path: Any) -> None:
    """Exchange the first and the last entry of a list."""
    row = at(document, *path)
    assert len(row) > 1
    row[0], row[-1] = row[-1], row[0]


def put(*path: Any) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    def value(new: Any) -> Callable[[dict[str, Any]], None]:
        def change(document: dict[str, Any]) -> None:
            assert at(document, *path) != new
            at(document, *path[:-1])[path[-1]] = new

        return change

    return value


def move(document: dict[str, Any], *path: Any) -> None:
    """Move an operator from the first entry of a list to the second."""
    first, second = at(document, *path)[:2]
    second["operators"].append(first["operators"].pop())


EDITS: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    (
        "throughput",
        lambda d: move(d, "plan", "devices"),
        r"plan\.stages\[0\] and plan\.devices\[0\] differ in operators",
    ),
    (
        "throughput",
        lambda d: move(d, "plan", "stages"),
        r"plan\.stages\[0\] and plan\.devices\[0\] differ in operators",
    ),
    (
        "throughput",
        lambda d: (move(d, "plan", "stages"), move(d, "plan", "devices")),  # type: ignore[func-returns-value]
        r"plan\.devices\[1\] has operator \d+, and split\.stages\[1\] has not",
    ),
    ("throughput", lambda d: swap(d, "plan", "devices"), "differ in name"),
    ("throughput", lambda d: move(d, "split", "stages"), "split was changed after it was written"),
    ("throughput", put("split", "stages", 0, "places", 0)(2), "split was changed after it was written"),
    ("throughput", put("plan", "devices", 0, "replicas")(3), r"plan\.devices\[0\]\.replicas is 3"),
    ("throughput", put("cluster", "machines", 0, "devices", 0, 0)("L4"), "devices of cluster are not those of split"),
    ("throughput", put("model", "training")(True), r"model\.training is not what split\.training says"),
    ("hybrid", put("plan", "stages", 0, "data_parallel")(1), r"plan\.devices is 4, and plan\.stages have 3"),
    (
        "hybrid",
        lambda d: d["plan"].update(schedule="1f1b"),
        r"plan\.schedule is 1f1b, and split\.schedule is interleaved",
    ),
    ("hybrid", put("plan", "zero")(3), r"plan\.zero is 3, and split\.zero is 1"),
    ("hybrid", lambda d: swap(d, "plan", "stages", 0, "chunks"), r"plan\.stages\[0\]\.operators are not the layers"),
    ("hybrid", put("plan", "stages", 0, "configurations", "1")("none"), r"configurations has none for layer 1, .*full"),
    ("hybrid", put("plan", "stages", 0, "operators")([0, 1]), r"stages\[0\]\.chunks are not its operators"),
    (
        "hybrid",
        lambda d: [stage.update(context_parallel=2, data_parallel=1) for stage in d["plan"]["stages"]],  # type: ignore[func-returns-value]
        r"plan\.microbatches is 4, and plan\.stages have 2",
    ),
    (
        "latency",
        lambda d: d["plan"]["operators"]["5"].update(device=1 - d["plan"]["operators"]["5"]["device"]),
        "devices 0, 1",
    ),
]


@pytest.mark.parametrize(("sort", "edit", "message"), EDITS, ids=[str(number) for number in range(len(EDITS))])
def test_an_edited_file_is_refused_by_every_reader(
    tmp_path: Path, sort: str, edit: Callable[[dict[str, Any]], None], message: str
) -> None:
    """Whoever reads the plan, or the split, or both says which fields differ, and what to do."""
    path = tmp_path / "r.json"
    document = copy.deepcopy(answered(sort))
    write_json(path, document)
    problem = read_planned(path).problem
    assert read_split(path).stages
    edit(document)
    write_json(path, document)
    for read in (read_planned, read_split, lambda path: read_plan(path, problem)):
        with pytest.raises(InputError, match=message) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "plan" in str(caught.value).partition(";")[2]


@pytest.mark.parametrize("sort", SORTS)
def test_files_of_earlier_versions_are_read(tmp_path: Path, sort: str) -> None:
    """Their splits say less, and have no digest."""
    old = copy.deepcopy(answered(sort))
    split = old["split"]
    for name in ("sha256", "samples", "sequence", "sequence_parallel", "overlap", "optimizer", "formats", "cards"):
        del split[name]
    for stage in split["stages"]:
        for name in ("context", "expert", "places", "planned", "offload"):
            del stage[name]
    for layer in split["layers"]:
        del layer["recompute"]
    for weight in split["weights"]:
        del weight["trained"]
    path = tmp_path / "old.json"
    write_json(path, old)
    planned = read_planned(path)
    assert planned.split is not None
    assert [stage.devices for stage in planned.split.stages] == [tuple(stage["devices"]) for stage in split["stages"]]
    del old["problem"]["stated"]
    write_json(path, old)
    assert read_split(path) == planned.split
    # Without a problem the plan is still known by its form.
    old["split"]["stages"][0]["operators"], old["split"]["stages"][-1]["operators"] = (
        old["split"]["stages"][-1]["operators"],
        old["split"]["stages"][0]["operators"],
    )
    if sort == "throughput":
        write_json(path, old)
        with pytest.raises(InputError, match="contradicts itself"):
            read_split(path)


def test_every_command_refuses_it(tmp_path: Path, partita: Callable[..., Run]) -> None:
    """Exit status 2, one line; a plan without what follows from it is evaluated as it is."""
    document = copy.deepcopy(answered("throughput"))
    problem, path = tmp_path / "p.json", tmp_path / "r.json"
    write_json(problem, document["problem"]["stated"])
    move(document, "plan", "devices")
    write_json(path, document)
    for arguments in (
        ("evaluate", problem, path),
        ("simulate", path),
        ("export", path, "--to", "accelerate", "--output", tmp_path / "out"),
        ("run", path),
        ("map", path, "--topology", "dgx1:4"),
        ("compare", problem, "--expert", path),
    ):
        run = partita(*arguments)
        assert (run.code, run.out) == (2, ""), arguments
        assert re.search(r"contradicts itself: plan\.stages\[0\] and plan\.devices\[0\] differ", run.err), run.err
        assert run.err.count("\n") == 1
    del document["split"], document["plan"]["stages"]
    write_json(path, document)
    assert partita("evaluate", problem, path, "--json").code == 0
