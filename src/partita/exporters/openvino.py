"""OpenVINO: affinities of nodes for the HETERO plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from partita.exporters.cards import cards_of_split, check_source
from partita.exporters.exporter import Content, FolderExporter
from partita.exporters.onnx_model import encoded, staged_model
from partita.nouns.split import Split

_SCRIPT = '''"""Compile {model} for OpenVINO with the nodes on the devices that partita planned.

    from compile import compile_model
    compiled = compile_model()

Other devices are given in the order of DEVICES: compile_model(["GPU.1", "CPU"]).
"""

import json
from pathlib import Path

import openvino

#: Device of every stage, by the number of its card in the cluster's order.
DEVICES = {devices}

#: By number the kind of card that has to be there, on a host whose cards differ.
CARDS = {cards}

FOLDER = Path(__file__).parent


{source}


def annotated(core, devices=None):
    """The model with an affinity on every node, and the devices of the stages."""
    devices = DEVICES if devices is None else devices
    stages = json.loads((FOLDER / "stages.json").read_text())
    model = core.read_model(FOLDER / "model.onnx")
    nodes = model.get_ordered_ops()
    found = {{}}
    for node in nodes:
        name = node.get_friendly_name()
        if name in stages:
            found[name] = stages[name]
        else:
            # What one node of ONNX became several of is where its inputs are.
            before = [found.get(value.get_node().get_friendly_name()) for value in node.input_values()]
            found[name] = max((stage for stage in before if stage is not None), default=None)
    for node in reversed(nodes):
        name = node.get_friendly_name()
        if found[name] is None:
            # Constants and inputs are where they are read.
            ports = [port for output in node.outputs() for port in output.get_target_inputs()]
            after = [found[port.get_node().get_friendly_name()] for port in ports]
            found[name] = min((stage for stage in after if stage is not None), default=0)
    for node in nodes:
        node.get_rt_info()["affinity"] = devices[found[node.get_friendly_name()]]
    return model, devices


def compile_model(devices=None, core=None):
    """The compiled model."""
    core = openvino.Core() if core is None else core
    if devices is None and CARDS:
        known = [name for name in core.available_devices if name.startswith("GPU")]
        names = {{int(name.partition(".")[2] or 0): core.get_property(name, "FULL_DEVICE_NAME") for name in known}}
        check_cards(CARDS, names)
    model, devices = annotated(core, devices)
    return core.compile_model(model, "HETERO:" + ",".join(dict.fromkeys(devices)))
'''


class OpenVino(FolderExporter):
    """A folder of ``model.onnx``, ``stages.json``, the stage of every node, and ``compile.py``, which sets affinities.

    Source: OpenVINO, "Heterogeneous execution", manual affinities in the runtime information of nodes.
    """

    name = "openvino"
    needs_model = True

    def contents(self, split: Split, model: Any) -> Mapping[str, Content]:
        staged = staged_model(split, model, contiguous=False)
        graph = staged.model.graph
        stages = {}
        for place, (node, stage) in enumerate(zip(graph.node, staged.stages, strict=True)):
            node.name = node.name or f"node{place}"
            stages[node.name] = stage
        cards = cards_of_split(split)
        script = _SCRIPT.format(
            model=" ".join(split.model.split()),
            devices=[f"GPU.{numbers[0]}" if numbers else "CPU" for numbers in cards.stages],
            cards={place: cards.kinds[place] for place in cards.wanted(range(len(cards.kinds))) if place in cards.used},
            source=check_source(),
        )
        return {
            "model.onnx": encoded(staged.model, split.model),
            "stages.json": msgspec.json.format(msgspec.json.encode(stages)),
            "compile.py": script.encode(),
        }
