"""What each piece of a split does for a microbatch: its calls in order, what it gets from others, and what it hands on.

Views are taken, and constants made, by whoever needs them; inputs and weights are there. Everything else comes from the
piece that made it, straight from there. A tensor goes whole unless only smaller views of it are needed and nobody
writes it in place.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from partita.execution.places import ANYWHERE, NOWHERE, PlacedTape, makers_of
from partita.frontends.tape import Tape
from partita.ground.errors import InputError


class HandedTensor(NamedTuple):
    """What one piece hands to others: a slot at a version of its storage."""

    slot: int
    version: int


@dataclass(frozen=True)
class Line:
    """One line of a piece's program."""

    #: ``call`` (an entry), ``origin`` (a stored array, an input or a constant), ``receive``, ``keep`` (for others, as
    #: it is now), or ``own`` (a copy of what was received, because it will be written).
    what: str
    #: What it is about.
    slot: int = -1
    entry: int = -1
    version: int = 0
    constant: bool = False  #: Whether it comes out the same for every microbatch.


@dataclass
class PlanPiece:
    """The program of a piece."""

    lines: list[Line] = field(default_factory=list)  #: In order.
    #: Tensors by the piece that they come from, and by those that they go to.
    receives: dict[int, list[HandedTensor]] = field(default_factory=dict)
    sends: dict[int, list[HandedTensor]] = field(default_factory=dict)
    #: By place among the model's results the slot that holds it here at the end.
    outputs: dict[int, int] = field(default_factory=dict)
    loss: int | None = None  #: The slot of the loss, if it is made here.
    arrays: list[str] = field(default_factory=list)  #: Names of the stored arrays that it reads.

    @property
    def kept(self) -> list[HandedTensor]:
        """Everything that goes to others, once."""
        return list(dict.fromkeys(tensor for tensors in self.sends.values() for tensor in tensors))


def make_pieces(placed: PlacedTape) -> list[PlanPiece]:
    """The programs of all pieces.

    Raises ``InputError`` if a stored array is used in a version that is elsewhere.
    """
    first = _Writer(placed, {})
    first.write()
    return _Writer(placed, first.chosen()).write()


