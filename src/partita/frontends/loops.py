"""Fold loops: many equal steps of a program, each of which needs the one before, become one operator.

A recurrence that a program steps through in Python leaves the same few calls behind for every step. No split can gain
from cutting between them, since each step waits for the last and all read the same weights. What the folded operator
costs is what its steps cost together: such a program does read its weights, and launch its kernels, again for each.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from partita.frontends.records import ByteLayout, Capture, Geometry, Read, RecordedCall, Value
from partita.frontends.views import find_partners

#: Steps from which a loop is folded.
STEPS = 32
#: Most calls of a step.
_LONGEST = 1024
#: How many of the next equal calls are tried as the beginning of the next step.
_TRIES = 16
#: Values from which those that go from one operator to another are one tensor.
_MANY = 8

TARGET = "partita.loop.default"


def fold_loops(capture: Capture, live: Sequence[RecordedCall]) -> tuple[list[RecordedCall], dict[int, int]]:
    """The live calls with loops folded, in an execution order, and for every folded call the number of what it is in.

    The capture's outputs, gradients and autograd nodes name folded calls afterwards.
    """
    spans = _spans(live)
    if not spans:
        return list(live), {}
    partners = find_partners(capture, list(live))
    inside: dict[int, RecordedCall] = {}
    loops: list[_Loop] = []
    for place, span in enumerate(spans):
        free = loops[-1].last if loops else 0
        limit = spans[place + 1][0] if place + 1 < len(spans) else len(live)
        loops.append(_Loop(live, *_with_ends(live, partners, span, free, limit)))
    for loop in loops:
        loop.absorb(live)
        inside.update(dict.fromkeys((call.index for call in loop.members), loop.call))
    for loop in loops:
        loop.call.partner = loop.partner(partners, inside)
    # What names a folded call names the loop that it is in.
    for call in (*live, *inside.values()):
        if call.partner is not None:
            call.partner = inside.get(call.partner.index, call.partner)
    for number, (origin, position) in capture.nodes.items():
        if isinstance(origin, RecordedCall) and origin.index in inside:
            capture.nodes[number] = inside[origin.index], position
    for loop in loops:
        loop.finish(inside)
    folded = list(dict.fromkeys(inside.get(call.index, call) for call in live))
    readers = _readers(capture, folded)
    calls = {call.index: call for call in folded}
    for loop in loops:
        loop.write(readers, calls)
        capture.calls[loop.call.index] = loop.call
    forward = [loop for loop in loops if not loop.call.backward]
    if forward:
        longest = max(forward, key=lambda loop: loop.steps)
        name = longest.call.module or "the root module"
        capture.notes.append(
            f"{len(forward)} of the model's loops, the longest of {longest.steps} steps in {name}, are one operator "
            "each: each step waits for the last, and reads its weights and launches its kernels anew."
        )
    return folded, {index: call.index for index, call in inside.items()}


# -- finding them -----------------------------------------------------------------------------------------------------


def _spans(live: Sequence[RecordedCall]) -> list[tuple[int, int, int]]:
    """Place of the first call, of the one after the last, and calls a step, of every loop."""
    if len(live) < STEPS:
        return []
    numbers: dict[object, int] = {}
    row = [numbers.setdefault(_signature(call), len(numbers)) for call in live]
    often = {number for number, count in Counter(row).items() if count >= STEPS}
    # For every place the next one with the same number; the row's length if there is none.
    following, last = [len(row)] * len(row), dict[int, int]()
    for place in reversed(range(len(row))):
        following[place], last[row[place]] = last.get(row[place], len(row)), place
    places = {call.index: place for place, call in enumerate(live)}
    found: list[tuple[int, int, int]] = []
    place = 0
    while place < len(row):
        if row[place] not in often:
            place += 1
            continue
        end, period = _span(row, following, live, places, place)
        if period:
            found.append((place, end, period))
        place = end
    return found


def _with_ends(
    live: Sequence[RecordedCall], partners: dict[int, RecordedCall], span: tuple[int, int, int], free: int, limit: int
) -> tuple[int, int, int]:
    """A loop with what is left of its first and last step, which differ; from the place ``free`` up to ``limit``."""
    first, end, period = span

    def kind(call: RecordedCall) -> tuple[str, str, bool]:
        return call.target, partners.get(call.index, call).module, call.backward

    def arrays(call: RecordedCall) -> set[int]:
        stored = (read.value.stored or read.value.home for read in call.reads)
        return {id(array) for array in stored if array is not None and array.kind != "input"}

    body = live[first : first + period]
    kinds = {kind(call) for call in body}
    own = {array for call in body for array in arrays(call)}

    def belongs(call: RecordedCall) -> bool:
        return kind(call) in kinds and arrays(call) <= own

    start, stop = first, end
    while start > max(free, first - period) and belongs(live[start - 1]):
        start -= 1
    while stop < min(limit, end + period) and belongs(live[stop]):
        stop += 1
    return start, stop, period


def _signature(call: RecordedCall) -> object:
    """Equal for calls that do the same, with the same weights, to other arrays of the same form."""
    reads = tuple(
        (read.layout.shape, read.layout.dtype, id(read.value.stored) if read.value.stored is not None else None)
        for read in call.reads
    )
    writes = tuple((value.layout.shape, value.layout.dtype) for value in call.writes)
    return call.target, call.module, call.backward, call.dtype, call.flops, reads, writes


def _span(
    row: Sequence[int], following: Sequence[int], live: Sequence[RecordedCall], places: dict[int, int], first: int
) -> tuple[int, int]:
    """End and period of a loop that begins at a place; with period 0 where to look next."""
    other, beyond = following[first], first + 1
    for _ in range(_TRIES):
        period = other - first
        if period > _LONGEST or first + STEPS * period > len(row):
            break
        if row[first:other] == row[other : other + period]:
            end = other
            while end < len(row) and row[end] == row[end - period]:
                end += 1
            if end - first >= STEPS * period:
                if _is_chain(live, places, first, end, period):
                    return end, period
                # The same many times, but side by side.
                beyond = max(beyond, end - period)
        other = following[other]
    return beyond, 0


def _is_chain(live: Sequence[RecordedCall], places: dict[int, int], first: int, end: int, period: int) -> bool:
    """Whether every step reads what the one before it made."""
    linked = set()
    for place in range(first + period, end):
        step = (place - first) // period
        makers = (read.value.call for read in live[place].reads)
        if any(
            maker is not None and first <= (at := places.get(maker.index, -1)) and (at - first) // period == step - 1
            for maker in makers
        ):
            linked.add(step)
    return len(linked) >= (end - first) // period - 1


# -- folding them -----------------------------------------------------------------------------------------------------


class _Loop:
    def __init__(self, live: Sequence[RecordedCall], first: int, last: int, period: int) -> None:
        self.members = list(live[first:last])
        self.first, self.last = first, last
        self.steps = (last - first) // period
        head = self.members[0]
        # The innermost module that all of them are in.
        parts = zip(*(call.module.split(".") for call in self.members), strict=False)
        shared = [each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, parts)]
        self.call = RecordedCall(head.index, TARGET, ".".join(shared), head.backward, [], "")

    def partner(self, partners: dict[int, RecordedCall], inside: dict[int, RecordedCall]) -> RecordedCall | None:
        """The forward call, or loop, that most of the loop's backward calls belong to."""
        found = (partners[call.index] for call in self.members if call.index in partners)
        most = Counter(inside.get(call.index, call) for call in found).most_common(1)
        return most[0][0] if most else None

    def absorb(self, live: Sequence[RecordedCall]) -> None:
        """Take in the calls that put the results of the steps together."""
        mine = {call.index for call in self.members}
        before = live[self.first].index
        limit = min(len(live), self.last + _LONGEST)
        for call in live[self.last : limit]:
            makers = [read.value.call for read in call.reads]
            known = [maker.index for maker in makers if maker is not None and not maker.constant]
            gathers = call.backward == self.call.backward and sum(index in mine for index in known) >= self.steps // 2
            if gathers and all(index in mine or index < before for index in known):
                self.members.append(call)
                mine.add(call.index)

    def finish(self, inside: dict[int, RecordedCall]) -> None:
        """Set what the loop reads and costs."""
        call, members = self.call, self.members
        call.flops = sum(member.flops for member in members)
        call.bytes_read = sum(member.bytes_read for member in members)
        call.bytes_written = sum(member.bytes_written for member in members)
        call.launches = len(members)
        call.dtype = max(members, key=lambda member: (member.flops, member.bytes_read + member.bytes_written)).dtype
        regions: dict[Value, dict[Geometry, Read]] = {}
        for member in members:
            for read in member.reads:
                maker = read.value.call
                if maker is None or inside.get(maker.index) is not call:
                    regions.setdefault(read.value, {}).setdefault(read.layout.geometry, read)
        for value, reads in regions.items():
            whole = len(reads) > 1 or next(iter(reads.values())).bytes >= value.layout.bytes
            call.reads.append(Read(value, value.layout) if whole else next(iter(reads.values())))

    def write(self, readers: dict[Value, frozenset[int]], calls: dict[int, RecordedCall]) -> None:
        """Set what the loop makes: what others read of it, the many arrays that go the same way as one."""
        ways: dict[frozenset[int], list[Value]] = {}
        for member in self.members:
            for value in member.writes:
                value.call = self.call
                if value not in readers:
                    continue
                if value.home is not None or -1 in readers[value]:
                    self._keep(value)
                else:
                    ways.setdefault(readers[value], []).append(value)
        for way, values in ways.items():
            many = len(values) >= _MANY
            size = sum(value.layout.bytes for value in values)
            joined = Value(self.call, None, ByteLayout((0, ((size, 1),)), (size,), "uint8"))
            for value in [joined] if many else values:
                self._keep(value)
            gone = set(values)
            for index in way if many else ():
                reader = calls[index]
                reader.reads = [read for read in reader.reads if read.value not in gone]
                reader.reads.append(Read(joined, joined.layout))

    def _keep(self, value: Value) -> None:
        value.order = len(self.call.writes)
        self.call.writes.append(value)


def _readers(capture: Capture, calls: Iterable[RecordedCall]) -> dict[Value, frozenset[int]]:
    """Numbers of the calls that read each value; -1 stands for the model's results."""
    found: dict[Value, set[int]] = {}
    for call in calls:
        for read in call.reads:
            found.setdefault(read.value, set()).add(call.index)
    for read in (*capture.outputs, *(read for _, read in capture.gradients)):
        found.setdefault(read.value, set()).add(-1)
    return {value: frozenset(numbers) for value, numbers in found.items()}
