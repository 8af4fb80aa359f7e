"""ONNX models as they are split: exported from the planned model or read, with the stage of every node."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from typing import Any

from partita.exporters.align import Call, align, carries_state
from partita.exporters.module_inputs import PREFIX, wrapped_model
from partita.frontends.onnx.modules import Modules
from partita.frontends.options import one_line
from partita.ground.errors import InputError, UnsupportedError, require
from partita.nouns.split import Split

#: What torch's exporter writes of a node: the modules around it and its name in the trace, and the node itself.
_SCOPES, _TRACED = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.fx_node"
_TARGET = re.compile(r"target=torch\.ops\.([\w.]+)")
#: A message of protocol buffers is smaller.
_MOST_BYTES = 2**31 - 1


@dataclass(frozen=True)
class StagedModel:
    """An ONNX model with the stage of every node of its graph."""

    model: Any  #: An ``onnx.ModelProto``.
    stages: list[int]  #: By node, in order.
    #: By node, whether it depends on no weight and no floating input: such nodes may run on every stage.
    constant: list[bool]


def staged_model(split: Split, model: Any, *, contiguous: bool) -> StagedModel:
    """The ONNX model of a split; ``model`` is the path of one, or None to export the model that was planned.

    Raises ``MissingExtraError`` if onnx is not installed, or torch or onnxscript to export the model; ``InputError`` if
    the model cannot be built, exported or read, or is not the one that was planned; ``UnsupportedError`` if a stage has
    nothing to do but make constants.
    """
    require("onnx", "onnx")
    source = model or (split.source.model if split.source is not None else None)
    if source is not None and str(source).endswith(".onnx"):
        return _staged(split, _read(source), str(source), contiguous)
    if model is not None:
        raise InputError(f"--model {model} is not the path of an ONNX model; give MODEL.onnx, or leave it out")
    return _staged(split, _exported(split), split.model, contiguous)


def _read(path: str) -> Any:
    import onnx

    try:
        return onnx.load(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except Exception as error:  # code of others, on whatever a model or a file holds
        raise InputError(f"{path} is not an ONNX model: {one_line(error)}") from None


def _exported(split: Split) -> Any:
    require("torch", "torch")
    require("onnxscript", "onnx")

    import torch

    module, tensors = wrapped_model(split)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            program = torch.onnx.export(module, tensors, dynamo=True, verbose=False)
    except Exception as error:  # code of others, on whatever a model or a file holds
        raise InputError(
            f"torch cannot export {split.model!r} to ONNX: {one_line(error)}; give --model MODEL.onnx"
        ) from None
    assert program is not None
    return program.model_proto


def _staged(split: Split, model: Any, name: str, contiguous: bool) -> StagedModel:
    from onnx import TensorProto

    nodes = list(model.graph.node)
    properties = [{entry.key: entry.value for entry in node.metadata_props} for node in nodes]
    # A plan of an ONNX file names its nodes as they were read, whatever wrote them.
    of_file = split.source is not None and str(split.source.model).endswith(".onnx")
    modules = Modules("")
    paths = [modules.of(node) for node in nodes] if of_file else None
    if paths is None and not any(_SCOPES in known for known in properties):
        raise InputError(
            f"the nodes of {name} do not say which modules they come from; export it with torch.onnx.export(…, "
            f"dynamo=True), plan {name} itself, or leave --model out"
        )
    weights = {alias for weight in split.weights if not weight.buffer for alias in (weight.name, *weight.aliases)}
    kinds = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
    floating = {entry.name for entry in model.graph.input if entry.type.tensor_type.elem_type in kinds}
    makers: dict[str, int] = {}
    calls: list[Call] = []
    number_of: dict[str, int] = {}
    call_of: list[int] = []
    for place, (node, known) in enumerate(zip(nodes, properties, strict=True)):
        scopes = [part.strip("'\" ") for part in known.get(_SCOPES, "").strip("[]").split(",")]
        # The nodes that one call of the trace was written as are one call here, too.
        key = scopes[-1] if _SCOPES in known and paths is None else f"#{place}"
        inputs = {makers[text] for text in reads(node) if text in makers}
        state = any(text.removeprefix(PREFIX) in weights or text in floating for text in reads(node))
        number = number_of.get(key)
        if number is None or any(v > number for v in inputs):
            number = number_of[key] = len(calls)
            path = scopes[-2].removeprefix(PREFIX) if len(scopes) > 1 else ""
            path = "" if path == PREFIX.rstrip(".") else path
            found = None if paths is not None else _TARGET.search(known.get(_TRACED, ""))
            target = found[1] if found else f"onnx.{node.op_type}"
            calls.append(Call(path if paths is None else paths[place], target, tuple(sorted(inputs)), state))
        else:
            old = calls[number]
            merged = tuple(sorted({*old.inputs, *(inputs - {number})}))
            calls[number] = Call(old.module, old.target, merged, old.state or state)
        call_of.append(number)
        makers |= {text: number for text in node.output if text}
    stages = align(split, calls, contiguous=contiguous)
    carries = carries_state(calls)
    missing = set(range(len(split.stages))) - {stages[number] for number in call_of if carries[number]}
    visible = {number for module in split.shared for _, number in module.operators}
    constant = [v for v in sorted(missing) if not split.stages[v].modules and v not in visible]
    if constant:
        raise UnsupportedError(
            f"ONNX cannot run this plan: stage {constant[0]} does nothing but make constants, for which there are no "
            "nodes; plan with fewer stages"
        )
    if missing:
        raise InputError(f"{name} has nothing that stage {min(missing)} of the plan runs; is it the model planned?")
    return StagedModel(model, [stages[v] for v in call_of], [not carries[v] for v in call_of])


def reads(node: Any) -> list[str]:
    """Names of what a node reads, also inside its branches and loops."""
    found = [text for text in node.input if text]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") or attribute.graphs else ():
            made = {text for inner in graph.node for text in inner.output} | {entry.name for entry in graph.input}
            made |= {entry.name for entry in graph.initializer}
            found += [text for inner in graph.node for text in reads(inner) if text not in made]
            found += [entry.name for entry in graph.output if entry.name not in made]
    return found


def encoded(model: Any, name: str) -> bytes:
    """A model as bytes, after the checker of onnx has seen it."""
    import onnx

    if model.ByteSize() > _MOST_BYTES:
        raise InputError(f"{name} is larger than the 2 GiB that one file of ONNX holds; split it into more stages")
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
