"""Fold views: decide which tensors an operator really hands on.

A capture reads regions of values. A region with all of a value's data (a reshape, a permutation, a broadcast) is the
value. Narrower regions become separate output tensors of the producer when that cannot cost anything: nobody reads the
whole value and the regions do not overlap, so that sending all of them is sending at most the value. Otherwise each
becomes an operator of its own that costs no time, since where the slice is taken then matters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from partita.frontends.geometry import Geometry, disjoint, geometry_bytes
from partita.frontends.records import Call, Capture, Read, Value

_MAX_SPLIT = 64


@dataclass(slots=True, eq=False)
class Piece:
    """One tensor of the graph to be: all of a value, or a region of it."""

    value: Value
    geometry: Geometry
    shape: tuple[int, ...]
    dtype: str
    consumers: list[Call] = field(default_factory=list)
    output: bool = False
    """Whether it is part of the model's result."""
    slice: bool = False
    """Whether a free operator takes it from the value."""

    @property
    def whole(self) -> bool:
        """Whether it is all of its value."""
        return self.geometry == self.value.geometry

    @property
    def bytes(self) -> int:
        """Size of its distinct data."""
        return min(geometry_bytes(self.geometry), self.value.bytes)


def live_calls(capture: Capture) -> list[Call]:
    """The calls that the outputs and gradients depend on and that are not constants, in execution order."""
    pending = [read.value.call for read in capture.outputs]
    pending.extend(read.value.call for _, read in capture.gradients)
    live: dict[int, Call] = {}
    while pending:
        call = pending.pop()
        if call is None or call.constant or call.index in live:
            continue
        live[call.index] = call
        pending.extend(read.value.call for read in call.reads)
    return [live[index] for index in sorted(live)]


def fold(live: list[Call], outputs: Iterable[Read], gradients: Iterable[Read]) -> dict[Value, dict[Geometry, Piece]]:
    """The tensors between the live calls, by value and region.

    Parameters
    ----------
    live
        Calls to keep.
    outputs
        What the model returns.
    gradients
        Gradients of parameters; they read their value without being a consumer of it.

    Returns
    -------
    dict
        For each value read, its pieces. Values that are parameters or constants are left out.
    """
    table: dict[Value, dict[Geometry, Piece]] = {}
    for call in live:
        for read in call.reads:
            piece = _piece(table, read)
            if piece is not None:
                piece.consumers.append(call)
    for read in outputs:
        piece = _piece(table, read)
        if piece is not None:
            piece.output = True
    for read in gradients:
        _piece(table, read)
    for value, pieces in table.items():
        _choose(value, pieces)
    return table


def region(read: Read) -> Geometry:
    """The region of its value a read stands for: all of it unless it is narrower."""
    value = read.value
    return value.geometry if geometry_bytes(read.geometry) >= value.bytes else read.geometry


def _piece(table: dict[Value, dict[Geometry, Piece]], read: Read) -> Piece | None:
    value = read.value
    if value.constant or (value.stored is not None and value.stored.kind != "input"):
        return None
    pieces = table.setdefault(value, {})
    geometry = region(read)
    if geometry not in pieces:
        whole = geometry == value.geometry
        shape, dtype = (value.shape, value.dtype) if whole else (read.shape, read.dtype)
        pieces[geometry] = Piece(value, geometry, shape, dtype)
    return pieces[geometry]


def _choose(value: Value, pieces: dict[Geometry, Piece]) -> None:
    narrow = [piece for piece in pieces.values() if not piece.whole]
    if not narrow:
        return
    splits = (
        len(narrow) == len(pieces) <= _MAX_SPLIT
        and value.stored is None
        and sum(piece.bytes for piece in narrow) <= value.bytes
        and all(disjoint(a.geometry, b.geometry) for i, a in enumerate(narrow) for b in narrow[:i])
    )
    if splits:
        return
    for piece in narrow:
        piece.slice = True
    if value.geometry not in pieces:
        pieces[value.geometry] = Piece(value, value.geometry, value.shape, value.dtype)
