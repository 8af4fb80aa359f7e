"""Planning for a runtime from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from models.runtime_models import random_model
from partita.exporters import find_exporter
from partita.problems.planned import read_split


def model(training: bool, wanted: Callable[[pt.Graph], bool] = lambda _: True) -> pt.Graph:
    """The first random model with four blocks in a row, that has what is wanted."""
    graphs = (random_model(seed, training=training) for seed in range(500))
    return next(
        graph
        for graph in graphs
        if "layers.3.att" in {op.module for op in graph.operators} and wanted(graph)
    )  # fmt: skip


def untied(graph: pt.Graph) -> bool:
    return all(not parameter.aliases for parameter in graph.parameters) and len(graph.parameters) > 3


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[pt.Graph], Path]:
    def save(graph: pt.Graph) -> Path:
        path = tmp_path / "graph.json"
        pt.write_graph(path, graph)
        return path

    return save


@pytest.mark.parametrize("runtime", ["vllm", "llama.cpp", "onnx", "onnx-stages"])
def test_the_exporter_takes_the_plan(
    partita: Callable[..., Any], saved: Callable[[pt.Graph], Path], tmp_path: Path, runtime: str
) -> None:
    output = tmp_path / "r.json"
    path = saved(model(False, untied))
    arguments = ("--cluster", "3xA100-80GB", "--runtime", runtime, "--memory", 1e9, "--time-limit", 10)
    run = partita("plan", path, *arguments, "--output", output, "--json")
    assert run.code == 0, run.err
    document = run.document
    assert (document["status"], document["runtime"]["name"]) == ("optimal", runtime)
    assert document["runtime"]["cost"] >= 0
    assert document["runtime"]["sentences"][0].startswith(f"{runtime}'s limits cost")
    assert not find_exporter(runtime).supports(read_split(output))


def test_what_the_limits_cost_is_said(partita: Callable[..., Any], saved: Callable[[pt.Graph], Path]) -> None:
    # Two operators of a block could be on two devices, whole layers could not.
    graph = model(False, untied)
    heavy = tuple(
        msgspec.structs.replace(op, module=op.module.replace(".3.", ".2."), bytes_read=op.bytes_read * 20)
        if op.module in ("layers.2.att", "layers.3.att")
        else op
        for op in graph.operators
    )
    path = saved(graph.replace(operators=heavy))
    run = partita("plan", path, "--cluster", "2xA100-80GB", "--runtime", "vllm")
    assert run.code == 0, run.err
    assert "vllm's limits cost" in run.out
    assert "the free plan takes" in run.out
    free = partita("plan", path, "--cluster", "2xA100-80GB", "--json").document
    limited = partita("plan", path, "--cluster", "2xA100-80GB", "--runtime", "vllm", "--json").document
    assert limited["runtime"]["free"]["objective"] == pytest.approx(free["objective"])
    assert limited["runtime"]["cost"] == pytest.approx(limited["objective"] / free["objective"] - 1)
    assert limited["runtime"]["cost"] > 0.05


@pytest.mark.parametrize(
    ("training", "arguments", "said"),
    [
        (False, ("--runtime", "vlm"), "there is no runtime 'vlm'"),
        (False, ("--runtime", "torchtitan"), "add --training"),
        (True, ("--runtime", "vllm"), "trains none"),
        (False, ("--runtime", "vllm", "--contiguity", "free"), "passes tensors forward only"),
        (False, ("--runtime", "accelerate", "--objective", "throughput", "--max-replicas", "2"), "no data-parallel"),
        (False, ("--runtime", "torch", "--max-replicas", "2"), "one mesh for all stages"),
        (False, ("--runtime", "vllm", "--objective", "latency"), "--objective throughput"),
        (False, ("--runtime", "vllm", "--search-replicas"), "leave it out, or --runtime"),
        (True, ("--runtime", "megatron", "--mesh", "free"), "leave --mesh free out"),
        (True, ("--runtime", "megatron", "--schedule", "zero-bubble"), "no schedule zero-bubble"),
        (True, ("--runtime", "deepspeed", "--zero", "3"), "pipelines with ZeRO-0 and 1"),
        (True, ("--runtime", "torch", "--tensor-parallel-degrees", "2"), "no tensor parallelism"),
    ],
)
def test_what_a_runtime_does_not_run_is_refused(
    partita: Callable[..., Any],
    saved: Callable[[pt.Graph], Path],
    training: bool,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    run = partita("plan", saved(model(training, untied)), "--cluster", "2xA100-80GB", *arguments)
    assert run.code == 2, run.out
    assert said in run.err
    assert "Traceback" not in run.err


def test_models_without_a_row_of_blocks_are_refused_and_planned_elsewhere(
    partita: Callable[..., Any], saved: Callable[[pt.Graph], Path]
) -> None:
    graph = model(False, untied)
    rows = {"layers.0.att": "encoder.0.att", "layers.1.att": "encoder.1.att"}
    operators = tuple(msgspec.structs.replace(op, module=rows.get(op.module, op.module)) for op in graph.operators)
    path = saved(graph.replace(operators=operators))
    run = partita("plan", path, "--cluster", "2xA100-80GB", "--runtime", "vllm")
    assert run.code == 2
    assert "2 chains of blocks (encoder, layers)" in run.err
    assert partita("plan", path, "--cluster", "2xA100-80GB", "--runtime", "onnx").code == 0


def test_a_plan_that_does_not_fit_within_the_limits_is_infeasible(
    partita: Callable[..., Any], saved: Callable[[pt.Graph], Path]
) -> None:
    path = saved(model(False, untied))
    run = partita("plan", path, "--cluster", "2xA100-80GB", "--runtime", "vllm", "--memory", 1e6)
    assert run.code == 1
    assert "infeasible" in run.out


def test_tied_weights_that_would_be_copied_keep_the_model_on_one_stage(
    partita: Callable[..., Any], saved: Callable[[pt.Graph], Path]
) -> None:
    def tied(graph: pt.Graph) -> bool:
        modules = [op.module for op in graph.operators]
        return any({modules[v] for v in p.users} == {"embed", "head"} for p in graph.parameters)

    path = saved(model(True, tied))
    arguments = ("--training", "--objective", "throughput", "--cluster", "3xA100-80GB", "--json")
    kept = partita("plan", path, *arguments, "--runtime", "torchtitan").document
    summed = partita("plan", path, *arguments, "--runtime", "megatron").document
    assert len(kept["plan"]["stages"]) == 1
    assert any("torchtitan does not keep two copies" in note for note in kept["notes"])
    assert len(summed["plan"]["stages"]) > 1