class _Family:
    """The tensors on one storage that a piece has, at one version of it."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.slots: set[int] = set()


class _Writer:
    """Goes through the tape once and writes all programs side by side."""

    def __init__(self, placed: PlacedTape, whole: dict[tuple[int, int], bool]) -> None:
        self.placed, self.tape, self.whole = placed, placed.tape, whole
        self.makers = makers_of(placed.tape)
        self.base = _bases(placed.tape)
        self.pieces = [PlanPiece() for _ in range(placed.pieces)]
        self.families: list[dict[int, _Family]] = [{} for _ in self.pieces]
        self.wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.steady = self._steady()
        self.asked = _asked(placed)

    def _steady(self) -> set[int]:
        """Storages whose content does not depend on the microbatch, nor on what a step changes."""
        tape, placed = self.tape, self.placed
        changing = {tape.slots[slot].storage for slot, origin in tape.origins.items() if origin.kind != "constant"}
        before = -1
        while len(changing) > before:
            before = len(changing)
            for number, entry in enumerate(tape.entries):
                reads = {tape.slots[slot].storage for slot in entry.reads}
                if placed.place[number] != ANYWHERE or reads & changing:
                    changing |= {tape.slots[slot].storage for slot in (*entry.writes, *entry.outs) if slot is not None}
        return {slot.storage for slot in tape.slots} - changing

    def write(self) -> list[PlanPiece]:
        for number, place in enumerate(self.placed.place):
            if place >= 0:
                self._call(place, number)
        self._results()
        for source, piece in enumerate(self.pieces):
            for tensor in piece.kept:
                if not self._overwritten(tensor):
                    self._have(source, tensor.slot, tensor.version)
                    piece.lines.append(Line("keep", tensor.slot, version=tensor.version))
        return self.pieces

    def chosen(self) -> dict[tuple[int, int], bool]:
        """For every piece and storage that it gets from elsewhere, whether to send all of it."""
        found = {}
        for (piece, storage), slots in self.wanted.items():
            base = self.tape.slots[self.base[storage]]
            narrow = {self._narrowest(slot) for slot in slots}
            found[piece, storage] = sum(self.tape.slots[slot].numel for slot in narrow) >= base.numel
        return found

    def _narrowest(self, slot: int) -> int:
        """The smallest tensor on the way from a storage's first one to a view of it, the earliest of equals."""
        best = slot
        while slot in self.makers and slot != self.base[self.tape.slots[slot].storage]:
            parents = [s for s in self.tape.entries[self.makers[slot]].reads if self._together(s, slot)]
            if not parents:
                break
            slot = parents[0]
            if self.tape.slots[slot].numel <= self.tape.slots[best].numel:
                best = slot
        return best

    def _together(self, a: int, b: int) -> bool:
        return self.tape.slots[a].storage == self.tape.slots[b].storage

    # -- lines ----------------------------------------------------------------------------------------------------

    def _call(self, piece: int, number: int) -> None:
        """A call of a piece's own, or one that it makes for itself."""
        entry = self.tape.entries[number]
        for slot in dict.fromkeys(entry.reads):
            self._need(piece, slot, self.placed.version[number][slot])
        families = self.families[piece]
        touched = {self.tape.slots[slot].storage for slot in (*entry.outs, *entry.writes) if slot is not None}
        lines = self.pieces[piece].lines
        lines.append(Line("call", entry=number, constant=touched <= self.steady))
        for storage in {self.tape.slots[slot].storage for slot in entry.writes}:
            families[storage].version += 1
        for out in entry.outs:
            if out is not None:
                families.setdefault(self.tape.slots[out].storage, _Family(0)).slots.add(out)
        for storage in touched:
            tensor = HandedTensor(self.base[storage], families[storage].version)
            if self._overwritten(tensor) and (piece, storage, tensor.version) in self.asked:
                lines.append(Line("keep", tensor.slot, version=tensor.version))

    def _overwritten(self, tensor: HandedTensor) -> bool:
        return self.placed.final[self.tape.slots[tensor.slot].storage] > tensor.version

    def _need(self, piece: int, slot: int, version: int) -> None:
        """See to it that a slot is there at a version for a call of the piece's own."""
        storage = self.tape.slots[slot].storage
        if self._elsewhere(piece, storage):
            self.wanted[piece, storage].add(slot)
        self._have(piece, slot, version)

    def _elsewhere(self, piece: int, storage: int) -> bool:
        """Whether a storage is written once, by another piece."""
        writer = self.placed.writers[storage][0]
        place = ANYWHERE if writer is None else self.placed.place[writer]
        return place >= 0 and place != piece and self.placed.final[storage] == 0

    def _have(self, piece: int, slot: int, version: int) -> None:
        storage = self.tape.slots[slot].storage
        family = self.families[piece].get(storage)
        if family is not None and family.version == version and slot in family.slots:
            return
        if family is None or family.version != version:
            self._bring(piece, slot, version)
            family = self.families[piece][storage]
        if self._elsewhere(piece, storage) and not self.whole.get((piece, storage), True):
            narrow = self._narrowest(slot)
            if narrow not in family.slots:
                self._receive(piece, narrow, version, family)
        if slot in family.slots:
            return
        if slot not in self.makers:
            raise InputError(f"a tensor of shape {list(self.tape.slots[slot].shape)} is not there when it is needed")
        if slot in self._created(storage):
            # Another result of the call that made what was sent as its first: that is sent, too.
            self._receive(piece, slot, version, family)
            return
        parents = [s for s in self.tape.entries[self.makers[slot]].reads if self._together(s, slot)]
        for parent in parents:
            self._have(piece, parent, version)
        self._view(piece, self.makers[slot])

    def _created(self, storage: int) -> set[int]:
        first = self.placed.writers[storage][0]
        outs = () if first is None else self.tape.entries[first].outs
        return {slot for slot in outs if slot is not None and self.tape.slots[slot].storage == storage}

    def _view(self, piece: int, number: int) -> None:
        entry = self.tape.entries[number]
        storage = self.tape.slots[next(slot for slot in entry.outs if slot is not None)].storage
        self.pieces[piece].lines.append(Line("call", entry=number, constant=storage in self.steady))
        self.families[piece][storage].slots |= {slot for slot in entry.outs if slot is not None}

    def _bring(self, piece: int, slot: int, version: int) -> None:
        """Get a storage at a version: from what is there, by making it here, or from its writer."""
        storage = self.tape.slots[slot].storage
        writer = self.placed.writers[storage][version]
        if writer is None:
            base = self.base[storage]
            origin = self.tape.origins[base]
            self.pieces[piece].lines.append(Line("origin", base, constant=storage in self.steady))
            if origin.kind in ("parameter", "buffer") and origin.name not in self.pieces[piece].arrays:
                self.pieces[piece].arrays.append(origin.name)
            family = self.families[piece][storage] = _Family(0)
            family.slots.add(base)
            return
        place = self.placed.place[writer]
        if place == ANYWHERE:
            if version > 0:
                self._have(piece, self.base[storage], version - 1)
            self._call(piece, writer)
            return
        if place == piece:
            raise InputError(f"a version of a tensor of shape {list(self.tape.slots[slot].shape)} was overwritten")
        family = self.families[piece][storage] = _Family(version)
        whole = not self._elsewhere(piece, storage) or self.whole.get((piece, storage), True)
        self._receive(piece, self.base[storage] if whole else self._narrowest(slot), version, family)

    def _receive(self, piece: int, slot: int, version: int, family: _Family) -> None:
        storage = self.tape.slots[slot].storage
        writer = self.placed.writers[storage][version]
        assert writer is not None
        source = self.placed.place[writer]
        tensor = HandedTensor(slot, version)
        self.pieces[piece].lines.append(Line("receive", slot, version=version))
        later = self.placed.writers[storage][version + 1 :]
        if any(number is not None and self.placed.place[number] == piece for number in later):
            self.pieces[piece].lines.append(Line("own", slot, version=version))
        self.pieces[piece].receives.setdefault(source, []).append(tensor)
        self.pieces[source].sends.setdefault(piece, []).append(tensor)
        family.slots.add(slot)

    def _results(self) -> None:
        """What the model returns, where it is made; what is there anyway is on the first piece."""
        for place, slot in enumerate(self.tape.outputs):
            self.pieces[self._end(slot)].outputs[place] = slot
        if self.tape.loss is not None:
            self.pieces[self._end(self.tape.loss)].loss = self.tape.loss

    def _end(self, slot: int) -> int:
        storage = self.tape.slots[slot].storage
        version = self.placed.final[storage]
        writer = self.placed.writers[storage][version]
        piece = 0 if writer is None else max(0, self.placed.place[writer])
        self._need(piece, slot, version)
        return piece


def _asked(placed: PlacedTape) -> set[tuple[int, int, int]]:
    """Versions that pieces read of storages that others write: (piece that made it, storage, version)."""
    place, found = placed.place, set()
    for number, row in enumerate(placed.version):
        for slot, version in row.items():
            storage = placed.tape.slots[slot].storage
            made = placed.writers[storage][version]
            if made is not None and place[made] >= 0 and place[number] not in (place[made], NOWHERE):
                found.add((place[made], storage, version))
    return found


def _bases(tape: Tape) -> dict[int, int]:
    """The first tensor of every storage: where it comes from, or the first result of the call that makes it."""
    found: dict[int, int] = {}
    for slot in tape.origins:
        found.setdefault(tape.slots[slot].storage, slot)
    for entry in tape.entries:
        for out in entry.outs:
            if out is not None:
                found.setdefault(tape.slots[out].storage, out)
    return found
