"""Fold views: decide which tensors an operator really hands on.

A capture reads regions of values. A region with all of a value's data (a reshape, a permutation, a broadcast) is the
value. Narrower regions become separate output tensors of the producer when that cannot cost anything: nobody reads the
whole value and the regions do not overlap, so that sending all of them is sending at most the value. Otherwise each
becomes an operator of its own that costs no time, since where the slice is taken then matters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from partita.frontends.geometry import Geometry, disjoint
from partita.frontends.records import ByteLayout, Capture, Read, RecordedCall, Value

_MAX_SPLIT = 64


@dataclass(slots=True, eq=False)
class TensorPart(Read):
    """One tensor of the graph to be: all of a value, or a region of it."""

    consumers: list[RecordedCall] = field(default_factory=list)
    output: bool = False
    """Whether it is part of the model's result."""
    slice: bool = False
    """Whether a free operator takes it from the value."""


def live_calls(capture: Capture) -> list[RecordedCall]:
    """The calls that the outputs and gradients depend on and that are not constants, in execution order."""
    pending = [read.value.call for read in capture.outputs]
    pending.extend(read.value.call for _, read in capture.gradients)
    live: dict[int, RecordedCall] = {}
    while pending:
        call = pending.pop()
        if call is None or call.constant or call.index in live:
            continue
        live[call.index] = call
        pending.extend(read.value.call for read in call.reads)
    return [live[index] for index in sorted(live)]


def fold(
    live: list[RecordedCall], outputs: Iterable[Read], gradients: Iterable[Read]
) -> dict[Value, dict[Geometry, TensorPart]]:
    """The tensors between the live calls, what the model returns and the parameters' gradients, by value and region.

    Gradients read their value without being a consumer of it. Values that are parameters or constants are left out.
    """
    table: dict[Value, dict[Geometry, TensorPart]] = {}
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


def region(read: Read) -> ByteLayout:
    """The part of its value a read stands for: all of it unless it is narrower."""
    return read.value.layout if read.layout.bytes >= read.value.layout.bytes else read.layout


def _piece(table: dict[Value, dict[Geometry, TensorPart]], read: Read) -> TensorPart | None:
    value, layout = read.value, region(read)
    if value.constant or (value.stored is not None and value.stored.kind != "input"):
        return None
    return table.setdefault(value, {}).setdefault(layout.geometry, TensorPart(value, layout))


def _choose(value: Value, pieces: dict[Geometry, TensorPart]) -> None:
    narrow = [piece for piece in pieces.values() if not piece.whole]
    splits = (
        len(narrow) == len(pieces) <= _MAX_SPLIT
        and value.stored is None
        and sum(piece.bytes for piece in narrow) <= value.layout.bytes
        and all(disjoint(a.layout.geometry, b.layout.geometry) for i, a in enumerate(narrow) for b in narrow[:i])
    )
    if not narrow or splits:
        return
    for piece in narrow:
        piece.slice = True
    pieces.setdefault(value.layout.geometry, TensorPart(value, value.layout))
