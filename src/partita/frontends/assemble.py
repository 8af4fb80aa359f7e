"""Turn a capture into a Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.frontends.loops import fold_loops
from partita.frontends.records import ByteLayout, Capture, Geometry, Read, RecordedCall, Value
from partita.frontends.views import TensorPart, find_partners, fold, live_calls, region
from partita.ground.errors import TraceError
from partita.ground.units import format_bytes
from partita.nouns.graph import GRADIENT_PREFIX, Graph, Operator, Parameter, Tensor

if TYPE_CHECKING:
    from partita.frontends.tape import Tape

#: What an operator has of its call as it is.
_MEASURED = set(Operator.__struct_fields__).intersection(RecordedCall.__slots__) - {"module"}
_ATTENTION_NOTE = (
    "Attention's backward counts four products; the scores that fused kernels compute once more are not counted."
)


def assemble(capture: Capture, name: str, training: bool, tape: Tape | None = None) -> tuple[Graph, list[int | None]]:
    """The graph of what outputs and gradients depend on, and of every operator the number of its call; None for slices.

    Loops are folded, in the capture and on the ``tape``. Nothing but constants, and a used trainable parameter without
    a gradient, is a ``TraceError``.
    """
    _own_gradients(capture)
    live = live_calls(capture)
    if not live:
        raise TraceError(f"model {name!r} computes nothing from its inputs or parameters; there is nothing to split")
    _check_gradients(capture, live)
    live, folded = fold_loops(capture, live)
    for entry in () if tape is None else tape.entries:
        entry.call = folded.get(entry.call, entry.call) if entry.call is not None else None
    table = fold(live, capture.outputs, (read for _, read in capture.gradients))
    builder = _Builder(capture, live, table)
    calls = [step.index if isinstance(step, RecordedCall) else None for step in builder.steps]
    return builder.graph(name, training), calls


def _own_gradients(capture: Capture) -> None:
    """Give a gradient that is a constant, a stored array or a forward value a backward call of its own."""
    for number, (stored, read) in enumerate(capture.gradients):
        maker = read.value.call
        if maker is not None and maker.backward and not maker.constant:
            continue
        reads = [] if read.value.constant else [read]
        calls = capture.calls
        call = RecordedCall(
            len(calls), "partita.gradient.default", "", True, reads, stored.dtype, bytes_written=stored.bytes
        )
        call.bytes_read = sum(min(stored.bytes, r.value.layout.bytes) for r in reads)
        calls.append(call)
        users = (c for c in calls if not c.backward and any(r.value.stored is stored for r in c.reads))
        call.partner = next(users, None)
        value = Value(call, None, ByteLayout((0, ((stored.bytes, 1),)), stored.shape, stored.dtype))
        call.writes.append(value)
        capture.gradients[number] = stored, Read(value, value.layout)


def _check_gradients(capture: Capture, live: list[RecordedCall]) -> None:
    if not capture.gradients:
        return
    have = {id(stored) for stored, _ in capture.gradients}
    users: dict[int, str] = {}
    for call in live:
        for read in call.reads:
            users.setdefault(id(read.value.stored), call.target)
    missing = [s for s in capture.stored if s.trainable and id(s) in users and id(s) not in have]
    if missing:
        first = missing[0]
        raise TraceError(
            f"parameter {first.name!r} is used (by {users[id(first)]}) but gets no gradient, and {len(missing) - 1} "
            "more like it; if that is meant, freeze it with requires_grad_(False)"
        )


class _Builder:
    def __init__(
        self, capture: Capture, live: list[RecordedCall], table: dict[Value, dict[Geometry, TensorPart]]
    ) -> None:
        self.capture = capture
        self.table = table
        self.partners = find_partners(capture, live)
        self.taken = {stored.name for stored in capture.stored if stored.kind == "input"}
        self.counts: dict[str, int] = {}
        self.steps = self._order(live)
        self.place = {id(step): index for index, step in enumerate(self.steps)}
        self.together = {} if capture.gradients else self._together()

    def _together(self) -> dict[int, int]:
        """Operators that touch an array that is written in place, which is on one device, with the first of them."""
        written = {id(value.home) for call in self.capture.calls for value in call.writes if value.home is not None}
        first: dict[int, int] = {}
        roots: dict[int, int] = {}

        def root(place: int) -> int:
            while place in roots:
                place = roots[place]
            return place

        for place, step in enumerate(self.steps):
            for read in step.reads if isinstance(step, RecordedCall) else [step]:
                stored = id(read.value.home or read.value.stored)
                if stored in written:
                    a, b = sorted((root(place), root(first.setdefault(stored, place))))
                    if a != b:
                        roots[b] = a
        return {place: root(place) for place in roots}

    def _order(self, live: list[RecordedCall]) -> list[RecordedCall | TensorPart]:
        """Live calls with the free slices, each just before its first reader."""
        slices = [piece for pieces in self.table.values() for piece in pieces.values() if piece.slice]
        before: dict[int, list[TensorPart]] = {}
        for piece in slices:
            if piece.consumers:
                before.setdefault(piece.consumers[0].index, []).append(piece)
        steps: list[RecordedCall | TensorPart] = []
        for call in live:
            steps.extend(before.get(call.index, ()))
            steps.append(call)
        # A slice that only the result reads follows its maker, so that forward stays before backward.
        for piece in (each for each in slices if not each.consumers):
            maker = piece.value.call
            steps.insert(0 if maker is None else next(i for i, s in enumerate(steps) if s is maker) + 1, piece)
        return steps

    def graph(self, name: str, training: bool) -> Graph:
        operators = tuple(self._operator(place, step) for place, step in enumerate(self.steps))
        parameters = self._parameters()
        notes = list(self.capture.notes)
        if any(op.target.startswith("aten.scaled_dot_product_attention_backward") for op in operators):
            notes.append(_ATTENTION_NOTE)
        idle = [p for p in parameters if not p.users and not p.buffer]
        if idle:
            size = format_bytes(sum(p.bytes for p in idle))
            shown = ", ".join(p.name for p in idle[:3]) + (", …" if len(idle) > 3 else "")
            notes.append(
                f"No operator reads {len(idle)} of the weights ({size}: {shown}); they are stored on no device."
            )
        return Graph(
            name=name,
            operators=operators,
            tensors=self._tensors([op.name for op in operators]),
            parameters=parameters,
            modules=self.capture.modules,
            training=training,
            notes=tuple(notes),
        )

    def _unique(self, base: str) -> str:
        while True:
            count = self.counts.get(base, 0)
            self.counts[base] = count + 1
            name = f"{base}_{count}" if count else base
            if name not in self.taken:
                self.taken.add(name)
                return name

    def _operator(self, place: int, step: RecordedCall | TensorPart) -> Operator:
        call = step if isinstance(step, RecordedCall) else step.consumers[0] if step.consumers else step.value.call
        # What runs backward, and nothing else, has a partner.
        partner = None if call is None else self.partners.get(call.index)
        home = partner or call
        common: dict[str, Any] = {
            "module": "" if home is None else home.module,
            "phase": "forward" if partner is None else "backward",
            "colocation": self.together.get(place) if partner is None else self.place[id(partner)],
        }
        if isinstance(step, TensorPart):
            target, dtype = "partita.slice.default", step.layout.dtype
            return Operator(name=self._unique("slice"), target=target, dtype=dtype, free=True, **common)
        measured = {field: getattr(step, field) for field in _MEASURED}
        return Operator(name=self._unique(step.target.split(".")[1]), **measured, **common)

    def _producer(self, piece: TensorPart) -> int | None:
        if piece.slice:
            return self.place[id(piece)]
        call = piece.value.call
        return None if call is None else self.place[id(call)]

    def _tensors(self, names: list[str]) -> tuple[Tensor, ...]:
        tensors = [
            Tensor(
                name=GRADIENT_PREFIX + stored.name,
                producer=self._producer(self.table[read.value][region(read).geometry]),
                shape=stored.shape,
                dtype=stored.dtype,
                bytes=stored.bytes,
            )
            for stored, read in self.capture.gradients
        ]
        for value, pieces in self.table.items():
            split = 0
            slices = [self.place[id(piece)] for piece in pieces.values() if piece.slice]
            for piece in pieces.values():
                readers = {self.place[id(call)] for call in piece.consumers}
                if piece.whole:
                    readers.update(slices)
                if not readers and not piece.output:
                    continue
                producer = self._producer(piece)
                if value.stored is not None and not piece.slice:
                    name = value.stored.name
                else:
                    assert producer is not None
                    name = names[producer]
                    if not piece.slice:
                        name += f".{value.order}" if value.order else ""
                        name += "" if piece.whole else f"[{split}]"
                        split += not piece.whole
                tensors.append(
                    Tensor(
                        name=name,
                        producer=producer,
                        consumers=tuple(sorted(readers)),
                        shape=piece.layout.shape,
                        dtype=piece.layout.dtype,
                        bytes=piece.bytes,
                        stored=None if value.home is None or piece.slice else value.home.name,
                    )
                )
        return tuple(sorted(tensors, key=lambda t: -1 if t.producer is None else t.producer))

    def _parameters(self) -> tuple[Parameter, ...]:
        users: dict[int, set[int]] = {}
        for index, step in enumerate(self.steps):
            if isinstance(step, RecordedCall):
                for read in step.reads:
                    if read.value.stored is not None:
                        users.setdefault(id(read.value.stored), set()).add(index)
        return tuple(
            Parameter(
                name=stored.name,
                aliases=stored.aliases,
                shape=stored.shape,
                dtype=stored.dtype,
                bytes=stored.bytes,
                users=tuple(sorted(users.get(id(stored), ()))),
                trainable=stored.trainable,
                buffer=stored.kind == "buffer",
            )
            for stored in self.capture.stored
            if stored.kind != "input"
        )
