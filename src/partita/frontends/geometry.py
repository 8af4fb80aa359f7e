"""Which bytes of a storage a tensor touches, and whether two tensors touch the same ones.

Every view of a storage is reduced to a *geometry*: a byte offset and nested (extent, stride) pairs, outermost first.
Permutations, reshapes, squeezes and broadcasts of one region all have the same geometry, so comparing geometries
answers "is this the same data?" without knowing which view operators led there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Geometry = tuple[int, tuple[tuple[int, int], ...]]
"""Byte offset, then (extent, byte stride) pairs with falling strides; the innermost pair is a run of bytes."""

_MAX_PIECES = 256


def make_geometry(offset: int, shape: Sequence[int], stride: Sequence[int], itemsize: int) -> Geometry:
    """Canonical geometry of a strided tensor; offset, extents and strides are in elements of so many bytes.

    Broadcast dimensions (stride 0) are dropped and mergeable dimensions are merged, so equal regions are equal values.
    An empty tensor has one pair with extent 0.
    """
    pairs = []
    start = offset
    for extent, step in zip(shape, stride, strict=True):
        if extent == 0:
            return 0, ((0, 1),)
        if extent == 1 or step == 0:
            continue
        if step < 0:
            start += step * (extent - 1)
            step = -step
        pairs.append((step, extent))
    pairs.sort(reverse=True)
    merged = [(itemsize, 1)]
    for step, extent in reversed(pairs):
        inner_extent, inner_stride = merged[-1]
        byte_stride = step * itemsize
        if byte_stride == inner_extent * inner_stride:
            merged[-1] = (inner_extent * extent, inner_stride)
        else:
            merged.append((extent, byte_stride))
    return start * itemsize, tuple(reversed(merged))


def geometry_bytes(geometry: Geometry) -> int:
    """Bytes in the region (an upper bound where a view overlaps itself, as sliding windows do)."""
    return math.prod(extent for extent, _ in geometry[1])


def _span(pairs: tuple[tuple[int, int], ...]) -> int:
    return sum((extent - 1) * stride for extent, stride in pairs) + 1


def disjoint(a: Geometry, b: Geometry) -> bool:
    """Whether two regions surely share no byte; False also where deciding would take too long."""
    (start_a, pairs_a), (start_b, pairs_b) = a, b
    if start_a + _span(pairs_a) <= start_b or start_b + _span(pairs_b) <= start_a:
        return True
    if not pairs_a or not pairs_b:
        return False
    extent, stride = pairs_a[0]
    if pairs_a[0] == pairs_b[0] and stride > 1:
        low = min(start_a, start_b)
        inner_a, inner_b = pairs_a[1:], pairs_b[1:]
        # Both repeat with one period and each repetition stays inside it: one repetition decides.
        if max(start_a + _span(inner_a), start_b + _span(inner_b)) - low <= stride:
            return disjoint((start_a, inner_a), (start_b, inner_b))
    if _span(pairs_a) < _span(pairs_b):
        (start_a, pairs_a), (start_b, pairs_b) = (start_b, pairs_b), (start_a, pairs_a)
        extent, stride = pairs_a[0]
    if stride == 1 or extent > _MAX_PIECES:
        return False
    return all(disjoint((start_a + i * stride, pairs_a[1:]), (start_b, pairs_b)) for i in range(extent))
