"""Sizes that depend on data: what a graph presumes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.frontends.onnx.arrays import Array

Shape = tuple[int | None, ...]


def presume(
    op: str, attributes: dict[str, Any], inputs: Sequence[Array | None], shape: Shape | None
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
    op: str, attributes: dict[str, Any], inputs: Sequence[Array | None], first: Array, shape: Shape
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
