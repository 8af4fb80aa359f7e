"""Which calls count, whose device each shares, and which tensors an operator really hands on.

A capture reads regions of values. A region with all of a value's data (a reshape, a permutation, a broadcast) is the
value. Narrower regions become separate output tensors of the producer when that cannot cost anything: nobody reads the
whole value and the regions do not overlap, so that sending all of them is sending at most the value. Otherwise each
becomes an operator of its own that costs no time, since where the slice is taken then matters.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from partita.frontends.records import ByteLayout, Capture, Geometry, Read, RecordedCall, Value, disjoint

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


def find_partners(capture: Capture, live: list[RecordedCall]) -> dict[int, RecordedCall]:
    """Forward partner of every live backward call, by the call's index.

    Autograd numbers the node of a forward call as it runs, and says which node is at work when a backward call runs:
    that gives the partner of nearly every call. A number nobody claimed was given out between two calls, as in-place
    calls do, and belongs to the earlier. Where the node belongs to a view or to a call that has vanished, the
    nearest surviving call takes its place: the maker of the viewed value, else its next reader, else whoever made the
    newest gradient the backward call reads, else whoever made a value it reads.
    """
    forward = [call for call in live if not call.backward]
    alive = {call.index for call in live}
    numbers = sorted(capture.nodes)
    partners: dict[int, RecordedCall] = {}

    def by_node(call: RecordedCall) -> RecordedCall | None:
        if call.partner is not None and call.partner.index in alive:
            return call.partner
        if call.node is None or not numbers or call.node < numbers[0]:
            return None
        origin, position = capture.nodes[numbers[bisect_right(numbers, call.node) - 1]]
        maker = origin.call if isinstance(origin, Value) else origin
        if maker is not None and maker.index in alive and not maker.backward:
            return maker
        readers = forward[bisect_left(forward, position, key=lambda reader: reader.index) :]
        return next((reader for reader in readers if any(read.value is origin for read in reader.reads)), None)

    for call in (each for each in live if each.backward):
        made = [maker for read in call.reads if (maker := read.value.call) is not None and maker.index in alive]
        newest = max(made or forward[-1:], key=lambda maker: maker.index)
        partners[call.index] = by_node(call) or partners.get(newest.index, newest)
    return partners


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
