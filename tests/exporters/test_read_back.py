"""Whatever an exporter writes reads back as the plan; what a form cannot say is refused, and nothing is written."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporters.random_splits import random_split
from exporters.readers import accelerate, deepspeed, llama_cpp, megatron, onnx_forms, torch_pipelining, torchtitan, vllm
from exporters.readers.plan import ReadPlan
from exporters.splits import by_layers
from partita.exporters import EXPORTERS, find_exporter
from partita.exporters.exporter import FileExporter
from partita.ground.errors import UnsupportedError
from partita.nouns.split import Split

#: Those that get the model's nodes take longer.
MODELS = ("onnx", "onnx-stages", "onnxruntime", "openvino")
PLAIN = [exporter.name for exporter in EXPORTERS if exporter.name not in MODELS]
#: Of 300 random plans at least so many are taken.
TAKEN = {
    "accelerate": 60,
    "torch": 60,
    "torchtitan": 80,
    "megatron": 120,
    "deepspeed": 90,
    "vllm": 80,
    "llama.cpp": 70,
    "onnx": 100,
    "onnx-stages": 100,
    "onnxruntime": 15,
    "openvino": 100,
}


def cards_of(split: Split) -> list[list[int]]:
    """By stage the numbers of its cards among the accelerators of the cluster."""
    numbers = [place for place, card in enumerate(split.cards) if card.accelerator]
    return [[numbers.index(place) for place in stage.places] if stage.accelerator else [] for stage in split.stages]


def accelerators(split: Split) -> int:
    return sum(card.accelerator for card in split.cards)


@cache
def onnx_model(name: str, folder: Path) -> Path:
    """The model of a split, exported once."""
    import torch

    from partita.exporters.module_inputs import wrapped_model

    split = next(split for seed in range(200) if (split := random_split("onnx", seed)).model == name)
    module, tensors = wrapped_model(split)
    path = folder / f"{name}.onnx"
    torch.onnx.export(module, tensors, str(path), dynamo=True, verbose=False, external_data=False)
    return path


def read(runtime: str, path: Path, split: Split) -> ReadPlan:
    """The plan that a form says, by the reader of its runtime."""
    devices = sum(len(stage.devices) for stage in split.stages) * split.ranks // len(split.stages)
    match runtime:
        case "megatron":
            return megatron.read(path.read_text(), devices)
        case "torchtitan":
            return torchtitan.read(path.read_text())
        case "deepspeed":
            return deepspeed.read(path.read_text(), {layer.name for layer in split.blocks})
        case "vllm":
            return vllm.read(path.read_text(), accelerators(split))
        case "llama.cpp":
            return llama_cpp.read(path.read_text(), len(split.blocks), accelerators(split))
        case "accelerate":
            return accelerate.read(path.read_text(), [stage.modules for stage in split.stages])
        case "torch":
            return torch_pipelining.read(path)
        case "onnx":
            return onnx_forms.read_stages(path)
        case "onnx-stages":
            return onnx_forms.read_annotated(path)
        case "onnxruntime":
            return onnx_forms.read_session(path)
        case _:
            return onnx_forms.read_affinities(path)


def meant(split: Split, name: str) -> Any:
    """What the plan says under the name of a reader's field; None where it decides nothing."""
    first, groups = split.stages[0], split.stages[0].replicas * split.stages[0].context
    simple = {
        "ranks": split.ranks,
        "data": first.replicas,
        "tensor": first.tensor,
        "context": first.context,
        "expert": first.expert,
        "expert_tensor": first.expert_tensor or first.tensor,
        "samples": split.samples,
        "sequence": split.sequence,
        # Without a backward part torch's schedule is given enough to fill the pipeline.
        "microbatches": max(-(-split.microbatches // first.replicas), 1 if split.training else split.ranks),
        "zero": split.zero if groups > 1 else None,
        "shards": split.zero_shards or groups if split.zero else None,
        "schedule": split.schedule if len(split.stages) > 1 and split.training else None,
        "sequence_parallel": split.sequence_parallel if first.tensor > 1 else None,
        "overlap": split.overlap if groups > 1 else None,
        "host": [not stage.accelerator for stage in split.stages],
        "dtype": split.dtype,
        "optimizer_on_host": any(stage.offload == "optimizer states" for stage in split.stages),
    }
    if name in simple:
        return simple[name]
    if name == "recompute":
        ways = {layer.recompute for layer in split.layers if layer.part == "block"}
        assert len(ways) <= 1
        assert all(layer.recompute == "none" for layer in split.layers if layer.part != "block")
        return ways.pop() if ways else "none"
    if name == "untied":
        return not any(weight.aliases for weight in split.weights)
    formats = split.formats
    assert formats is not None
    if name == "optimizer":
        return {"adamw": "adam"}.get(split.optimizer or "", split.optimizer)
    return {"weights": formats.weights, "gradients": formats.gradients, "master": formats.master}[name]


def check(runtime: str, split: Split, path: Path) -> None:
    """Everything that the reader found is the plan's, and everything that the plan decides was found."""
    found = read(runtime, path, split)
    if found.blocks is not None:
        assert found.blocks == [split.blocks_of(number) for number in range(len(split.stages))]
    inside = {name: number for number, stage in enumerate(split.stages) for name in stage.modules}
    for module, stage in found.modules.items():
        owner = module
        while owner and owner not in inside:
            owner = owner.rpartition(".")[0]
        # torchtitan's words for the same layers are those of these models.
        assert not owner or inside[owner] == stage, (module, stage)
    assert found.cards == cards_of(split)
    for name, value in found.rest.items():
        wanted = meant(split, name)
        if name == "optimizer" and runtime != "megatron":
            wanted = split.optimizer
        assert wanted is None or value == wanted, (name, value, wanted)
    first, groups = split.stages[0], split.stages[0].replicas * split.stages[0].context
    silent = {"tensor": first.tensor, "context": first.context, "expert": first.expert, "data": first.replicas}
    assert first.expert_tensor in (0, first.tensor) or "expert_tensor" in found.rest
    for name, degree in silent.items():
        assert name in found.rest or degree == 1, name
    if split.training:
        assert found.rest["recompute"] == meant(split, "recompute")
        assert {"zero", "microbatches", "schedule"} <= set(found.rest)
    assert split.zero_shards in (0, groups) or "shards" in found.rest
    kept = {stage.offload for stage in split.stages} - {""}
    assert not kept or (kept == {"optimizer states"} and found.rest["optimizer_on_host"])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models are exported to ONNX, once for all runtimes."""
    pytest.importorskip("onnxscript")
    return tmp_path_factory.mktemp("models")


def export_all(runtime: str, count: int, folder: Path, models: Path | None = None) -> Counter[str]:
    """How many random plans were taken, and refused."""
    exporter, found, refusals = find_exporter(runtime), Counter[str](), list[str]()
    for seed in range(count):
        split = random_split(runtime, seed)
        model = None if models is None else onnx_model(split.model, models)
        out = folder / f"{runtime}-{seed}"
        try:
            exporter.export(split, out, None if model is None else str(model))
        except UnsupportedError as error:
            refusals.append(str(error))
            assert not out.exists()
            continue
        check(runtime, split, out)
        found["taken"] += 1
        found["cards differ"] += len({card.kind for card in split.cards if card.accelerator}) > 1
        found["several"] += len(split.stages) > 1
        first = split.stages[0]
        for name in ("tensor", "context", "expert", "replicas"):
            found[name] += getattr(first, name) > 1
        found["experts apart"] += first.expert_tensor == 1 < first.tensor
        found["experts around"] += first.replicas * first.context % first.expert > 0
        found["sharded"] += split.state_copies > 1
        found["chunks"] += split.chunks > 1
        found["recompute"] += any(layer.recompute != "none" for layer in split.layers)
        found["skips"] += bool(split.skips)
        found["tied"] += bool(split.tied)
    # The plan was refused for what it asks; no form read back as another plan.
    assert all(" cannot run this plan: " in text for text in refusals)
    found["refused"] = len(refusals)
    return found


@pytest.mark.parametrize("runtime", PLAIN)
def test_what_is_exported_reads_back_as_the_plan(runtime: str, tmp_path: Path) -> None:
    """300 plans of random degrees, schedules, memory options and cards; what was taken is not only the simplest."""
    found = export_all(runtime, 300, tmp_path)
    print(runtime, dict(found))
    assert found["taken"] >= TAKEN[runtime], found
    assert found["refused"] > 10
    assert found["several"] > TAKEN[runtime] // 4
    if runtime in ("accelerate", "torch", "vllm", "llama.cpp"):
        assert found["cards differ"] > 10
    if runtime in ("megatron", "torchtitan"):
        assert min(found[name] for name in ("context", "expert", "replicas", "sharded", "chunks", "recompute")) > 0
    if runtime == "megatron":
        assert min(found["experts apart"], found["experts around"]) > 0, found
    if runtime in ("megatron", "torchtitan", "deepspeed"):
        assert min(found[name] for name in ("replicas", "tensor", "recompute")) > 0, found


@pytest.mark.parametrize("runtime", MODELS)
def test_models_that_are_exported_read_back_as_the_plan(runtime: str, tmp_path: Path, models: Path) -> None:
    """300 plans, as above."""
    found = export_all(runtime, 300, tmp_path, models)
    print(runtime, dict(found))
    assert found["taken"] >= TAKEN[runtime], found
    assert found["several"] > TAKEN[runtime] // 4


def test_a_form_that_reads_back_as_another_plan_is_refused(tmp_path: Path) -> None:
    """As if an exporter forgot a degree: the file is not written."""
    exporter = find_exporter("megatron")
    split = by_layers("decoder", (3, 3), training=True)
    assert isinstance(exporter, FileExporter)

    class Forgets(type(exporter)):  # type: ignore[misc]
        def content(self, split: Split, model: Any) -> bytes:
            other = msgspec.structs.replace(split.stages[0], context=2)
            return bytes(super().content(msgspec.structs.replace(split, stages=(other, *split.stages[1:])), model))

    with pytest.raises(
        UnsupportedError, match=r"does not read back as the plan is refused: .*context is 2 in the file"
    ):
        Forgets().export(split, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert exporter.export(split, tmp_path / "out")
