"""What a capture writes down: values, reads of them, and calls. Plain data; no torch needed to read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from partita.frontends.geometry import Geometry, geometry_bytes


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
