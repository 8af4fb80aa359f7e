"""ONNX: one model whose nodes say on which device and in which pipeline stage they run."""

from __future__ import annotations

from typing import Any

from partita.exporters.cards import cards_of_split
from partita.exporters.exporter import FileExporter
from partita.exporters.onnx_model import encoded, staged_model
from partita.nouns.split import Split

#: Since this version of the format nodes have device configurations.
_IR_VERSION = 11
_CONFIGURATION = "partita"


class OnnxAnnotated(FileExporter):
    """The multi-device configuration of ONNX: every node names its stage, and its outputs the device that holds them.

    Devices are called by the number of their card in the cluster's order, and its kind.

    Source: ONNX, ``docs/proposals/ONNXMultiDeviceProposal.md``, ``onnx/onnx.proto: NodeDeviceConfigurationProto``.
    """

    name = "onnx-stages"
    needs_model = True
    numbers = ("the file", "sessions are made")

    def content(self, split: Split, model: Any) -> bytes:
        staged = staged_model(split, model, contiguous=True)
        found = staged.model
        found.ir_version = max(found.ir_version, _IR_VERSION)
        names = [
            f"cuda:{numbers[0]} ({stage.kind})" if numbers else f"cpu ({stage.kind})"
            for stage, numbers in zip(split.stages, cards_of_split(split).stages, strict=True)
        ]
        found.configuration.add(name=_CONFIGURATION, num_devices=len(names), device=names)
        for node, stage in zip(found.graph.node, staged.stages, strict=True):
            entry = node.device_configurations.add(configuration_id=_CONFIGURATION, pipeline_stage=stage)
            for text in node.output:
                if text:
                    entry.sharding_spec.add(tensor_name=text, device=[stage])
        return encoded(found, split.model)
