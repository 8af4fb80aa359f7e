"""Stages go to the cards that the plan has for them, wherever these are on the host."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporters.readers import shell
from exporters.splits import cut, graph_of
from partita.conductor.split import make_split
from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.exporters import find_exporter
from partita.exporters.card_names import check_cards, is_card
from partita.exporters.cards import cards_of_split
from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.cluster import Cluster
from partita.nouns.split import Split, StagePart
from partita.problems.facets.model import ModelParts

#: What drivers call cards of the catalogue, and cards that are none of them.
NAMES = {
    "A100-40GB": (("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"), ("NVIDIA A100 80GB PCIe", "NVIDIA A10")),
    "H100-80GB": (("NVIDIA H100 80GB HBM3",), ("NVIDIA H200", "NVIDIA A100-SXM4-80GB")),
    "H100-PCIE": (("NVIDIA H100 PCIe",), ("NVIDIA H100 80GB HBM3",)),
    "H200-141GB": (("NVIDIA H200",), ("NVIDIA H100 80GB HBM3",)),
    "L4": (("NVIDIA L4",), ("NVIDIA L40S", "NVIDIA L40")),
    "T4": (("Tesla T4",), ("NVIDIA T400",)),
    "V100-16GB": (("Tesla V100-SXM2-16GB",), ("Tesla V100-SXM2-32GB",)),
    "A10": (("NVIDIA A10",), ("NVIDIA A10G", "NVIDIA A100-SXM4-40GB")),
    "RTX4090": (("NVIDIA GeForce RTX 4090",), ("NVIDIA GeForce RTX 3090",)),
    "MI300X": (("AMD Instinct MI300X",), ("AMD Instinct MI250X",)),
}


def on(cluster: str, *places: int, training: bool = False, counts: tuple[int, ...] = (), **how: Any) -> Split:
    """A decoder whose stages are on these devices of a cluster, in this order."""
    graph = graph_of("decoder", training)
    view, found = GraphView(graph), Cluster.from_spec(cluster)
    row, names = assign_layers(view)
    size = -(-len(names) // len(places))
    kinds = found.device_names()
    stages = [
        StagePart(
            operators=tuple(v for v, root in enumerate(view.roots) if row[root] // size == number),
            devices=(f"{kinds[place]}:{place}",),
            kind=kinds[place],
            accelerator=kinds[place] != "CPU",
            rank=number,
            places=(place,),
        )
        for number, place in enumerate(places)
    ]
    usual = {"schedule": "1f1b", "microbatches": 8} if training else {}
    return make_split(graph, ModelParts(stages, **{**usual, **how}), found)


def test_a_map_has_the_numbers_of_the_cluster(tmp_path: Path) -> None:
    """The second stage is on the only A100, which is the first card: numbers are not those of the stages."""
    exporter = find_exporter("accelerate")
    split = on("1xA100-40GB+2xL4", 1, 0)
    exporter.export(split, tmp_path / "map.json")
    found = json.loads((tmp_path / "map.json").read_text())
    assert (found["tok_embeddings"], found["output"]) == (1, 0)


@pytest.mark.parametrize("runtime", ["accelerate", "onnx", "onnx-stages", "onnxruntime"])
def test_numbers_without_a_program_to_check_them_come_with_a_note(runtime: str) -> None:
    exporter = find_exporter(runtime)
    (note,) = exporter.notes(on("1xA100-40GB+2xL4", 1, 0))
    assert "0 is A100-40GB, 1 is L4, 2 is L4" in note
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in note
    assert list(exporter.notes(on("4xL4", 0, 1))) == []


@pytest.mark.parametrize(("runtime", "program"), [("vllm", "vllm"), ("llama.cpp", "llama-server")])
@pytest.mark.parametrize(
    ("cluster", "places", "visible"),
    [
        ("1xA100-40GB+2xL4", (1, 0), "1,0"),
        ("1xA100-40GB+2xL4", (0, 2), "0,2"),
        ("3xL4", (0, 2), "0,2"),
        ("3xL4", (1, 0), "1,0"),
        ("3xL4", (0, 1), "0,1"),
        ("2xL4", (0, 1), ""),
    ],
)
def test_scripts_name_the_cards_that_a_runtime_sees(
    tmp_path: Path, runtime: str, program: str, cluster: str, places: tuple[int, ...], visible: str
) -> None:
    """Run with programs that say what they get; cards in another order are noticed where they differ."""
    path = tmp_path / "serve.sh"
    find_exporter(runtime).export(on(cluster, *places), path)
    kinds = Cluster.from_spec(cluster).device_names()
    names = [NAMES[kind][0][0] for kind in kinds]
    found, words, said = shell.run(path, program, names, "--model", "it")
    assert found.get("visible") == visible, said
    assert found["order"] == ("PCI_BUS_ID" if visible else "")
    assert words[:2] == (["serve", "--model"] if runtime == "vllm" else ["--model", "it"])
    if len(set(kinds)) > 1:
        found, _, said = shell.run(path, program, names[::-1])
        assert found == {}
        assert "and the plan was made for" in said


@pytest.mark.parametrize("kind", NAMES)
def test_cards_are_known_by_what_drivers_call_them(kind: str) -> None:
    assert kind in load_catalogue().devices
    same, other = NAMES[kind]
    assert all(is_card(kind, name) for name in same)
    assert not any(is_card(kind, name) for name in other)
    check_cards({1: kind}, {0: other[0], 1: same[0]})
    with pytest.raises(SystemExit, match=f"card 1 is {other[0]}, and the plan was made for a {kind} there"):
        check_cards({1: kind}, {0: same[0], 1: other[0]})
    with pytest.raises(SystemExit, match="uses card 2"):
        check_cards({2: kind}, {0: same[0]})


def test_ranks_that_are_not_in_the_order_of_the_cards_are_said(tmp_path: Path) -> None:
    split = on("1x(1xA100-40GB+2xL4)", 2, 0, training=True)
    for runtime in ("megatron", "torchtitan", "deepspeed"):
        path = tmp_path / runtime
        find_exporter(runtime).export(split, path)
        text = path.read_text()
        assert "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,0" in text
        assert "2 is L4, 0 is A100-40GB" in text
        find_exporter(runtime).export(on("4xL4", 0, 1, training=True), path)
        assert "CUDA" not in path.read_text()
    assert tomllib.loads((tmp_path / "torchtitan").read_text())


def test_splits_that_do_not_say_which_cards_they_are_on(tmp_path: Path) -> None:
    """Alike ones are counted in the order of the stages; ones that differ are refused."""
    devices = {0: {"kind": "T4", "devices": ("T4:0",)}}
    graph = graph_of("decoder")
    row, names = assign_layers(GraphView(graph))
    halves = [int(layer >= len(names) // 2) for layer in row]
    assert cards_of_split(cut(graph, halves)).stages == ((0,), (1,))
    (reason,) = find_exporter("vllm").supports(cut(graph, halves, devices=devices))
    assert "cards that differ, and does not say which" in reason


def test_a_split_is_on_cards_that_there_are() -> None:
    split = on("2xL4", 0, 1)
    stages = tuple(msgspec.structs.replace(stage, places=(5,)) for stage in split.stages)
    with pytest.raises(InputError, match="names card 5 and has 2 cards"):
        msgspec.structs.replace(split, stages=stages)
    stages = tuple(msgspec.structs.replace(stage, places=(0, 1)) for stage in split.stages)
    with pytest.raises(InputError, match="1 devices on 2 cards"):
        msgspec.structs.replace(split, stages=stages)
