"""OpenVINO: affinities of nodes for the HETERO plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.exporters.exporter import Exporter
from partita.exporters.onnx_model import encoded, staged_model
from partita.exporters.writing import write_folder
from partita.split import Split

_SCRIPT = '''"""Compile {model} for OpenVINO with the nodes on the devices that partita planned.

    from compile import compile_model
    compiled = compile_model()

Other devices are given in the order of DEVICES: compile_model(["GPU.1", "CPU"]).
"""

import json
from pathlib import Path

import openvino

#: Device of every stage.
DEVICES = {devices}

FOLDER = Path(__file__).parent


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
    model, devices = annotated(core, devices)
    return core.compile_model(model, "HETERO:" + ",".join(dict.fromkeys(devices)))
'''


class OpenVino(Exporter):
    """A folder of ``model.onnx``, ``stages.json``, the stage of every node, and ``compile.py``, which sets affinities.

    Source: OpenVINO, "Heterogeneous execution", manual affinities in the runtime information of nodes.
    """

    name = "openvino"
    needs_model = True

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        staged = staged_model(split, model, contiguous=False)
        graph = staged.model.graph
        stages = {}
        for place, (node, stage) in enumerate(zip(graph.node, staged.stages, strict=True)):
            node.name = node.name or f"node{place}"
            stages[node.name] = stage
        names: list[str] = []
        accelerators = 0
        for part in split.stages:
            names.append(f"GPU.{accelerators}" if part.accelerator else "CPU")
            accelerators += part.accelerator
        script = _SCRIPT.format(model=" ".join(split.model.split()), devices=names)
        return write_folder(
            path,
            {
                "model.onnx": encoded(staged.model, split.model),
                "stages.json": msgspec.json.format(msgspec.json.encode(stages)),
                "compile.py": script.encode(),
            },
        )
