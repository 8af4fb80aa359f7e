"""What a capture writes down: values, reads of them, and calls. Plain data; no torch needed to read it.

Which bytes of a storage a tensor touches is reduced to a *geometry*: a byte offset and nested (extent, stride) pairs,
outermost first. Permutations, reshapes, squeezes and broadcasts of one region all have the same geometry, so comparing
geometries answers "is this the same data?" without knowing which view operators led there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


class ByteLayout(NamedTuple):
    """Which bytes of a storage an array has, and how it reads them."""

    geometry: Geometry
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Size of its distinct data."""
        return geometry_bytes(self.geometry)


class DispatchedCall(NamedTuple):
    """One dispatched operator: its overload, and shape and number format of every tensor among its arguments."""

    target: str
    arguments: tuple[tuple[tuple[int, ...], str], ...]


@dataclass(slots=True, eq=False)
class Stored:
    """A parameter, buffer or model input: its name(s) and layout."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    kind: str
    """``parameter``, ``buffer`` or ``input``."""
    trainable: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Value:
    """The content of one storage between two writes to it."""

    call: RecordedCall | None
    stored: Stored | None
    layout: ByteLayout
    order: int = 0
    """Place among the outputs of its call."""
    home: Stored | None = None
    """The weight or buffer that it is a version of, written in place; None for its first content and all else."""

    @property
    def constant(self) -> bool:
        """Whether any device can make it without being sent anything."""
        return self.call is not None and self.call.constant


@dataclass(slots=True, eq=False)
class Read:
    """One region of one value, as a call or the model's result reads it."""

    value: Value
    layout: ByteLayout

    @property
    def whole(self) -> bool:
        """Whether it is all of its value."""
        return self.layout.geometry == self.value.layout.geometry

    @property
    def bytes(self) -> int:
        """Size of its distinct data."""
        return min(self.layout.bytes, self.value.layout.bytes)


@dataclass(slots=True, eq=False)
class RecordedCall:
    """One operator execution in the order it ran."""

    index: int
    target: str
    module: str
    backward: bool
    reads: list[Read]
    dtype: str
    constant: bool = False
    writes: list[Value] = field(default_factory=list)
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    node: int | None = None
    """Backward: the number of the autograd node that issued it."""
    partner: RecordedCall | None = None
    """Backward: the forward call it belongs to, where the capture knows it outright."""
    product: tuple[int, int, int, int] | None = None
    """Batch, rows, columns and inner dimension of a matrix product."""
    consecutive: str = "kn"
    """Which of them lie consecutively in memory."""
    causal: bool = False
    """Whether it is attention that skips what comes later."""
    launches: int = 1
    """Kernels that are issued for it."""
    free: bool = False
    """Whether it runs inside its neighbours, who count what it reads and writes."""
    event: int | None = None
    """Place among the capture's events; None where nothing was dispatched for it."""


@dataclass(slots=True)
class Capture:
    """Everything one run of a model left behind."""

    calls: list[RecordedCall] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    outputs: list[Read] = field(default_factory=list)
    gradients: list[tuple[Stored, Read]] = field(default_factory=list)
    nodes: dict[int, tuple[RecordedCall | Value, int]] = field(default_factory=dict)
    """Autograd node number to the forward call that made it, or to the value it is a view of; and the number of calls
    written down when it was made."""
    notes: list[str] = field(default_factory=list)
    events: list[DispatchedCall] = field(default_factory=list)
    """Everything that was dispatched, in order, whether or not it became a call."""

    def note(self, text: str) -> None:
        """Add a note, unless it is there."""
        if text not in self.notes:
            self.notes.append(text)
