"""Guests of a chain: what is left out of it, waits for one separator, and is waited for inside a block after it.

Such are the keys and values that decoder layers make of the encoder's result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.makespan.pieces import GuestArrays
from partita.problems.makespan.bounds.tables import Piece
from partita.problems.makespan.separators import Block
from partita.problems.makespan.thinning import Thinned


@dataclass(frozen=True)
class Guest:
    """An operator that is left out, and its edges from the source and to a reader in a block."""

    operator: int
    block: int
    reader: int  #: By its number in the whole problem.
    read: int  #: The flow from the source.
    given: int  #: The flow to the reader.


def guests_of(thinned: Thinned) -> tuple[int, list[Guest]]:
    """The separator, by its place, that most of what is left out waits for, by memory, and these, by their blocks.

    The place is −1 where there are none.
    """
    whole, chain = thinned.whole, thinned.chain
    inner = {v: place for place, v in enumerate(thinned.kept)}
    separator = {s: place for place, s in enumerate(chain.separators)}
    block = {v: number for number, one in enumerate(chain.blocks) for v in one.members}
    group = whole.arrays.group
    found: dict[int, list[Guest]] = {}
    for v in thinned.left_out:
        reads = [(separator[inner[u]], f) for u, f in whole.before[v] if f >= 0 and inner.get(u) in separator]
        given = [(block[inner[w]], w, f) for w, f in whole.after[v] if f >= 0 and inner.get(w) in block]
        alone = int((group.of == group.of[v]).sum()) == 1
        if alone and reads and given and min(given)[0] > max(reads)[0]:
            source, read = max(reads)
            number, reader, gift = min(given)
            found.setdefault(source, []).append(Guest(v, number, reader, read, gift))
    if not found:
        return -1, []
    source = max(found, key=lambda s: sum(float(whole.arrays.memory[one.operator]) for one in found[s]))
    return source, sorted(found[source], key=lambda one: one.block)


def after_guest(thinned: Thinned, guest: Guest) -> Floats:
    """(D, D + 1) From when a guest has what it reads, by its device, to the end of its block, by that of the end.

    Infinite where that cannot be.
    """
    whole, read = thinned.whole, _after_readers(thinned, guest)
    arrives = (whole.arrays.cost[guest.given][:, :, None] + read).min(axis=1)
    found: Floats = whole.arrays.time[guest.operator][:, None] + arrives
    return found


def place_of(thinned: Thinned, guest: Guest) -> int:
    """Of its reader among the operators of its block."""
    return thinned.chain.blocks[guest.block].operators.index(thinned.kept.index(guest.reader))


def _after_readers(thinned: Thinned, guest: Guest) -> Floats:
    """(D, D + 1) From the start of a guest's reader, by its device, to the end of its block, by that of the end."""
    block, place, devices = thinned.chain.blocks[guest.block], place_of(thinned, guest), thinned.whole.devices
    found = np.full((devices, devices + 1), math.inf)
    for t in range(devices) if block.exit >= 0 else (devices,):
        inner = block.at(0, t)
        found[:, t] = np.where(inner.able[place], inner.arrays.time[place] + inner.arrays.tail[place], math.inf)
    return found


class Guests:
    """Guests of one separator for annealing pieces, where items are what is left out by classes."""

    def __init__(self, thinned: Thinned, far: float) -> None:
        """``far`` is for what cannot be."""
        source, guests = guests_of(thinned)
        whole, devices, count = thinned.whole, thinned.whole.devices, len(guests)
        a, item = whole.arrays, {g: place for place, g in enumerate(thinned.out_groups)}
        read, given, own = ([getattr(one, name) for one in guests] for name in ("read", "given", "operator"))
        places = [place_of(thinned, one) for one in guests]
        after = np.array([_after_readers(thinned, one) for one in guests]).reshape(count, devices, devices + 1)
        #: Places of their readers in blocks.
        self.places = sorted(set(places))
        self.arrays = GuestArrays(
            source=source + 1,
            item=np.array([item[int(a.group.of[v])] for v in own], dtype=np.int64),
            block=np.array([one.block for one in guests], dtype=np.int64),
            reader=np.array([self.places.index(place) for place in places], dtype=np.int64),
            time=np.where(whole.able[own], a.time[own], far),
            sends=a.cost[read],
            gives=a.cost[given],
            after=np.where(np.isfinite(after), after, far),
            serial=np.array(a.serial[1:]),
        )

    def reads(self, block: Block, piece: Piece | None, elsewhere: int) -> list[int]:
        """Where the readers of a block are in its schedule, if there is one."""
        count = len(block.operators)
        if piece is None:
            return [max(elsewhere, 0)] * len(self.places)
        return [piece.device[place] if place < count else 0 for place in self.places]
