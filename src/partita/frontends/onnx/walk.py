"""Going through an ONNX graph node by node: shapes, views, what is read and written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onnx import helper

from partita.frontends.flops import reached
from partita.frontends.onnx.arrays import (
    ArrayView,
    Item,
    Items,
    Operation,
    arithmetic_dtype,
    array_bytes,
    constant_array,
    joined_shape,
    new_array,
    sequence_outputs,
)
from partita.frontends.onnx.dims import declared_shape
from partita.frontends.onnx.files import describe
from partita.frontends.onnx.flops import Cost, cost_of, needed
from partita.frontends.onnx.modules import Modules
from partita.frontends.onnx.quantised import NOTE, fold, runs_in_integers
from partita.frontends.onnx.runtime import DOMAIN, LIKE, rule_of
from partita.frontends.onnx.shapes import infer, is_random, known_outputs, presume, view_of
from partita.frontends.onnx.stored import StoredArrays, dense
from partita.frontends.records import Capture, Read, RecordedCall
from partita.ground.errors import InputError

#: Operators that take these inputs for their shape or type alone.
_SHAPE_ONLY = {"CastLike": 1, "EyeLike": 0, "RandomNormalLike": 0, "RandomUniformLike": 0}

#: Inputs of which operators read the rows they pick.
_TABLES = {
    "EmbedLayerNormalization": (2, 3, 4),
    "Gather": (0,),
    "GatherBlockQuantized": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
}

_DATA_NOTE = "Sizes that depend on data ({names}) are presumed to be the largest there can be."


Control = Mapping[str, Callable[["Walk", Any, Items, "Scope"], list[Item]]]


class Scope:
    """Names of one graph; an inner graph sees those around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: dict[str, Item] = {}
        self.outer = outer

    def find(self, name: str) -> Item:
        """What a name stands for."""
        found = self.names.get(name)
        if found is None:
            assert self.outer is not None, name
            return self.outer.find(name)
        return found


class Walk:
    """One walk over a model; ``control`` is what to do at operators that have graphs inside.

    It has ``guessed`` if some shape depends on data, so that those that follow from it may differ from the file's.
    """

    def __init__(
        self, path: str, model: Any, sizes: dict[str, int], store: StoredArrays, modules: Modules, control: Control
    ) -> None:
        self.control = control
        self.path = path
        self.model = model
        self.sizes = sizes
        self.store = store
        self.modules = modules
        self.calls: list[RecordedCall] = []
        self.notes: dict[str, None] = {}
        self.presumed: dict[str, None] = {}
        self.guessed = False
        self.declared: dict[str, Any] = {}

    def run(self, graph: Any, scope: Scope, prefix: str = "") -> list[Item]:
        """Write down what a graph does, its inputs being in the scope already; its outputs."""
        for each in (*graph.value_info, *graph.output):
            self.declared[each.name] = declared_shape(each, self.sizes)
        for tensor in graph.initializer:
            scope.names[tensor.name] = self.store.array(tensor, prefix + tensor.name)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            scope.names[name] = self.store.array(dense(f"{self.path}: initialiser {name!r}", sparse), prefix + name)
        for node in graph.node:
            inputs: Items = [scope.find(name) if name else None for name in node.input]
            outputs = self._node(node, inputs, scope)
            scope.names.update(zip(filter(None, node.output), outputs, strict=True))
        return [scope.find(each.name) for each in graph.output]

    def capture(self, outputs: Sequence[Item]) -> Capture:
        """What was written down, with the model's results."""
        found = [array.read() for array in arrays_of(outputs)]
        if fold(self.calls, [read.value for read in found]):
            self.notes[NOTE] = None
        if self.presumed:
            self.notes[_DATA_NOTE.format(names=", ".join(self.presumed))] = None
        return Capture(
            calls=self.calls,
            stored=self.store.stored,
            modules=self.modules.classes,
            outputs=found,
            notes=list(self.notes),
        )

    def _node(self, node: Any, given: Items, scope: Scope) -> Sequence[Item]:
        what = f"{self.path}: {describe(node)}"
        standard = node.domain in ("", "ai.onnx")
        if standard and node.op_type in self.control:
            return self.control[node.op_type](self, node, given, scope)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if standard and node.op_type == "Constant":
            sparse = attributes.get("sparse_value")
            tensor = attributes.get("value") if sparse is None else dense(what, sparse)
            if tensor is not None:
                return [self.store.array(tensor, node.output[0])]
        if standard and node.op_type == "ConcatFromSequence" and isinstance(row := given[0], tuple) and row:
            together = Operation(node, what, attributes, row)
            return self._emit(together, [joined_shape(attributes, row)], [row[0].type])
        if standard and (made := sequence_outputs(what, node.op_type, attributes, given)) is not None:
            return made
        inputs: list[ArrayView | None] = []
        for item in given:
            if isinstance(item, tuple):
                raise InputError(f"{what} takes a sequence, which is not supported; export the model with arrays alone")
            inputs.append(item)
        return self._plain(Operation(node, what, attributes, inputs))

    def _plain(self, one: Operation) -> list[ArrayView]:
        """The outputs of an operator on arrays alone."""
        found = infer(self.model, one)
        shapes = [self._sizes_of(one, name, shape) for name, (shape, _) in zip(one.names, found, strict=True)]
        types = [number for _, number in found]
        known = known_outputs(self.model, one, shapes)
        if known is not None:
            return [constant_array(value.shape, number, value) for value, number in zip(known, types, strict=True)]
        views = view_of(one.op, one.attributes, one.inputs, shapes)
        return self._emit(one, shapes, types) if views is None else views

    def _sizes_of(self, one: Operation, name: str, shape: Any) -> tuple[int, ...]:
        """The shape of an output: as inferred, else as the file states it, else what is presumed."""
        if shape is not None and None not in shape:
            return tuple(shape)
        stated = self.declared.get(name)
        if stated is not None and None not in stated:
            source = one.inputs[0]
            if one.op == "Reshape" and source is not None and math.prod(stated) != source.numel:
                raise InputError(
                    f"{one.what} cannot make {list(stated)} of {source.numel} elements; export the model again"
                )
            return tuple(stated)
        most = presume(one, shape)
        if most is None:
            unread = (self.store.unread.get(id(array.value)) for array in one.present)
            stored, file = next(filter(None, unread), (None, None))
            if stored is not None:
                raise InputError(
                    f"{self.path}: the shape of {name!r} follows from {stored!r}, whose values are in {file!r}, which "
                    "cannot be read; put that file beside the model"
                )
            raise InputError(
                f"{self.path}: the shape of {name!r}, which {describe(one.node)} makes, depends on data; state it in "
                "the file, or set the sizes when exporting"
            )
        self.guessed = True
        self.presumed[f"{one.op} {one.node.name or name!r}"] = None
        return most

    def _emit(self, one: Operation, shapes: list[tuple[int, ...]], types: list[int]) -> list[ArrayView]:
        cost = _cost(one, shapes)
        reads, traffic = _reads(one, array_bytes(shapes[0], types[0]) if shapes else 0)
        domain = "onnx" if one.node.domain in ("", "ai.onnx") else one.node.domain.replace(".", "_")
        call = RecordedCall(
            len(self.calls),
            f"{domain}.{one.op}",
            self.modules.of(one.node),
            False,
            reads,
            "",
            constant=all(read.value.constant for read in reads) and not is_random(one.node),
            flops=cost.flops,
            product=cost.product,
            causal=cost.causal,
        )
        outputs = [new_array(shape, number, call=call) for shape, number in zip(shapes, types, strict=True)]
        call.dtype = arithmetic_dtype(one.present, outputs)
        if cost.flops and runs_in_integers(one.op, one.present[0].dtype):
            call.dtype = "int8"
        call.bytes_written = sum(value.layout.bytes for value in call.writes)
        if one.op in ("GRU", "RNN"):
            # The gates of all steps are written beside the result, as for PyTorch.
            x, weights = one.present[:2]
            call.bytes_written += array_bytes((*x.shape[:2], *weights.shape[:2]), x.type)
        call.bytes_read = traffic - _unreached(one)
        self.calls.append(call)
        return outputs


