"""The graph of an ONNX file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from partita.frontends.assemble import assemble
from partita.frontends.onnx.arrays import ArrayView, check_type, constant_array, new_array
from partita.frontends.onnx.control import CONTROL
from partita.frontends.onnx.dims import (
    FEW,
    declared_shape,
    given_arrays,
    input_shape,
    known_values,
    open_fields,
    settle,
)
from partita.frontends.onnx.files import data_notes, read_model
from partita.frontends.onnx.modules import Modules
from partita.frontends.onnx.stored import StoredArrays
from partita.frontends.onnx.walk import Scope, Walk
from partita.frontends.options import Asked
from partita.frontends.records import Stored
from partita.ground.errors import InputError
from partita.nouns.graph import Graph


def load_onnx(path: str, asked: Asked) -> Graph:
    """Read a model file into a graph: shapes and stored sizes, no data; files with external data need not be there.

    Sizes of open dimensions are the ``fields`` that are asked for; given ``inputs`` settle sizes, too, and what follows
    from their values. What is damaged or missing is an ``InputError``.
    """
    model = read_model(path)
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    # Files of old versions list stored arrays among the inputs.
    inputs = [each for each in graph.input if each.name not in stored]
    arrays = given_arrays(path, inputs, asked.inputs)
    fields = open_fields(path, inputs, arrays)
    for name, size in fields.items():
        if asked.fields.get(name, size) != size:
            raise InputError(
                f"dimension {name!r} of {path} is {size} in a given input and {asked.fields[name]} by --set; leave one "
                "of both out"
            )
    sizes = settle(path, inputs, dataclasses.replace(asked, fields={**asked.fields, **fields}))
    name = Path(path).stem
    walk = Walk(path, model, sizes, StoredArrays(path, _statistics(graph)), Modules(graph.name or name), CONTROL)
    scope = Scope()
    given = []
    for each in inputs:
        shape = input_shape(path, each, sizes)
        number = each.type.tensor_type.elem_type
        check_type(number, f"{path}: input {each.name!r}")
        known = known_values(arrays[each.name], each.name, path) if each.name in arrays else None
        if known is not None:
            walk.notes[f"This plan holds for the values of input {each.name!r} that are given."] = None
        if known is not None and known.size <= FEW:
            # Sizes and flags, which what runs may follow from; they are part of the program then.
            scope.names[each.name] = constant_array(shape, number, known)
            continue
        array = new_array(shape, number, stored=(entry := Stored(each.name, shape, "", 0, "input")), known=known)
        entry.dtype, entry.bytes = array.dtype, array.read().bytes
        given.append(entry)
        scope.names[each.name] = array
    outputs = walk.run(graph, scope)
    for each, item in zip(graph.output, outputs, strict=True):
        stated = declared_shape(each, sizes)
        if not isinstance(item, ArrayView) or walk.guessed or stated is None:
            continue
        made = item.shape
        if len(stated) != len(made) or any(a not in (None, b) for a, b in zip(stated, made, strict=True)):
            raise InputError(
                f"{path}: output {each.name!r} is stated as {list(stated)}, but what makes it gives {list(made)}; "
                "export the model again"
            )
    for note in data_notes(path, model):
        walk.notes[note] = None
    walk.store.stored.extend(given)
    return assemble(walk.capture(outputs), name, False)[0].replace(source=asked.source(path))


def _statistics(graph: Any) -> frozenset[str]:
    """Names of running means and variances, which are no weights."""
    normed = [node for node in graph.node if node.op_type == "BatchNormalization"]
    found = {name for node in normed for name in node.input[3:5]}
    return frozenset(found.difference(*(node.input[:3] for node in normed)))
