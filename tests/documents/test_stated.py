"""Graphs in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import partita as pt
from instances.strategies import random_problem
from partita.ground.errors import FormatError
from partita.nouns import graph as graphs

GRAPH = graphs.Graph(
    name="net",
    operators=(
        graphs.Operator(name="a", target="aten.mm", flops=8, bytes_read=4),
        graphs.Operator(name="b", target="aten.add", module="m"),
    ),
    tensors=(graphs.Tensor(name="t", producer=0, consumers=(1,), shape=(2, 3), bytes=24),),
    notes=("a note",),
)


def test_path_and_value_in_either_order(tmp_path: Path) -> None:
    graph, problem = tmp_path / "g.json", tmp_path / "p.json"
    pt.write_graph(GRAPH, str(graph))
    assert pt.read_graph(graph) == GRAPH
    stated = random_problem(1, 8)
    pt.write_problem(stated, problem)
    assert pt.read_problem(problem) == stated
    first = problem.read_bytes()
    pt.write_problem(str(problem), stated)
    assert problem.read_bytes() == first
    with pytest.raises(pt.InputError, match="is no path of a file; give a path and a problem"):
        pt.write_problem(stated, stated)
    with pytest.raises(pt.InputError, match=r"^'p\.json' is not a problem"):
        pt.write_problem(problem, "p.json")
    assert problem.read_bytes() == first


def test_graphs_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    pt.write_graph(path, GRAPH)
    assert pt.read_graph(path) == GRAPH
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("partita.graph", 1)
    path.write_text(json.dumps(document | {"version": 2}))
    with pytest.raises(FormatError, match=r"version 2 of partita\.graph"):
        pt.read_graph(path)
