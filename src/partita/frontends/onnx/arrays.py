"""What a name of an ONNX graph stands for: an array, which is some bytes of a value, or a sequence of arrays.

Sequences and optional values are lists of arrays whose length follows from the file.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.frontends.records import ByteLayout, Read, RecordedCall, Stored, Value, make_geometry
from partita.ground.errors import InputError

_NAMES = (
    "undefined float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 "
    "complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn "
    "float8_e8m0fnu uint2 int2"
)
#: Number of ONNX's element type to the name that graphs use, and its bits.
TYPES = {
    number: (name, int(bits[0]) if (bits := re.search(r"\d+", name)) else 8)
    for number, name in enumerate(_NAMES.split())
    if name not in ("undefined", "string")
}

_STRING = 8


def check_type(number: int, owner: str) -> None:
    """Refuse an element type whose size is not known."""
    if number == _STRING:
        raise InputError(f"{owner} holds text, whose size no shape tells; leave text processing out of the model")
    if number not in TYPES:
        raise InputError(f"{owner} has element type {number}, which is not known; export it in another number format")


def array_bytes(shape: Sequence[int], number: int) -> int:
    """Size of an array of an element type; formats of less than a byte are packed."""
    return -(-math.prod(shape) * TYPES[number][1] // 8)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an array without gaps."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class ArrayView:
    """One array of the graph, all of a value or a view of it: places are in elements, the type is ONNX's number."""

    value: Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: int
    offset: int = 0
    known: Any = None
    """Its content as a numpy array, where it is small and follows from the file alone."""

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> str:
        """Name of its number format."""
        return TYPES[self.type][0]

    @property
    def floating(self) -> bool:
        """Whether its numbers are floating or complex."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def constant(self) -> bool:
        """Whether any device can make it without being sent anything."""
        return self.value.constant

    def read(self) -> Read:
        """A read of it."""
        return Read(self.value, _layout(self.shape, self.strides, self.offset, self.type))

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0, known: Any = None) -> ArrayView:
        """Another view of the same data, so many elements further on."""
        return ArrayView(self.value, tuple(shape), tuple(strides), self.type, self.offset + offset, known)


#: Inputs of an operator; None for one left out.
Arrays = Sequence[ArrayView | None]


@dataclass(frozen=True)
class Operation:
    """A node on arrays alone, what it is called in messages, its attributes and inputs."""

    node: Any
    what: str
    attributes: dict[str, Any]
    inputs: Arrays

    @property
    def op(self) -> str:
        """The operator."""
        return str(self.node.op_type)

    @property
    def present(self) -> list[ArrayView]:
        """The inputs that are not left out."""
        return [array for array in self.inputs if array is not None]

    @property
    def names(self) -> list[str]:
        """Of the outputs that are wanted."""
        return [name for name in self.node.output if name]


def _layout(shape: tuple[int, ...], strides: Sequence[int], offset: int, number: int) -> ByteLayout:
    name, bits = TYPES[number]
    if bits < 8:
        # Packed elements have no byte of their own; only whole arrays are viewed.
        return ByteLayout((0, ((array_bytes(shape, number), 1),)), shape, name)
    return ByteLayout(make_geometry(offset, shape, strides, bits // 8), shape, name)


def new_array(
    shape: Sequence[int],
    number: int,
    *,
    call: RecordedCall | None = None,
    stored: Stored | None = None,
    known: Any = None,
) -> ArrayView:
    """An array with a value of its own, made by a call or stored; with a call it becomes its next output."""
    shape = tuple(shape)
    strides = row_major(shape)
    value = Value(call, stored, _layout(shape, strides, 0, number), 0 if call is None else len(call.writes))
    if call is not None:
        call.writes.append(value)
    return ArrayView(value, shape, strides, number, known=known)


def constant_array(shape: Sequence[int], number: int, known: Any = None) -> ArrayView:
    """An array that every device makes for itself."""
    return new_array(
        shape, number, call=RecordedCall(-1, "onnx.Constant", "", False, [], "", constant=True), known=known
    )


def arithmetic_dtype(inputs: Sequence[ArrayView], outputs: Sequence[ArrayView]) -> str:
    """The format of the first floating input, else of the first floating output, else of any; packed ones as int8."""
    for array in (*inputs, *outputs):
        if array.floating:
            return array.dtype
    any_of = (*outputs, *inputs)[0]
    return "int8" if TYPES[any_of.type][1] < 8 else any_of.dtype


# -- sequences --------------------------------------------------------------------------------------------------------

#: What a name of a graph may stand for: an array, or a sequence of them.
Item = ArrayView | tuple[ArrayView, ...]

#: What a node's inputs are; None for one left out.
Items = list[Item | None]


def sequence_outputs(what: str, op: str, attributes: dict[str, Any], inputs: Items) -> list[Item] | None:
    """The outputs of an operator on sequences or optional values; None for other operators.

    Where data decides which array is meant, or how long a sequence is, that is an ``InputError``.
    """
    make = _MAKERS.get(op)
    if make is None:
        return [inputs[0]] if op == "Identity" and isinstance(inputs[0], tuple) else None
    try:
        return [make(attributes, *inputs)]
    except _Unknown as error:
        raise InputError(f"{what} depends on data, by {error}; export the model with arrays alone") from None
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"{what} cannot take what it is given: {error}") from error


class _Unknown(Exception):
    """Something that only data says."""


def _row(item: Item | None) -> tuple[ArrayView, ...]:
    if not isinstance(item, tuple):
        raise TypeError("its first input is no sequence")
    return item


def _array(item: Item | None) -> ArrayView:
    if not isinstance(item, ArrayView):
        raise TypeError("an input is no array")
    return item


def _values(item: Item, what: str) -> list[int]:
    array = _array(item)
    if array.known is None:
        raise _Unknown(what)
    return [int(value) for value in np.asarray(array.known).reshape(-1)]


def _place(row: tuple[ArrayView, ...], item: Item | None, beyond: int = 0) -> int:
    """A place in a sequence, or so many ``beyond`` its end; the last one where none is given."""
    room = len(row) + beyond
    if item is None:
        return room - 1
    (place,) = _values(item, "a place in a sequence")
    if not -room <= place < room:
        raise IndexError(f"place {place} of a sequence of {len(row)}")
    return place % room


def _insert(_: Any, row: Item | None, item: Item | None, where: Item | None = None) -> Item:
    row, array = _row(row), _array(item)
    place = _place(row, where, 1)
    return (*row[:place], array, *row[place:])


def _erase(_: Any, row: Item | None, where: Item | None = None) -> Item:
    row = _row(row)
    place = _place(row, where)
    return (*row[:place], *row[place + 1 :])


def _split_apart(attributes: dict[str, Any], item: Item | None, given: Item | None = None) -> Item:
    source = _array(item)
    axis = attributes.get("axis", 0) % len(source.shape)
    extent = source.shape[axis]
    sizes = [1] * extent
    if given is not None:
        sizes = _values(given, "the sizes of its parts")
        if not _array(given).shape:
            (size,) = sizes
            sizes = [min(size, extent - start) for start in range(0, extent, size)]
    if sum(sizes) != extent:
        raise ValueError(f"parts of {sizes} are not {extent}")
    parts = []
    for start, size in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
        shape, strides = list(source.shape), list(source.strides)
        shape[axis] = size
        if given is None and not attributes.get("keepdims", 1):
            del shape[axis], strides[axis]
        parts.append(source.view(shape, strides, start * source.strides[axis]))
    return tuple(parts)


def _optional(_: Any, item: Item | None = None) -> Item:
    if item is None:
        raise ValueError("an optional value without content has no size")
    return item


def joined_shape(attributes: dict[str, Any], row: tuple[ArrayView, ...]) -> tuple[int, ...]:
    """The shape of a sequence's arrays put together."""
    first = list(row[0].shape)
    new = attributes.get("new_axis", 0)
    axis = attributes["axis"] % (len(first) + bool(new))
    if new:
        return (*first[:axis], len(row), *first[axis:])
    first[axis] = sum(array.shape[axis] for array in row)
    return tuple(first)


_MAKERS: dict[str, Callable[..., Item]] = {
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": lambda _, item=None: constant_array((), 9, np.array(item is not None)),
    "SequenceAt": lambda _, row, where: _row(row)[_place(_row(row), where)],
    "SequenceConstruct": lambda _, *items: tuple(map(_array, items)),
    "SequenceEmpty": lambda _: (),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": lambda _, row: constant_array((), 7, np.array(len(_row(row)), np.int64)),
    "SplitToSequence": _split_apart,
}
