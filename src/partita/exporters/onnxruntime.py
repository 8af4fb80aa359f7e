"""ONNX Runtime: which layers run on the accelerator and which on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from partita.exporters.cards import cards_of_split
from partita.exporters.exporter import Content, FolderExporter
from partita.exporters.onnx_model import encoded, staged_model
from partita.nouns.split import Split

#: Where the annotation of a node is, and the session option that assigns annotations to devices.
_ANNOTATION, _OPTION = "layer_ann", "session.layer_assignment_settings"


class OnnxRuntime(FolderExporter):
    """A folder of ``model.onnx`` with the stage of every node, ``session.json`` and ``providers.json`` with the card.

    A session has one execution provider of each type, so that one accelerator and the CPU are all that can be told
    apart. Source: ONNX Runtime, ``docs/annotated_partitioning/Annotation and Memory based partitioning.md``.
    """

    name = "onnxruntime"
    needs_model = True
    numbers = ("providers.json", "the session is made")

    def contents(self, split: Split, model: Any) -> Mapping[str, Content]:
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
        # The card is an option of the provider; it counts as CUDA does.
        used = cards_of_split(split).used
        providers: list[Any] = [["CUDAExecutionProvider", {"device_id": str(number)}] for number in used]
        return {
            "model.onnx": encoded(staged.model, split.model),
            "session.json": msgspec.json.format(msgspec.json.encode({_OPTION: text})),
            "providers.json": msgspec.json.format(msgspec.json.encode([*providers, ["CPUExecutionProvider", {}]])),
        }
