"""ONNX files for several runtimes: the stage of every node, by the module that it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from exporters.readers.plan import ReadPlan


def module_of(node: Any) -> str:
    """The module of a node, as torch's exporter writes it."""
    scopes = next((entry.value for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"), "")
    names = [part.strip("'\" ") for part in scopes.strip("[]").split(",")]
    return names[-2].removeprefix("module").removeprefix(".") if len(names) > 1 else ""


def by_module(nodes: Iterable[tuple[Any, int]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for node, stage in nodes:
        found.setdefault(module_of(node), set()).add(stage)
    return found


def one_stage(found: dict[str, set[int]]) -> dict[str, int]:
    return {module: min(stages) for module, stages in found.items() if len(stages) == 1}


def read_stages(folder: Path) -> ReadPlan:
    """A model for every stage; what they take is what the model is given, or what a stage before them gives."""
    import onnx

    document = json.loads((folder / "stages.json").read_text())
    known = set(document["inputs"])
    nodes: list[tuple[Any, int]] = []
    for number, stage in enumerate(document["stages"]):
        model = onnx.load(folder / stage["model"])
        assert {entry.name for entry in model.graph.input} == set(stage["inputs"])
        assert set(stage["inputs"]) <= known
        known |= set(stage["outputs"])
        nodes += [(node, number) for node in model.graph.node]
    assert set(document["outputs"]) <= known
    assert document["cards"]["order"] == "CUDA_DEVICE_ORDER=PCI_BUS_ID"
    for stage in document["stages"]:
        # Replicas may be on other kinds.
        assert not stage["cards"] or document["cards"]["kinds"][stage["cards"][0]] == stage["kind"]
    return ReadPlan(
        modules=one_stage(by_module(nodes)),
        cards=[stage["cards"] for stage in document["stages"]],
        rest={
            "ranks": 1 + max(stage["rank"] for stage in document["stages"]),
            "data": document["stages"][0]["replicas"],
        },
    )


def read_annotated(path: Path) -> ReadPlan:
    """One model with a configuration of devices."""
    import onnx

    model = onnx.load(path)
    (configuration,) = model.configuration
    nodes = []
    for node in model.graph.node:
        (entry,) = node.device_configurations
        assert all(list(spec.device) == [entry.pipeline_stage] for spec in entry.sharding_spec)
        nodes.append((node, entry.pipeline_stage))
    cards = []
    for device in configuration.device:
        found = re.fullmatch(r"(?:cuda:(\d+)|cpu) \(\S+\)", device)
        assert found is not None
        cards.append([] if found[1] is None else [int(found[1])])
    return ReadPlan(modules=one_stage(by_module(nodes)), cards=cards)


def read_session(folder: Path) -> ReadPlan:
    """Annotations, which rules put on the accelerator or on the CPU, and the card of the accelerator's provider."""
    import onnx

    model = onnx.load(folder / "model.onnx")
    text = json.loads((folder / "session.json").read_text())["session.layer_assignment_settings"]
    rules = {
        stage.strip().removeprefix("="): device
        for device, stages in re.findall(r"(gpu|cpu)\(([^)]*)\)", text)
        for stage in stages.split(",")
    }
    nodes, count = [], len(rules)
    for node in model.graph.node:
        value = next(entry.value for entry in node.metadata_props if entry.key == "layer_ann")
        nodes.append((node, int(value.removeprefix("stage"))))
    providers = dict(json.loads((folder / "providers.json").read_text()))
    assert list(providers)[-1] == "CPUExecutionProvider"
    card = [int(providers["CUDAExecutionProvider"]["device_id"])] if "CUDAExecutionProvider" in providers else []
    return ReadPlan(
        modules=one_stage(by_module(nodes)),
        cards=[card if rules[f"stage{stage}"] == "gpu" else [] for stage in range(count)],
    )


def read_affinities(folder: Path) -> ReadPlan:
    """The stage of every node, and the script's devices."""
    import onnx

    model = onnx.load(folder / "model.onnx")
    stages = json.loads((folder / "stages.json").read_text())
    nodes = [(node, stages[node.name]) for node in model.graph.node]
    script = (folder / "compile.py").read_text()
    devices: list[str] = eval(re.search(r"^DEVICES = (.*)$", script, re.MULTILINE)[1])  # type: ignore[index]
    cards: dict[int, str] = eval(re.search(r"^CARDS = (.*)$", script, re.MULTILINE)[1])  # type: ignore[index]
    found = [[] if device == "CPU" else [int(device.removeprefix("GPU."))] for device in devices]
    assert set(cards) <= {number for row in found for number in row}
    return ReadPlan(modules=one_stage(by_module(nodes)), cards=found)
