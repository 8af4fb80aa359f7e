"""What one node makes: shapes and small values, by onnx's own inference and reference implementation, and views.

Operators whose result is another view of an array move nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from partita.frontends.onnx.arrays import TYPES, Arrays, ArrayView, Operation, check_type, constant_array
from partita.frontends.onnx.files import describe
from partita.frontends.onnx.flops import maybe, number_of
from partita.frontends.onnx.runtime import DOMAIN, LIKE, rule_of
from partita.frontends.options import one_line, passed_over
from partita.ground.errors import InputError

#: Elements of an array whose values are followed.
MOST_KNOWN = 4096

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)

#: Operators that keep a shape, for which onnx has no rule.
_KEEPS = frozenset({"Binarizer", "Imputer", "LabelEncoder", "Normalizer", "Scaler"})

#: Shape and element type by output; None for a size that depends on data, or for all of them.
Outputs = list[tuple[tuple[int | None, ...] | None, int]]


def known_outputs(model: Any, one: Operation, shapes: Sequence[tuple[int, ...]]) -> list[Any] | None:
    """What a node computes, where all that it reads is known and its results are small."""
    node, first = one.node, one.inputs[0] if one.inputs else None
    if one.op == "Shape" and first is not None:
        return [np.array(first.shape[one.attributes.get("start", 0) : one.attributes.get("end")], np.int64)]
    if one.op == "Size" and first is not None:
        return [np.array(first.numel, np.int64)]
    if is_random(node) or any(array.known is None or not array.constant for array in one.present):
        return None
    if any(math.prod(shape) > MOST_KNOWN for shape in shapes):
        return None

    arrays = {name: array for name, array in zip(node.input, one.inputs, strict=True) if array is not None}
    values = [helper.make_tensor_value_info(name, array.type, None) for name, array in arrays.items()]
    results = [helper.make_tensor_value_info(name, 0, None) for name in one.names]
    graph = helper.make_graph([node], "one", values, results)
    try:
        alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(alone).run(None, {name: array.known for name, array in arrays.items()})
    except Exception as error:
        # An operator's own code. The value is only a help: shapes that need it are refused where they do.
        passed_over(f"the value of {describe(node)}", error)
        return None
    return [np.asarray(value) for value in found]


def is_random(node: Any) -> bool:
    """Whether each execution draws numbers."""
    return node.op_type in _RANDOM


def infer(model: Any, one: Operation) -> Outputs:
    """Shape and element type of each wanted output of a node; None for a size that depends on data."""
    version = {opset.domain: opset.version for opset in model.opset_import}
    node, inputs, what = one.node, one.inputs, one.what
    domain = "" if node.domain == "ai.onnx" else node.domain
    shown = ", ".join(f"{array.dtype}{list(array.shape)}" for array in one.present)
    rule = rule_of(domain, one.op)
    if rule is not None:
        try:
            made, _ = rule(one.attributes, inputs)
            return [made[place] for place, name in enumerate(node.output) if name]
        except KeyError as error:
            raise InputError(f"{what} lacks attribute {error}; export the model again") from error
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"{what} cannot take {shown}: {one_line(error)}") from error
    if domain == DOMAIN:
        if one.attributes.get("channels_last"):
            raise InputError(f"{what} has its channels last, which is not supported; quantise the file without that")
        node, inputs = _as_standard(node, inputs)
        domain = ""
        shown = ", ".join(f"{array.dtype}{list(array.shape)}" for array in inputs if array is not None)
    _check_attributes(one)
    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for name, array in zip(node.input, inputs, strict=True):
        if array is None:
            continue
        types[name] = helper.make_tensor_type_proto(array.type, array.shape)
        if array.known is not None:
            data[name] = numpy_helper.from_array(np.asarray(array.known), name)
    try:
        schema = onnx.defs.get_schema(node.op_type, version.get(domain, version.get("ai.onnx", 1)), domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
        if any(not _shaped(found.get(name)) for name in one.names):
            found.update(_through_function(model, node, types, data))
    except Exception as error:  # any operator's own code, in C++
        raise InputError(f"{what} cannot take {shown}: {one_line(error)}") from error
    outputs = [_output(what, name, found.get(name), shown) for name in one.names]
    if domain == "ai.onnx.ml" and node.op_type in _KEEPS and inputs[0] is not None:
        return [(inputs[0].shape, number) for _, number in outputs]
    return outputs


def _check_attributes(one: Operation) -> None:
    """Refuse attributes that name dimensions or outputs that there are not: onnx's own code may end the process."""
    outputs = len(one.node.output)
    stated = {attribute.name: attribute.i for attribute in one.node.attribute}
    if one.op == "Split" and stated.get("num_outputs", outputs) != outputs:
        raise InputError(f"{one.what} has {outputs} outputs, but states {stated['num_outputs']}")
    if one.op == "GatherND":
        least = min((len(array.shape) for array in one.present), default=0)
        if not 0 <= stated.get("batch_dims", 0) <= least:
            raise InputError(f"{one.what} states {stated['batch_dims']} dimensions of samples, where there are {least}")


