"""Which stage makes each call of a tape, and in what pieces a split runs that is not a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from partita.frontends.tape import Tape
from partita.ground.errors import InputError

#: Made by whoever needs it: views of what is there, and constants.
ANYWHERE = -1
#: Made by nobody: nothing that is asked for depends on it.
NOWHERE = -2


@dataclass(frozen=True)
class PlacedTape:
    """A tape with the place of every call."""

    tape: Tape  #: The calls.
    place: list[int]  #: For every entry its piece, ``ANYWHERE`` or ``NOWHERE``.
    pieces: int  #: Number of pieces: those of the plan, once for every round.
    rounds: int  #: How often a microbatch passes the pipeline.
    #: For every entry and slot that it reads how often the slot's storage was written before.
    version: list[dict[int, int]]
    final: dict[int, int]  #: How often each storage is written in all.
    #: For every storage the entries that write it: first the one that makes it (None if it is there from the start).
    writers: dict[int, list[int | None]]


def place_calls(
    tape: Tape, constant: Sequence[bool], modules: Sequence[str], stage_of: Mapping[int, int], stages: int
) -> PlacedTape:
    """Place every call of the model's forward part; ``stage_of`` are those that the plan places, on so many ``stages``.

    By number of a call in the capture: whether it is ``constant``, so that any device can make it, and the module that
    makes it. Raises ``InputError`` if an array of the model is written on one stage and read on another.
    """
    history = _History(tape)
    place, level = _assign(history, constant, modules, stage_of, _needed(history))
    rounds = 1 + max(level, default=0)
    place = [p if p < 0 else depth * stages + p for p, depth in zip(place, level, strict=True)]
    placed = PlacedTape(tape, place, rounds * stages, rounds, history.version, history.final, history.writers)
    _check_arrays(placed)
    return placed


class _History:
    """What entries read and write: ``version``, ``final`` and ``writers`` of a ``PlacedTape``."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.makers = tape, makers_of(tape)
        self.writers: dict[int, list[int | None]] = {tape.slots[slot].storage: [None] for slot in tape.origins}
        self.version: list[dict[int, int]] = []
        for number, entry in enumerate(tape.entries):
            self.version.append({v: len(self.writers.get(tape.slots[v].storage, ())) - 1 for v in entry.reads})
            for storage in {tape.slots[slot].storage for slot in entry.writes}:
                self.writers[storage].append(number)
            for slot in entry.outs:
                if slot is not None:
                    self.writers.setdefault(tape.slots[slot].storage, [number])
        self.final = {storage: len(row) - 1 for storage, row in self.writers.items()}

    def sources(self, slot: int, version: int) -> list[int]:
        """The entries that a version of a slot comes from: the writers of its storage so far, and its own maker."""
        row = [number for number in self.writers[self.tape.slots[slot].storage][: version + 1] if number is not None]
        return [*row, self.makers[slot]] if slot in self.makers else row

    def before(self, number: int) -> list[int]:
        return [n for slot, version in self.version[number].items() for n in self.sources(slot, version)]


def makers_of(tape: Tape) -> dict[int, int]:
    """The first entry that returns each slot."""
    found: dict[int, int] = {}
    for number, entry in enumerate(tape.entries):
        for slot in entry.outs:
            if slot is not None and slot not in tape.origins:
                found.setdefault(slot, number)
    return found


def _needed(history: _History) -> set[int]:
    """Entries that the results, or new contents of stored arrays, depend on."""
    tape = history.tape
    results = [*tape.outputs, *([] if tape.loss is None else [tape.loss])]
    pending = [n for slot in results for n in history.sources(slot, history.final[tape.slots[slot].storage])]
    for slot, origin in tape.origins.items():
        if origin.kind in ("parameter", "buffer"):
            pending += [number for number in history.writers[tape.slots[slot].storage] if number is not None]
    found: set[int] = set()
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            pending += history.before(number)
    return found


def _assign(
    history: _History, constant: Sequence[bool], modules: Sequence[str], stage_of: Mapping[int, int], needed: set[int]
) -> tuple[list[int], list[int]]:
    """Stage and round of every entry: a round ends where what is needed comes from a later stage."""
    place: list[int] = []
    level: list[int] = []
    last: dict[str, int] = {}
    for number, entry in enumerate(history.tape.entries):
        # What a call waits for, through everything that is made anywhere.
        waits: list[tuple[int, int]] = []
        seen: set[int] = set()
        pending = history.before(number)
        while pending:
            source = pending.pop()
            if source in seen or source >= number:
                continue
            seen.add(source)
            if place[source] >= 0:
                waits.append((level[source], place[source]))
            elif place[source] == ANYWHERE:
                pending += history.before(source)
        view = entry.call is None and not entry.writes
        stage = ANYWHERE if view else NOWHERE if number not in needed else None
        if stage is None and entry.call is not None and entry.call in stage_of:
            stage = stage_of[entry.call]
        if stage is None and not entry.random and not waits and (entry.call is None or constant[entry.call]):
            stage = ANYWHERE
        if stage is None:
            # What the plan does not know, such as running statistics, is where its module works, or its inputs are.
            module = "" if entry.call is None else modules[entry.call]
            stage = last.get(module, max(waits)[1] if waits else 0)
        if stage >= 0 and entry.call is not None:
            last[modules[entry.call]] = stage
        place.append(stage)
        level.append(max((depth + (other > stage) for depth, other in waits), default=0) if stage >= 0 else 0)
    return place, level


def _check_arrays(placed: PlacedTape) -> None:
    tape = placed.tape
    for slot, origin in tape.origins.items():
        storage = tape.slots[slot].storage
        written = {placed.place[n] for n in placed.writers[storage] if n is not None}
        if not written or origin.kind not in ("parameter", "buffer"):
            continue
        read = {
            placed.place[number]
            for number, row in enumerate(placed.version)
            if placed.place[number] >= 0 and any(tape.slots[s].storage == storage for s in row)
        }
        if len(written | read) > 1:
            raise InputError(
                f"{origin.kind} {origin.name!r} is written on one stage and used on another, stages "
                f"{', '.join(map(str, sorted(written | read)))}; plan the model so that they share a device"
            )
