"""Sequences and optional values of an ONNX graph: lists of arrays whose length follows from the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.frontends.onnx.arrays import Array, constant_array
from partita.ground.errors import InputError

_INT64, _BOOL = 7, 9


@dataclass(frozen=True)
class Row:
    """A sequence: its arrays in order."""

    arrays: tuple[Array, ...] = ()


#: What a name of a graph may stand for.
Item = Array | Row

#: What a node's inputs are; None for one left out.
Items = list[Item | None]


def sequence_outputs(what: str, op: str, attributes: dict[str, Any], inputs: Items) -> list[Item] | None:
    """The outputs of an operator on sequences or optional values; None for other operators.

    Raises
    ------
    InputError
        If data decides which array is meant, or how long a sequence is.
    """
    make = _MAKERS.get(op)
    if make is None:
        if op == "Identity" and isinstance(inputs[0], Row):
            return [inputs[0]]
        return None
    try:
        return [make(attributes, inputs)]
    except _Unknown as error:
        raise InputError(f"{what} depends on data, by {error}; export the model with arrays alone") from None
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"{what} cannot take what it is given: {error}") from error


class _Unknown(Exception):
    """Something that only data says."""


def _row(item: Item | None) -> Row:
    if not isinstance(item, Row):
        raise TypeError("its first input is no sequence")
    return item


def _array(item: Item | None) -> Array:
    if not isinstance(item, Array):
        raise TypeError("an input is no array")
    return item


def _values(item: Item | None, what: str) -> list[int]:
    array = _array(item)
    if array.known is None:
        raise _Unknown(what)
    return [int(value) for value in np.asarray(array.known).reshape(-1)]


def _place(row: Row, item: Item | None, room: int) -> int:
    (place,) = _values(item, "a place in a sequence")
    if not -room <= place < room:
        raise IndexError(f"place {place} of a sequence of {len(row.arrays)}")
    return place % room


def _construct(_: dict[str, Any], inputs: Items) -> Item:
    return Row(tuple(_array(item) for item in inputs))


def _insert(_: dict[str, Any], inputs: Items) -> Item:
    row, array = _row(inputs[0]), _array(inputs[1])
    given = len(inputs) > 2 and inputs[2] is not None
    place = _place(row, inputs[2], len(row.arrays) + 1) if given else len(row.arrays)
    return Row((*row.arrays[:place], array, *row.arrays[place:]))


def _erase(_: dict[str, Any], inputs: Items) -> Item:
    row = _row(inputs[0])
    given = len(inputs) > 1 and inputs[1] is not None
    place = _place(row, inputs[1], len(row.arrays)) if given else len(row.arrays) - 1
    return Row((*row.arrays[:place], *row.arrays[place + 1 :]))


def _at(_: dict[str, Any], inputs: Items) -> Item:
    row = _row(inputs[0])
    return row.arrays[_place(row, inputs[1], len(row.arrays))]


def _length(_: dict[str, Any], inputs: Items) -> Item:
    return constant_array((), _INT64, np.array(len(_row(inputs[0]).arrays), np.int64))


def _split(attributes: dict[str, Any], inputs: Items) -> Item:
    source = _array(inputs[0])
    axis = attributes.get("axis", 0) % len(source.shape)
    extent = source.shape[axis]
    given = len(inputs) > 1 and inputs[1] is not None
    sizes = [1] * extent
    if given:
        sizes = _values(inputs[1], "the sizes of its parts")
        if not _array(inputs[1]).shape:
            (size,) = sizes
            sizes = [min(size, extent - start) for start in range(0, extent, size)]
    if sum(sizes) != extent:
        raise ValueError(f"parts of {sizes} are not {extent}")
    parts, start = [], 0
    for size in sizes:
        shape, strides = list(source.shape), list(source.strides)
        shape[axis] = size
        if not given and not attributes.get("keepdims", 1):
            del shape[axis], strides[axis]
        parts.append(source.view(shape, strides, start * source.strides[axis]))
        start += size
    return Row(tuple(parts))


def _optional(_: dict[str, Any], inputs: Items) -> Item:
    if not inputs or inputs[0] is None:
        raise ValueError("an optional value without content has no size")
    return inputs[0]


def _has(_: dict[str, Any], inputs: Items) -> Item:
    return constant_array((), _BOOL, np.array(bool(inputs) and inputs[0] is not None))


def joined_shape(attributes: dict[str, Any], row: Row) -> tuple[int, ...]:
    """The shape of a sequence's arrays put together."""
    first = list(row.arrays[0].shape)
    new = attributes.get("new_axis", 0)
    axis = attributes["axis"] % (len(first) + bool(new))
    if new:
        return (*first[:axis], len(row.arrays), *first[axis:])
    first[axis] = sum(array.shape[axis] for array in row.arrays)
    return tuple(first)


_MAKERS: dict[str, Callable[[dict[str, Any], Items], Item]] = {
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": lambda _, __: Row(),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