def _cost(one: Operation, shapes: list[tuple[int, ...]]) -> Cost:
    op, given, rule = one.op, one.inputs, rule_of(one.node.domain, one.op)
    if one.node.domain == DOMAIN and op in LIKE:
        op, count, _ = LIKE[op]
        given = given[:count]
    try:
        if rule is not None:
            return rule(one.attributes, one.inputs)[1]()
        return cost_of(op, one.attributes, [() if a is None else a.shape for a in given], shapes)
    except (ArithmeticError, IndexError, KeyError, ValueError) as error:
        shown = ", ".join(str(list(array.shape)) for array in one.present)
        raise InputError(f"{one.what} cannot be counted for inputs of shapes {shown}; check its attributes") from error


def arrays_of(items: Iterable[Item | None]) -> list[ArrayView]:
    """The arrays of items, those of sequences one by one."""
    rows = (item if isinstance(item, tuple) else (item,) for item in items if item is not None)
    return [array for row in rows for array in row]


def _unreached(one: Operation) -> int:
    """Bytes of the experts that no token of a mixture is expected to be sent to."""
    if one.op not in ("MoE", "QMoE"):
        return 0
    x, weights = needed(one.inputs), needed(one.inputs, 2)
    experts = weights.shape[0]
    share = reached(experts, math.prod(x.shape[:-1]), one.attributes.get("k", 1)) / experts
    stored = (array for array in one.inputs[2:] if array is not None and array.shape[:1] == (experts,))
    return round(sum(array.read().bytes for array in stored) * (1.0 - share))


def _reads(one: Operation, made: int) -> tuple[list[Read], int]:
    """What an operator reads, each region once, and how many bytes of it; it makes a first output of so many."""
    reads: dict[Any, Read] = {}
    traffic = 0
    for place, array in enumerate(one.inputs):
        if array is None or not array.numel or _SHAPE_ONLY.get(one.op) == place:
            continue
        # Small constants are part of the program.
        if array.constant and array.known is not None:
            continue
        read = array.read()
        key = (id(read.value), read.layout.geometry)
        if key not in reads:
            reads[key] = read
            traffic += min(read.bytes, made) if place in _TABLES.get(one.op, ()) else read.bytes
    return list(reads.values()), traffic
