"""What result files say of a model's stages, for plans of every problem: compared with the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from exporters.splits import by_layers, graph_of, runs, unet
from partita.conductor.documents import answer_document
from partita.conductor.split import split_of
from partita.documents.document import write_json
from partita.documents.result_file import split_document
from partita.ground.errors import InputError
from partita.nouns.graph import Graph
from partita.nouns.split import Split, StagePart
from partita.problems.planned import read_split


def check(split: Split, graph: Graph) -> None:
    """Everything that the split says follows from where the operators are."""
    stage_of = {v: number for number, stage in enumerate(split.stages) for v in stage.operators}
    assert sorted(stage_of) == list(range(len(graph.operators)))
    assert sum(len(stage.operators) for stage in split.stages) == len(graph.operators)
    moved: dict[tuple[int, int], int] = {}
    for tensor in graph.tensors:
        if tensor.producer is None or graph.operators[tensor.producer].phase == "backward":
            continue
        source = stage_of[tensor.producer]
        readers = {stage_of[v] for v in tensor.consumers if graph.operators[v].phase == "forward"}
        for target in readers - {source}:
            moved[source, target] = moved.get((source, target), 0) + tensor.bytes
    said: dict[tuple[int, int], int] = {}
    for send in (*split.sends, *split.constants):
        said[send.source, send.target] = said.get((send.source, send.target), 0) + send.bytes
    assert said == moved
    for weight, parameter in zip(split.weights, graph.parameters, strict=True):
        assert weight.name == parameter.name
        assert weight.stages == tuple(sorted({stage_of[v] for v in parameter.users}))
    for number, stage in enumerate(split.stages):
        for module in stage.modules:
            inside = [v for v, op in enumerate(graph.operators) if f"{op.module}.".startswith(f"{module}.")]
            heavy = [v for v in inside if graph.operators[v].phase == "forward" and not graph.operators[v].free]
            assert {stage_of[v] for v in heavy} == {number}
    text = msgspec.json.encode(split)
    assert msgspec.json.decode(text, type=Split) == split


@pytest.mark.parametrize("name", ["decoder", "tied", "unet"])
@pytest.mark.parametrize(
    ("training", "objective", "settings"),
    [
        (False, "throughput", {}),
        (False, "throughput", {"contiguity": "free"}),
        (True, "throughput", {"cuts": "layer"}),
        (False, "latency", {}),
        (False, "latency", {"fuse": True}),
        (True, "hybrid", {"microbatches": (4,)}),
    ],
)
def test_plans_of_every_problem(name: str, training: bool, objective: str, settings: dict[str, Any]) -> None:
    """With the devices and the schedule of the plan."""
    graph = graph_of(name, training)
    answer = pt.plan(
        graph, pt.Cluster.from_spec("2xL4"), objective=objective, time_limit_s=120, baselines=False, **settings
    )
    split = split_of(answer)
    assert split is not None
    check(split, answer.graph)
    assert split.source == graph.source
    assert split.sequential == (objective == "latency")
    assert answer_document(answer)["split"] == split_document(split)


@pytest.mark.parametrize("zero", [0, 1])
def test_interleaved_stages_come_in_the_order_of_the_pipeline(zero: int) -> None:
    graph = graph_of("decoder", training=True)
    layout = f"tensor=1,pipeline=2,data=2,chunks=2,zero={zero}"
    answer = pt.plan(graph, pt.Cluster.from_spec("4xL4"), objective="hybrid", layout=layout, microbatches=(8,))
    split = split_of(answer)
    assert split is not None
    check(split, graph)
    assert [stage.rank for stage in split.stages] == [0, 1, 0, 1]
    assert [split.blocks_of(number) for number in range(4)] == [1, 1, 1, 1]
    assert [stage.devices for stage in split.stages[:2]] == [("L4:0", "L4:1"), ("L4:2", "L4:3")]
    assert (split.schedule, split.chunks, split.zero, split.ranks) == ("interleaved", 2, zero, 2)
    assert split.microbatches_of_replica == 4
    assert not split.backwards


def test_what_passes_over_a_stage_is_a_skip() -> None:
    split = unet()
    check(split, graph_of("unet"))
    assert [(send.source, send.target) for send in split.skips] == [(0, 2)]
    assert split.backwards == ()
    assert by_layers("decoder", (2, 2, 2)).skips == ()


def test_a_layer_that_is_cut_is_on_both_stages() -> None:
    """Parts that a stage has whole are its modules; the block's own operators say where each of them is."""
    split = runs(graph_of("decoder"), ("layers.1.up",))
    check(split, graph_of("decoder"))
    cut = next(layer for layer in split.layers if layer.name == "layers.1")
    assert cut.stages == (0, 1)
    assert "layers.1.norm" in split.stages[0].modules
    assert "layers.1.up" in split.stages[1].modules
    shared = next(module for module in split.shared if module.name == "layers.1")
    assert [stage for _, stage in shared.operators] == [1, 1]
    assert shared.joins == 1
    assert split.blocks_of(0) == 1
    assert split.blocks_of(1) == 2


def test_ends_are_layers_of_their_own() -> None:
    layers = by_layers("tied", (3, 3)).layers
    assert [(layer.part, layer.modules) for layer in layers] == [
        ("input", ("tok_embeddings",)),
        *(("block", (f"layers.{n}",)) for n in range(4)),
        ("output", ("norm", "output")),
    ]


def test_a_split_is_checked() -> None:
    with pytest.raises(InputError, match="has no stages"):
        Split(model="m", stages=())
    split = by_layers("decoder", (3, 3))
    with pytest.raises(InputError, match="names stage 1 and has 1 stages"):
        msgspec.structs.replace(split, stages=(StagePart(rank=0, devices=("L4:0",)),))


def test_result_files_hold_it(tmp_path: Path) -> None:
    answer = pt.plan(graph_of("decoder"), pt.Cluster.from_spec("2xL4"), time_limit_s=120, baselines=False)
    write_json(tmp_path / "r.json", answer_document(answer))
    assert read_split(tmp_path / "r.json") == split_of(answer)
