"""Shapes and small values of one node's outputs, by onnx's own inference and reference implementation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper, numpy_helper

from partita.frontends.onnx.arrays import Arrays, ArrayView, check_type
from partita.frontends.onnx.files import describe
from partita.frontends.onnx.flops import OperatorRule
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


def known_outputs(model: Any, node: Any, inputs: Arrays, shapes: Sequence[tuple[int, ...]]) -> list[Any] | None:
    """What a node computes, where all that it reads is known and its results are small."""
    if node.op_type == "Shape":
        source = inputs[0]
        assert source is not None
        attributes = {a.name: a.i for a in node.attribute}
        return [np.array(source.shape[attributes.get("start", 0) : attributes.get("end")], np.int64)]
    if node.op_type == "Size":
        assert inputs[0] is not None
        return [np.array(inputs[0].numel, np.int64)]
    if is_random(node) or any(a is not None and (a.known is None or not a.constant) for a in inputs):
        return None
    if any(math.prod(shape) > MOST_KNOWN for shape in shapes):
        return None
    from onnx.reference import ReferenceEvaluator

    feeds = {name: array.known for name, array in zip(node.input, inputs, strict=True) if array is not None}
    types = {name: array.type for name, array in zip(node.input, inputs, strict=True) if array is not None}
    values = [helper.make_tensor_value_info(name, kind, None) for name, kind in types.items()]
    results = [helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
    graph = helper.make_graph([node], "one", values, results)
    try:
        one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(one).run(None, feeds)
    except Exception as error:
        # An operator's own code. The value is only a help: shapes that need it are refused where they do.
        passed_over(f"the value of {describe(node)}", error)
        return None
    return [np.asarray(value) for value in found]


def is_random(node: Any) -> bool:
    """Whether each execution draws numbers."""
    return node.op_type in _RANDOM


def infer(path: str, model: Any, node: Any, inputs: Arrays) -> Outputs:
    """Shape and element type of each named output of a node; None for a size that depends on data."""
    version = {opset.domain: opset.version for opset in model.opset_import}
    domain = "" if node.domain == "ai.onnx" else node.domain
    what = f"{path}: {describe(node)}"
    rule = rule_of(domain, node.op_type)
    if rule is not None:
        return _by_rule(what, rule, node, inputs)
    if domain == DOMAIN:
        if any(a.name == "channels_last" and a.i for a in node.attribute):
            raise InputError(f"{what} has its channels last, which is not supported; quantise the file without that")
        node, inputs = _as_standard(node, inputs)
        domain = ""
    _check_attributes(path, node, (None if a is None else len(a.shape) for a in inputs))
    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for name, array in zip(node.input, inputs, strict=True):
        if array is None:
            continue
        types[name] = helper.make_tensor_type_proto(array.type, array.shape)
        if array.known is not None:
            data[name] = numpy_helper.from_array(np.asarray(array.known), name)
    shown = _shown(inputs)
    try:
        schema = onnx.defs.get_schema(node.op_type, version.get(domain, version.get("ai.onnx", 1)), domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
        if any(name and not _shaped(found.get(name)) for name in node.output):
            found.update(_through_function(model, node, types, data))
    except Exception as error:  # any operator's own code, in C++
        raise InputError(f"{what} cannot take {shown}: {one_line(error)}") from error
    outputs = [_output(what, name, found.get(name), shown) for name in node.output if name]
    if domain == "ai.onnx.ml" and node.op_type in _KEEPS and inputs[0] is not None:
        return [(inputs[0].shape, number) for _, number in outputs]
    return outputs


def _check_attributes(path: str, node: Any, ranks: Iterable[int | None]) -> None:
    """Refuse attributes that name dimensions or outputs that there are not: onnx's own code may end the process."""
    stated = {attribute.name: attribute.i for attribute in node.attribute}
    what = f"{path}: {describe(node)}"
    if node.op_type == "Split" and stated.get("num_outputs", len(node.output)) != len(node.output):
        raise InputError(f"{what} has {len(node.output)} outputs, but states {stated['num_outputs']}")
    if node.op_type == "GatherND":
        least = min((rank for rank in ranks if rank is not None), default=0)
        if not 0 <= stated.get("batch_dims", 0) <= least:
            raise InputError(f"{what} states {stated['batch_dims']} dimensions of samples, where there are {least}")


def _by_rule(what: str, rule: OperatorRule, node: Any, inputs: Arrays) -> Outputs:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    try:
        made, _ = rule(attributes, inputs)
        return [made[place] for place, name in enumerate(node.output) if name]
    except KeyError as error:
        raise InputError(f"{what} lacks attribute {error}; export the model again") from error
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{what} cannot take {_shown(inputs)}: {one_line(error)}") from error


def _as_standard(node: Any, inputs: Arrays) -> tuple[Any, Arrays]:
    """A node of the runtime as the one of the standard that it widens."""
    op, count, without = LIKE[node.op_type]
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    plain.op_type, plain.domain = op, ""
    del plain.input[count:], plain.attribute[:]
    plain.attribute.extend(a for a in node.attribute if a.name not in without)
    return plain, inputs[:count]


def _shown(inputs: Arrays) -> str:
    return ", ".join(f"{a.dtype}{list(a.shape)}" for a in inputs if a is not None)


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


def presume(
    op: str, attributes: dict[str, Any], inputs: Arrays, shape: tuple[int | None, ...] | None
) -> tuple[int, ...] | None:
    """All sizes of an output, where data decides some: as many rows as there can be; None where that is not known."""
    first = inputs[0] if inputs else None
    if first is None or shape is None:
        return None
    most = _most(op, attributes, inputs, first, shape)
    if most is None:
        return None
    return tuple(limit if extent is None else extent for extent, limit in zip(shape, most, strict=True))


def _most(
    op: str,
    attributes: dict[str, Any],
    inputs: Arrays,
    first: ArrayView,
    shape: Sequence[int | None],
) -> Sequence[int] | None:
    if op in ("Slice", "TopK") and len(shape) == len(first.shape):
        return first.shape
    if op == "NonZero":
        return (len(first.shape), first.numel)
    if op in ("Compress", "Unique"):
        axis = attributes.get("axis")
        if axis is None:
            return [first.numel] * len(shape)
        # Besides the rows that are kept there may be a list with an entry for each.
        return first.shape if len(shape) == len(first.shape) > 1 else [first.shape[axis]] * len(shape)
    if op == "NonMaxSuppression" and len(inputs) > 1 and inputs[1] is not None:
        # Boxes of each sample and class, so many at most.
        batch, classes, boxes = inputs[1].shape
        limit = inputs[2] if len(inputs) > 2 else None
        each = boxes if limit is None or limit.known is None else min(boxes, int(limit.known.reshape(-1)[0]))
        return (batch * classes * each, 3)
    return None