def _as_standard(node: Any, inputs: Arrays) -> tuple[Any, Arrays]:
    """A node of the runtime as the one of the standard that it widens."""
    op, count, without = LIKE[node.op_type]
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    plain.op_type, plain.domain = op, ""
    del plain.input[count:], plain.attribute[:]
    plain.attribute.extend(a for a in node.attribute if a.name not in without)
    return plain, inputs[:count]


def _shaped(kind: TypeProto | None) -> bool:
    return kind is not None and kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")


def _through_function(model: Any, node: Any, types: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Types of outputs by inference over a whole model, which also looks into operators defined as functions."""
    inputs = [helper.make_value_info(name, kind) for name, kind in types.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs, list(data.values()))
    one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    inferred = onnx.shape_inference.infer_shapes(one, strict_mode=True, data_prop=True).graph
    return {each.name: each.type for each in (*inferred.value_info, *inferred.output) if _shaped(each.type)}


def _output(what: str, name: str, kind: TypeProto | None, shown: str) -> tuple[tuple[int | None, ...] | None, int]:
    if kind is None or kind.WhichOneof("value") != "tensor_type":
        made = "nothing known" if kind is None else f"a {str(kind.WhichOneof('value')).removesuffix('_type')}"
        raise InputError(f"{what} makes {made} of {shown}, not an array; export the model with arrays alone")
    check_type(kind.tensor_type.elem_type, f"output {name!r} of {what}")
    if not kind.tensor_type.HasField("shape"):
        return None, kind.tensor_type.elem_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim)
    return shape, kind.tensor_type.elem_type


def presume(one: Operation, shape: tuple[int | None, ...] | None) -> tuple[int, ...] | None:
    """All sizes of an output, where data decides some: as many rows as there can be; None where that is not known."""
    first = one.inputs[0] if one.inputs else None
    most = None if first is None or shape is None else _most(one, first, len(shape))
    if shape is None or most is None:
        return None
    return tuple(limit if extent is None else extent for extent, limit in zip(shape, most, strict=True))


def _most(one: Operation, first: ArrayView, rank: int) -> Sequence[int] | None:
    if one.op in ("Slice", "TopK") and rank == len(first.shape):
        return first.shape
    if one.op == "NonZero":
        return (len(first.shape), first.numel)
    if one.op in ("Compress", "Unique"):
        axis = one.attributes.get("axis")
        if axis is None:
            return [first.numel] * rank
        # Besides the rows that are kept there may be a list with an entry for each.
        return first.shape if rank == len(first.shape) > 1 else [first.shape[axis]] * rank
    scores, limit = maybe(one.inputs, 1), number_of(one.inputs, 2)
    if one.op == "NonMaxSuppression" and scores is not None:
        # Boxes of each sample and class, so many at most.
        batch, classes, boxes = scores.shape
        return (batch * classes * (boxes if limit is None else min(boxes, limit)), 3)
    return None


# -- views -------------------------------------------------------------------------------------------------------------

Shapes = Sequence[tuple[int, ...]]
#: Makes views, where it can, of the first input by the attributes, all inputs and the shapes of the outputs.
View = Callable[[ArrayView, dict[str, Any], Arrays, Shapes], list[ArrayView] | None]


def view_of(op: str, attributes: dict[str, Any], inputs: Arrays, shapes: Shapes) -> list[ArrayView] | None:
    """The outputs of an operator as views of its first input; None where they are no views.

    ``shapes`` are those of its outputs.
    """
    view = _VIEWS.get(op)
    first = inputs[0] if inputs else None
    if view is None or first is None or (TYPES[first.type][1] < 8 and op in _NARROW):
        return None
    return view(first, attributes, inputs, shapes)


def restride(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> tuple[int, ...] | None:
    """Strides that read an array of ``shape`` in row-major order as one of ``target``; None if it has to be copied."""
    if math.prod(shape) == 0:
        return tuple(0 for _ in target)
    # Runs of dimensions that one stride walks through, innermost first.
    runs: list[list[int]] = []
    for extent, step in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= extent
        else:
            runs.append([extent, step])
    result: list[int] = []
    place, step = 0, runs[0][1] if runs else 1
    for extent in reversed(target):
        result.insert(0, step)
        if extent == 1:
            continue
        if place == len(runs) or runs[place][0] % extent:
            return None
        runs[place][0] //= extent
        step *= extent
        if runs[place][0] == 1:
            place += 1
            step = runs[place][1] if place < len(runs) else step
    return tuple(result)


def _reshape(source: ArrayView, _: Any, __: Arrays, shapes: Shapes) -> list[ArrayView] | None:
    if math.prod(shapes[0]) != source.numel:
        return None
    strides = restride(source.shape, source.strides, shapes[0])
    return None if strides is None else [source.view(shapes[0], strides)]


def _transpose(source: ArrayView, attributes: dict[str, Any], _: Arrays, shapes: Shapes) -> list[ArrayView]:
    order = attributes.get("perm", range(len(source.shape))[::-1])
    return [source.view(shapes[0], [source.strides[axis] for axis in order])]


def _expand(source: ArrayView, _: Any, __: Arrays, shapes: Shapes) -> list[ArrayView]:
    ahead = len(shapes[0]) - len(source.shape)
    sides = zip(source.shape, source.strides, shapes[0][ahead:], strict=True)
    return [source.view(shapes[0], [0] * ahead + [step if extent == wanted else 0 for extent, step, wanted in sides])]


def _slice(source: ArrayView, attributes: dict[str, Any], inputs: Arrays, shapes: Shapes) -> list[ArrayView] | None:
    if len(inputs) == 1:
        rows = [attributes["starts"], attributes.get("axes"), None]
    else:
        places = [inputs[place] if place < len(inputs) else None for place in (1, 3, 4)]
        if any(array is not None and array.known is None for array in places):
            return None
        rows = [None if array is None else [int(entry) for entry in array.known] for array in places]
    starts = rows[0] or []
    axes = range(len(starts)) if rows[1] is None else rows[1]
    steps = [1] * len(starts) if rows[2] is None else rows[2]
    strides, offset = list(source.strides), 0
    for start, axis, step in zip(starts, axes, steps, strict=True):
        axis %= len(source.shape)
        extent = source.shape[axis]
        first = start + extent if start < 0 else start
        first = max(0, min(first, extent if step > 0 else extent - 1))
        offset += first * source.strides[axis]
        strides[axis] *= step
    return [source.view(shapes[0], strides, offset)]


def _split(source: ArrayView, attributes: dict[str, Any], _: Arrays, shapes: Shapes) -> list[ArrayView]:
    axis = attributes.get("axis", 0) % len(source.shape)
    starts = itertools.accumulate((shape[axis] for shape in shapes), initial=0)
    return [
        source.view(shape, source.strides, start * source.strides[axis])
        for shape, start in zip(shapes, starts, strict=False)
    ]


def _select(source: ArrayView, attributes: dict[str, Any], inputs: Arrays, shapes: Shapes) -> list[ArrayView] | None:
    index = inputs[1]
    if index is None or index.known is None or index.shape:
        return None
    axis = attributes.get("axis", 0) % len(source.shape)
    strides = list(source.strides)
    step = strides.pop(axis)
    return [source.view(shapes[0], strides, int(index.known) % source.shape[axis] * step)]


def _identity(source: ArrayView, *_: Any) -> list[ArrayView]:
    return [source.view(source.shape, source.strides, known=source.known)]


def _dropout(source: ArrayView, _: Any, inputs: Arrays, shapes: Shapes) -> list[ArrayView] | None:
    mode = inputs[2] if len(inputs) > 2 else None
    if mode is not None and (mode.known is None or bool(mode.known)):
        return None
    # Without training the mask is all true.
    return [*_identity(source), *(constant_array(shape, 9) for shape in shapes[1:])]


def _cast_like(source: ArrayView, _: Any, inputs: Arrays, __: Shapes) -> list[ArrayView] | None:
    assert inputs[1] is not None
    return _identity(source) if source.type == inputs[1].type else None


_VIEWS: dict[str, View] = {
    "Cast": lambda source, attributes, *_: _identity(source) if attributes.get("to") == source.type else None,
    "CastLike": _cast_like,
    "Concat": lambda source, _, inputs, __: _identity(source) if len(inputs) == 1 else None,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _reshape,
    "Gather": _select,
    "Identity": _identity,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}

#: Views of part of an array.
_NARROW = frozenset({"Gather", "Slice", "Split"})
