"""Operators that make another view of an array and move nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from partita.frontends.onnx.arrays import TYPES, Array, constant_array

Shapes = Sequence[tuple[int, ...]]


def view_of(op: str, attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    """The outputs of an operator as views of its first input; None where they are no views.

    ``shapes`` are those of its outputs.
    """
    view = _VIEWS.get(op)
    first = inputs[0] if inputs else None
    if view is None or first is None or (TYPES[first.type][1] < 8 and op in _NARROW):
        return None
    return view(attributes, inputs, shapes)


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


def _reshape(_: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source = inputs[0]
    assert source is not None
    if math.prod(shapes[0]) != source.numel:
        return None
    strides = restride(source.shape, source.strides, shapes[0])
    return None if strides is None else [source.view(shapes[0], strides)]


def _transpose(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source = inputs[0]
    assert source is not None
    order = attributes.get("perm", range(len(source.shape))[::-1])
    return [source.view(shapes[0], [source.strides[axis] for axis in order])]


def _expand(_: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source = inputs[0]
    assert source is not None
    ahead = len(shapes[0]) - len(source.shape)
    strides = [0] * ahead
    for extent, step, wanted in zip(source.shape, source.strides, shapes[0][ahead:], strict=True):
        strides.append(step if extent == wanted else 0)
    return [source.view(shapes[0], strides)]


def _slice(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source = inputs[0]
    assert source is not None
    rank = len(source.shape)
    if len(inputs) == 1:
        starts, axes = list(attributes["starts"]), list(attributes.get("axes", range(len(attributes["starts"]))))
        steps = [1] * len(starts)
    else:
        places = [inputs[place] if place < len(inputs) else None for place in (1, 3, 4)]
        if any(array is not None and array.known is None for array in places):
            return None
        rows = [None if array is None else [int(entry) for entry in array.known] for array in places]
        starts = rows[0] or []
        axes = list(range(len(starts))) if rows[1] is None else rows[1]
        steps = [1] * len(starts) if rows[2] is None else rows[2]
    strides, offset = list(source.strides), 0
    for start, axis, step in zip(starts, axes, steps, strict=True):
        axis %= rank
        extent = source.shape[axis]
        first = start + extent if start < 0 else start
        first = max(0, min(first, extent if step > 0 else extent - 1))
        offset += first * source.strides[axis]
        strides[axis] *= step
    return [source.view(shapes[0], strides, offset)]


def _split(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source = inputs[0]
    assert source is not None
    axis = attributes.get("axis", 0) % len(source.shape)
    result, start = [], 0
    for shape in shapes:
        result.append(source.view(shape, source.strides, start * source.strides[axis]))
        start += shape[axis]
    return result


def _select(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source, index = inputs[0], inputs[1]
    assert source is not None
    if index is None or index.known is None or index.shape:
        return None
    axis = attributes.get("axis", 0) % len(source.shape)
    strides = list(source.strides)
    step = strides.pop(axis)
    return [source.view(shapes[0], strides, int(index.known) % source.shape[axis] * step)]


def _identity(_: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    source = inputs[0]
    assert source is not None
    return [source.view(source.shape, source.strides, known=source.known)]


def _dropout(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    mode = inputs[2] if len(inputs) > 2 else None
    if mode is not None and (mode.known is None or bool(mode.known)):
        return None
    # Without training the mask is all true.
    return [*(_identity(attributes, inputs, shapes) or []), *(constant_array(shape, 9) for shape in shapes[1:])]


def _cast(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    assert inputs[0] is not None
    return _identity(attributes, inputs, shapes) if attributes.get("to") == inputs[0].type else None


def _cast_like(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    assert inputs[0] is not None
    assert inputs[1] is not None
    return _identity(attributes, inputs, shapes) if inputs[0].type == inputs[1].type else None


def _alone(attributes: dict[str, Any], inputs: Sequence[Array | None], shapes: Shapes) -> list[Array] | None:
    return _identity(attributes, inputs, shapes) if len(inputs) == 1 else None


_VIEWS: dict[str, Callable[[dict[str, Any], Sequence[Array | None], Shapes], list[Array] | None]] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Concat": _alone,
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
