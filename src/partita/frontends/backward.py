"""Give every backward call the forward call whose device it shares."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from partita.frontends.records import Capture, RecordedCall, Value


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

    def by_reads(call: RecordedCall) -> RecordedCall | None:
        makers = [read.value.call for read in call.reads]
        made = [maker for maker in makers if maker is not None and maker.index in alive]
        newest = max(made, key=lambda maker: maker.index, default=None)
        return None if newest is None else partners.get(newest.index, newest)

    for call in live:
        if call.backward:
            partners[call.index] = by_node(call) or by_reads(call) or forward[-1]
    return partners
