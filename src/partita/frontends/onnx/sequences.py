"""Sequences and optional values of an ONNX graph: lists of arrays whose length follows from the file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.frontends.onnx.arrays import ArrayView, constant_array
from partita.ground.errors import InputError

_INT64, _BOOL = 7, 9


@dataclass(frozen=True)
class ArrayRow:
    """A sequence: its arrays in order."""

    arrays: tuple[ArrayView, ...] = ()


#: What a name of a graph may stand for.
Item = ArrayView | ArrayRow

#: What a node's inputs are; None for one left out.
Items = list[Item | None]


def sequence_outputs(what: str, op: str, attributes: dict[str, Any], inputs: Items) -> list[Item] | None:
    """The outputs of an operator on sequences or optional values; None for other operators.

    Where data decides which array is meant, or how long a sequence is, that is an ``InputError``.
    """
    make = _MAKERS.get(op)
    if make is None:
        if op == "Identity" and isinstance(inputs[0], ArrayRow):
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


def _row(item: Item | None) -> ArrayRow:
    if not isinstance(item, ArrayRow):
        raise TypeError("its first input is no sequence")
    return item


def _array(item: Item | None) -> ArrayView:
    if not isinstance(item, ArrayView):
        raise TypeError("an input is no array")
    return item


def _values(item: Item | None, what: str) -> list[int]:
    array = _array(item)
    if array.known is None:
        raise _Unknown(what)
    return [int(value) for value in np.asarray(array.known).reshape(-1)]


def _number(value: int, kind: int) -> Item:
    return constant_array((), kind, np.array(value, np.int64 if kind == _INT64 else None))


def _place(row: ArrayRow, item: Item | None, beyond: int) -> int:
    """A place in a sequence, or so many ``beyond`` its end."""
    (place,) = _values(item, "a place in a sequence")
    room = len(row.arrays) + beyond
    if not -room <= place < room:
        raise IndexError(f"place {place} of a sequence of {len(row.arrays)}")
    return place % room


def _insert(_: dict[str, Any], inputs: Items) -> Item:
    row, array = _row(inputs[0]), _array(inputs[1])
    given = len(inputs) > 2 and inputs[2] is not None
    place = _place(row, inputs[2], 1) if given else len(row.arrays)
    return ArrayRow((*row.arrays[:place], array, *row.arrays[place:]))


def _erase(_: dict[str, Any], inputs: Items) -> Item:
    row = _row(inputs[0])
    given = len(inputs) > 1 and inputs[1] is not None
    place = _place(row, inputs[1], 0) if given else len(row.arrays) - 1
    return ArrayRow((*row.arrays[:place], *row.arrays[place + 1 :]))


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
    parts = []
    for start, size in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
        shape, strides = list(source.shape), list(source.strides)
        shape[axis] = size
        if not given and not attributes.get("keepdims", 1):
            del shape[axis], strides[axis]
        parts.append(source.view(shape, strides, start * source.strides[axis]))
    return ArrayRow(tuple(parts))


def _optional(_: dict[str, Any], inputs: Items) -> Item:
    if not inputs or inputs[0] is None:
        raise ValueError("an optional value without content has no size")
    return inputs[0]


def joined_shape(attributes: dict[str, Any], row: ArrayRow) -> tuple[int, ...]:
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
    "OptionalHasElement": lambda _, inputs: _number(bool(inputs) and inputs[0] is not None, _BOOL),
    "SequenceAt": lambda _, inputs: _row(inputs[0]).arrays[_place(_row(inputs[0]), inputs[1], 0)],
    "SequenceConstruct": lambda _, inputs: ArrayRow(tuple(map(_array, inputs))),
    "SequenceEmpty": lambda _, __: ArrayRow(),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": lambda _, inputs: _number(len(_row(inputs[0]).arrays), _INT64),
    "SplitToSequence": _split,
}
