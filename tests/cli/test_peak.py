"""Peaks of memory on the command line: problem files, models, and files that cannot have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import partita as pt
from instances.cost_graphs import make_graph


def test_a_generated_problem(partita: Callable[..., Any], tmp_path: Path) -> None:
    path, result = tmp_path / "p.json", tmp_path / "r.json"
    options = ("--nodes", 50, "--memory", 300, "--working-memory", "peak", "--devices", 2)
    assert partita("generate", "regal", *options, "--output", path).code == 0
    run = partita("solve", path, "--solver", "slicing", "--time-limit", 5, "--json", "--output", result)
    assert run.code == 0, run.err
    again = partita("evaluate", path, result, "--json")
    assert again.code == 0, again.err
    assert again.document["objective"] == run.document["objective"]
    assert partita("generate", "regal", "--working-memory", "peak", "--output", path).code == 2, "it needs a memory"


def test_transfer_times_are_no_bytes(partita: Callable[..., Any], chain: Path) -> None:
    run = partita("solve", chain, "--streaming", "--working-memory", "peak")
    assert run.code == 2
    assert "instead of bytes" in run.err


def test_a_model(partita: Callable[..., Any], tmp_path: Path) -> None:
    graph = make_graph()
    graph = type(graph)(name="forward", operators=graph.operators[:3], tensors=forward_tensors(graph))
    path, problem = tmp_path / "g.json", tmp_path / "p.json"
    pt.write_graph(path, graph)
    options = ("--cluster", "2xA100-80GB", "--streaming", "--working-memory", "peak", "--problem-output", problem)
    run = partita("plan", path, *options, "--json")
    assert run.code == 0, run.err
    found = pt.read_problem(problem)
    assert isinstance(found, pt.ThroughputProblem)
    assert found.working_memory == "peak"
    # The inputs x and labels, and the loss; h and y are tensors between operators.
    assert [op.workspace_bytes for op in found.operators] == [4, 5, 4]


def forward_tensors(graph: pt.Graph) -> Any:
    """The tensors of the first three operators alone."""
    import msgspec

    return tuple(
        msgspec.structs.replace(tensor, consumers=tuple(v for v in tensor.consumers if v < 3))
        for tensor in graph.tensors
        if tensor.producer is None or tensor.producer < 3
    )
