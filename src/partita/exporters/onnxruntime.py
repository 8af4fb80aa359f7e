"""ONNX Runtime: which layers run on the accelerator and which on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.exporters.exporter import Exporter
from partita.exporters.onnx_model import encoded, staged_model
from partita.exporters.writing import write_folder
from partita.split import Split

#: Where the annotation of a node is, and the session option that assigns annotations to devices.
_ANNOTATION, _OPTION = "layer_ann", "session.layer_assignment_settings"


class OnnxRuntime(Exporter):
    """A folder of ``model.onnx``, whose nodes are annotated with their stage, and ``session.json``, the session option.

    A session has one execution provider of each type, so that one accelerator and the CPU are all that can be told
    apart. Source: ONNX Runtime, ``docs/annotated_partitioning/Annotation and Memory based partitioning.md``.
    """

    name = "onnxruntime"
    needs_model = True

    def write(self, split: Split, path: str | Path, model: Any) -> list[str]:
        staged = staged_model(split, model, contiguous=False)
        for node, stage in zip(staged.model.graph.node, staged.stages, strict=True):
            kept = [entry for entry in node.metadata_props if entry.key != _ANNOTATION]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
            node.metadata_props.add(key=_ANNOTATION, value=f"stage{stage}")
        rules: dict[str, list[str]] = {}
        for number, part in enumerate(split.stages):
            # An annotation is the start of what it matches unless it is to be equal.
            rules.setdefault("gpu" if part.accelerator else "cpu", []).append(f"=stage{number}")
        text = "; ".join(f"{device}({', '.join(found)})" for device, found in rules.items())
        options = msgspec.json.format(msgspec.json.encode({_OPTION: text}))
        return write_folder(path, {"model.onnx": encoded(staged.model, split.model), "session.json": options})
