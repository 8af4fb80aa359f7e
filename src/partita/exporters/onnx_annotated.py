"""ONNX: one model whose nodes say on which device and in which pipeline stage they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.documents.document import write_atomic
from partita.exporters.exporter import Exporter
from partita.exporters.onnx_model import encoded, staged_model
from partita.split import Split

#: Since this version of the format nodes have device configurations.
_IR_VERSION = 11
_CONFIGURATION = "partita"


class OnnxAnnotated(Exporter):
    """The multi-device configuration of ONNX: every node names its stage, and its outputs the device that holds them.

    Source: ONNX, ``docs/proposals/ONNXMultiDeviceProposal.md``, ``onnx/onnx.proto: NodeDeviceConfigurationProto``.
    """

    name = "onnx-stages"
    needs_model = True

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        staged = staged_model(split, model, contiguous=True)
        found = staged.model
        found.ir_version = max(found.ir_version, _IR_VERSION)
        names = [stage.devices[0] for stage in split.stages]
        found.configuration.add(name=_CONFIGURATION, num_devices=len(names), device=names)
        for node, stage in zip(found.graph.node, staged.stages, strict=True):
            entry = node.device_configurations.add(configuration_id=_CONFIGURATION, pipeline_stage=stage)
            for text in node.output:
                if text:
                    entry.sharding_spec.add(tensor_name=text, device=[stage])
        write_atomic(path, encoded(found, split.model))
        return [str(path)]
