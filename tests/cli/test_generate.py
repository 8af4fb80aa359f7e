"""`partita generate` and `partita convert` write problems that can be read and solved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import partita as pt
from instances.cost_graphs import make_graph
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import ThroughputProblem


def read(path: Path) -> ThroughputProblem:
    problem = pt.read_problem(path)
    assert isinstance(problem, ThroughputProblem)
    return problem


def test_generate(partita: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    options = ("--seed", 4, "--family", "layered", "--nodes", 60, "--devices", 4, "--output", path)
    assert partita("generate", "regal", *options).code == 0
    assert read(path) == regal_problem(4, family="layered", nodes=60, devices=4)
    run = partita("generate", "regal", "--family", "ring", "--output", path)
    assert run.code == 2
    assert "no graph family 'ring'; known are erdos-renyi" in run.err
    assert "does not exist" in partita("generate", "regal", "--output", tmp_path / "nowhere" / "p.json").err


def test_published_file_converts(partita: Callable[..., Any], tmp_path: Path, published_data: Path) -> None:
    path = tmp_path / "p.json"
    source = published_data / "dnn-partitioning" / "throughput" / "operator-bert_l-3_inference.json"
    assert partita("convert", source, "--devices", 4, "--output", path).code == 0
    problem = read(path)
    assert [(kind.count, kind.memory_bytes) for kind in problem.kinds] == [(4, None)]
    original = read(source).replace(accelerators=4, cpus=0, memory_bytes=float("inf"))
    plan = pt.solve(problem, time_limit_s=2, solver="slicing").plan
    assert plan is not None
    assert evaluate(problem, plan).objective == evaluate(original, plan).objective


def test_memory_is_streamed(partita: Callable[..., Any], chain: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    run = partita("convert", chain, "--memory", 15, "--output", path)
    assert run.code == 2
    assert "--reload-bandwidth" in run.err
    assert partita("convert", chain, "--memory", 15, "--reload-bandwidth", 1e4, "--output", path).code == 0
    problem = read(path)
    assert problem.streaming
    assert problem.kinds[0].memory_bytes == 15
    assert problem.kinds[0].reload_time_per_byte == 0.1


def test_traced_graph_converts(partita: Callable[..., Any], tmp_path: Path) -> None:
    graph, path = tmp_path / "g.json", tmp_path / "p.json"
    pt.write_graph(graph, make_graph())
    assert "--cluster" in partita("convert", graph, "--output", path).err, "a model needs a cluster"
    run = partita("convert", graph, "--cluster", "2xA100-80GB", "--output", path)
    assert run.code == 0, run.err
    document = json.loads(path.read_text())
    assert [op["backward"] for op in document["operators"]] == [False] * 3
    producers = [tensor["producer"] for tensor in document["tensors"]]
    assert len(producers) == len(set(producers))


def test_cost_graphs_are_solved(partita: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text(
        "node { id: 1 compute_cost: 4 output_info { size: 2 } }\n"
        "node { id: 2 compute_cost: 4 input_info { preceding_node: 1 } }"
    )
    run = partita("solve", path, "--devices", 2, "--json")
    assert run.code == 0, run.err
    assert run.document["objective"] == 6.0
    assert "states no devices and no bandwidth" in run.err
