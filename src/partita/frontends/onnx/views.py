"""Operators that make another view of an array and move nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from partita.frontends.onnx.arrays import TYPES, Arrays, ArrayView, constant_array

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
