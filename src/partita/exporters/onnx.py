"""ONNX: a model for every stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from partita.exporters.cards import ORDER, cards_of_split
from partita.exporters.exporter import Content, FolderExporter
from partita.exporters.onnx_model import StagedModel, encoded, reads, staged_model
from partita.frontends.options import passed_over
from partita.ground.errors import InputError
from partita.nouns.split import Split


class OnnxStages(FolderExporter):
    """A folder of ``stage0.onnx``, … and ``stages.json``, which says cards, inputs and outputs of each.

    A stage's inputs are inputs of the model and outputs of stages before it; running the stages in order with what
    they need from these gives the model's outputs. Nodes that make constants run on every stage that reads them.
    """

    name = "onnx"
    needs_model = True
    numbers = ("stages.json", "sessions are made")

    def contents(self, split: Split, model: Any) -> Mapping[str, Content]:
        staged = staged_model(split, model, contiguous=True)
        parts = stage_models(staged, len(split.stages))
        cards = cards_of_split(split)
        listed = [
            {
                "model": f"stage{number}.onnx",
                "rank": stage.rank,
                "devices": list(stage.devices),
                "kind": stage.kind,
                "cards": list(numbers),
                "replicas": stage.replicas,
                "inputs": [entry.name for entry in part.graph.input],
                "outputs": [entry.name for entry in part.graph.output],
            }
            for number, (stage, numbers, part) in enumerate(zip(split.stages, cards.stages, parts, strict=True))
        ]
        graph = staged.model.graph
        document = {
            "model": split.model,
            "inputs": [entry.name for entry in graph.input],
            "outputs": [entry.name for entry in graph.output],
            "cards": {"order": ORDER, "kinds": list(cards.kinds)},
            "stages": listed,
        }
        files = {f"stage{number}.onnx": encoded(part, f"stage {number}") for number, part in enumerate(parts)}
        return {"stages.json": msgspec.json.format(msgspec.json.encode(document)), **files}


def stage_models(staged: StagedModel, count: int) -> list[Any]:
    """An ``onnx.ModelProto`` for every stage."""
    import onnx

    graph = staged.model.graph
    maker = {text: place for place, node in enumerate(graph.node) for text in node.output if text}
    stored = {entry.name: entry for entry in graph.initializer}
    inputs = {entry.name: entry for entry in graph.input if entry.name not in stored}
    known = {entry.name: entry for entry in (*_inferred(staged.model), *graph.value_info, *graph.output, *graph.input)}
    members = [_members(staged, maker, number) for number in range(count)]
    wanted = [{text for place in own for text in reads(graph.node[place])} for own in members]
    made = [{text for place in own for text in graph.node[place].output if text} for own in members]
    asked = {entry.name for entry in graph.output}
    found = []
    for number in range(count):
        own = {text for place in members[number] if staged.stages[place] == number for text in graph.node[place].output}
        later = {text for other in range(count) if other != number for text in wanted[other] - made[other]}
        outside = wanted[number] - made[number]
        sent = [text for text in maker if text in own and text in (later | asked)]
        taken = [text for text in (*inputs, *maker) if text in outside and text not in stored]
        part = onnx.helper.make_graph(
            [graph.node[place] for place in members[number]],
            f"{graph.name}_stage{number}",
            [_described(text, known) for text in taken],
            [_described(text, known) for text in sent],
            [stored[text] for text in stored if text in wanted[number]],
            value_info=[entry for entry in graph.value_info if entry.name in made[number]],
        )
        model = onnx.helper.make_model(
            part, opset_imports=staged.model.opset_import, functions=list(staged.model.functions)
        )
        model.ir_version = staged.model.ir_version
        found.append(model)
    return found


def _members(staged: StagedModel, maker: dict[str, int], number: int) -> list[int]:
    """The nodes of a stage in order, with those of other stages that make constants for it."""
    nodes = staged.model.graph.node
    own = {place for place, stage in enumerate(staged.stages) if stage == number}
    todo = list(own)
    while todo:
        for text in reads(nodes[todo.pop()]):
            place = maker.get(text)
            if place is not None and place not in own and staged.constant[place]:
                own.add(place)
                todo.append(place)
    return sorted(own)


def _inferred(model: Any) -> list[Any]:
    """Types and shapes that follow from those stated: older exporters and quantisers write none between nodes."""
    import onnx

    try:
        return list(onnx.shape_inference.infer_shapes(model).graph.value_info)
    except Exception as error:
        # Code in C++, on whatever a file holds. A model whose shapes contradict each other, or that is too large to be
        # copied, may state all that is needed.
        passed_over("the shapes of a model", error)
        return []


def _described(name: str, known: dict[str, Any]) -> Any:
    """Type and shape of a tensor, as far as the model states them or they follow."""
    found = known.get(name)
    if found is None or not found.type.WhichOneof("value"):
        raise InputError(
            f"the type of {name!r}, which goes from one stage to another, is neither stated in the model nor follows "
            "from its operators; write it into the file (graph.value_info), and plan that"
        )
    return found
