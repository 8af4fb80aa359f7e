"""Shortest paths of a chain of blocks whose entries together keep to the memory of devices, by labels.

A label is the start of a path: what it takes, what devices hold, and where it ends. Labels that end on one device and
hold about the same are one *cell*. To prove something all labels stay, or are merged into one that takes and holds no
more than either: then the best label at the end takes no more than any path. For plans a cell has only its best label.

*Guests* are operators beside the chain that wait for one separator, the *source*, and are waited for inside a block.
Their stages come just after this block, and say on which device each of them is. What the source sends to guests
elsewhere leaves its device one by one, so that the last of these has it no earlier than all of it takes.

Of devices that can change places, a merged label is renumbered: the one where it ends is the first, then that of the
source, and the rest follow by what they hold. Options that begin on the first ones are enough then.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.ground.rounding import SUMMED

#: What a stage is: a block, the block before the source, or a guest.
BLOCK, SOURCE, GUEST = 0, 1, 2
#: Numbers of a label: what it takes, when all is sent to guests, what it takes with what it holds paid for, when the
#: source ends, how much later than that, at least, the first is met of those guests that something is sent to, and what
#: is paid for what it holds. Merged labels have the least of each.
_TAKES, _SENT, _PAID, _SOURCE, _MET, _HOLDS = range(6)
#: For numbers of cells.
_SPREAD, _MASK = 1_000_003, (1 << 40) - 1


class StageArrays(NamedTuple):
    """Stages 0, …, K − 1 and their options; D is the device of no end."""

    kind: Longs  #: (K,) What each is.
    ptr: Longs  #: (K + 1,) Where the options of each begin.
    begin: Longs  #: (o,) The device on which an option begins, and that on which it ends.
    end: Longs
    takes: Floats  #: (o,) What it takes, its first end with it.
    paid: Floats  #: (o,) The same with what it holds paid for.
    held: Floats  #: (o, R) What of limited devices it holds.
    sends: Floats  #: (o, D) Of guests: what the source sends to one for so long, by the device of the source.
    after: Floats  #: (o,) Of guests: from when they have that to the end of the block, at least.
    time: Floats  #: (D,) Of the source.
    one_by_one: bool  #: Whether a device sends one thing at a time.
    rest: Floats  #: (K + 1, D + 1) What the rest of a path takes at least, paid for, after so many stages.
    limit: Floats  #: (R,) What devices hold at most.
    width: Floats  #: (R,) What labels of a cell differ by at most in what they hold.
    #: Classes of devices that can change places: where each begins in ``alike``, and of every device its number among
    #: limited ones, −1 without a limit, and the first of its class, or itself, D for D.
    alike_ptr: Longs
    alike: Longs
    place: Longs
    first: Longs


class LabelArrays(NamedTuple):
    """So many labels, and the cells they are in."""

    number: Floats  #: (labels, 6)
    held: Floats  #: (labels, R)
    #: (labels,) Where it ends; the device of the source, −1 before it, and D more once something is sent to guests.
    device: Longs
    source: Longs
    cell: Longs  #: (labels,) The number of its cell.
    next: Longs  #: (labels,) The next one of its cell, or −1.


def new_labels(count: int, limited: int) -> LabelArrays:
    """Room for so many, with as many limited devices."""
    longs = np.zeros((4, count), dtype=np.int64)
    return LabelArrays(np.zeros((count, 6)), np.zeros((count, limited)), longs[0], longs[1], longs[2], longs[3])


@inlined
def _extend(s: StageArrays, old: LabelArrays, x: int, k: int, o: int, number: Floats) -> int:
    """A label with one more option: its numbers; the device of the source."""
    for j in range(number.shape[0]):
        number[j] = old.number[x, j]
    number[_TAKES] += s.takes[o]
    number[_PAID] += s.paid[o]
    number[_HOLDS] += s.paid[o] - s.takes[o]
    source: int = old.source[x]
    devices = s.time.shape[0]
    if s.kind[k] == SOURCE:
        source = s.end[o]
        number[_SOURCE] = number[_SENT] = number[_TAKES] + s.time[source]
        number[_MET] = math.inf
    elif s.kind[k] == GUEST:
        sent = s.sends[o, source % devices]
        needed = number[_SOURCE] + sent + s.after[o]
        if sent > 0 and s.one_by_one:
            number[_SENT] += sent
            number[_MET] = min(number[_MET], s.after[o])
            source = devices + source % devices
        if source >= devices:
            needed = max(needed, number[_SENT] + number[_MET])
        if needed > number[_TAKES]:
            number[_TAKES] = needed
            number[_PAID] = max(number[_PAID], needed + number[_HOLDS])
    return source


@inlined
def _merge(new: LabelArrays, y: int, number: Floats, held: Floats) -> None:
    """A label that takes and holds no more than it did, nor than another one."""
    for j in range(number.shape[0]):
        new.number[y, j] = min(new.number[y, j], number[j])
    for r in range(held.shape[0]):
        new.held[y, r] = min(new.held[y, r], held[r])


@inlined
def _swap(held: Floats, s: StageArrays, d: int, e: int) -> None:
    """Two devices of a class change what they hold."""
    if s.place[d] >= 0:
        held[s.place[d]], held[s.place[e]] = held[s.place[e]], held[s.place[d]]


@inlined
def _renumber(s: StageArrays, held: Floats, end: int, source: int) -> int:
    """What devices hold with devices of classes in order, the end being the first of its class; the source then."""
    devices = s.time.shape[0]
    home = source % devices if source >= 0 else -1
    for c in range(s.alike_ptr.shape[0] - 1):
        low, high = s.alike_ptr[c], s.alike_ptr[c + 1]
        first = s.alike[low]
        fixed = low
        stays = home >= 0 and s.first[home] == first
        if end < devices and s.first[end] == first:
            _swap(held, s, first, end)
            if stays and home == end:
                home, stays = first, False
            elif stays and home == first:
                home = end
            fixed += 1
        if stays:
            _swap(held, s, s.alike[fixed], home)
            home = s.alike[fixed]
            fixed += 1
        for i in range(fixed + 1, high):
            j = i
            while j > fixed and s.place[first] >= 0 and held[s.place[s.alike[j - 1]]] < held[s.place[s.alike[j]]]:
                _swap(held, s, s.alike[j - 1], s.alike[j])
                j -= 1
    return home if source < devices else devices + home


@inlined
def _no_more(one: Floats, holds: Floats, other: Floats, held: Floats) -> bool:
    """Whether whatever follows takes no more after one label than after another one."""
    found = True
    for j in (_TAKES, _SENT, _SOURCE, _MET):
        found = found and one[j] <= other[j]
    for r in range(held.shape[0]):
        found = found and holds[r] <= held[r]
    return found


@inlined
def _write(new: LabelArrays, y: int, number: Floats, held: Floats) -> None:
    """The numbers of a label, and what it holds."""
    for j in range(number.shape[0]):
        new.number[y, j] = number[j]
    for r in range(held.shape[0]):
        new.held[y, r] = held[r]


@inlined
def _first(table: Longs, new: LabelArrays, cell: int, end: int, source: int) -> int:
    """The place in the table of the cell of a label, whether there is one or not."""
    place: int = cell & (table.shape[0] - 1)
    while table[place] >= 0:
        y = table[place]
        if new.cell[y] == cell and new.device[y] == end and new.source[y] == source:
            break
        place = (place + 1) & (table.shape[0] - 1)
    return place


@compiled
def constrained_paths(
    s: StageArrays,
    below: float,
    each: int,
    merged: bool,
    old: LabelArrays,
    new: LabelArrays,
    parent: Longs,
    path: Longs,
    stop: Longs,
) -> float:
    """The least that a path takes, if that is ``below``, else that; −1 where labels are too many, or told to stop.

    Cells have up to ``each`` labels. If others are ``merged``, no path takes less; else others are dropped, so that
    what is found is a path, perhaps not the best one. ``parent`` (p, 2) has room for what labels come from, and
    ``path`` (K,) gets the options of the best label; nothing is asked of them where ``path`` has no room.
    """
    stages, limited, most = s.ptr.shape[0] - 1, s.held.shape[1], old.device.shape[0]
    size = 1
    while size < 2 * most:
        size *= 2
    table, used = np.full(size, -1, dtype=np.int64), np.empty(most, dtype=np.int64)
    traced = path.shape[0] > 0
    number, held = np.zeros(6), np.zeros(limited)
    row = np.zeros(stages + 2, dtype=np.int64)
    old.number[0] = 0.0
    old.held[0] = 0.0
    old.device[0], old.source[0] = s.rest.shape[1] - 1, -1
    count = 1
    # The options of a stage that begin on a device lie between these; the closer, the faster.
    low, high = np.zeros(s.rest.shape[1], dtype=np.int64), np.zeros(s.rest.shape[1], dtype=np.int64)
    for k in range(stages):
        low[:] = high[:] = 0
        for o in range(s.ptr[k], s.ptr[k + 1]):
            if high[s.begin[o]] == 0:
                low[s.begin[o]] = o
            high[s.begin[o]] = o + 1
        row[k + 1] = row[k] + (count if k > 0 else 0)
        many = cells = 0
        for x in range(count):
            if stop[0] != 0:
                return -1.0
            for o in range(low[old.device[x]], high[old.device[x]]):
                if s.begin[o] != old.device[x]:
                    continue
                end = s.end[o]
                last_end = s.first[end] if merged else end
                source = _extend(s, old, x, k, o, number)
                if number[_TAKES] >= below or number[_PAID] + s.rest[k + 1, last_end] >= below:
                    continue
                cell, fits = 0, True
                for r in range(limited):
                    held[r] = old.held[x, r] + s.held[o, r]
                    fits = fits and held[r] <= s.limit[r] * (1.0 + SUMMED)
                if not fits:
                    continue
                if merged:
                    source, end = _renumber(s, held, end, source), last_end
                for r in range(limited):
                    cell = (cell * _SPREAD + int(held[r] / s.width[r])) & _MASK
                cell = ((cell * _SPREAD + end) * 128 + source + 1) & _MASK
                place = _first(table, new, cell, end, source)
                # What it is no better than, what it is better than, or the last one of a full cell.
                y, last, deep, met, better = table[place], -1, 0, False, False
                while y >= 0 and not met:
                    here = new.number[y]
                    met = _no_more(here, new.held[y], number, held)
                    if not met:
                        better = _no_more(number, held, here, new.held[y])
                        met = better or deep == each - 1
                        better = better or (met and number[_TAKES] < here[_TAKES])
                    if not met:
                        last, y, deep = y, new.next[y], deep + 1
                if met:
                    if merged:
                        _merge(new, y, number, held)
                    elif better:
                        _write(new, y, number, held)
                else:
                    if many == most:
                        return -1.0
                    y, better = many, True
                    many += 1
                    if last < 0:
                        table[place] = y
                        used[cells] = place
                        cells += 1
                    else:
                        new.next[last] = y
                    _write(new, y, number, held)
                    new.device[y], new.source[y], new.cell[y], new.next[y] = end, source, cell, -1
                if traced and better:
                    if row[k + 1] + y >= parent.shape[0]:
                        return -1.0
                    parent[row[k + 1] + y, 0] = x
                    parent[row[k + 1] + y, 1] = o
        for c in range(cells):
            table[used[c]] = -1
        old, new = new, old
        count = many
        if count == 0:
            return below
    best, found = below, -1
    for x in range(count):
        takes = max(old.number[x, _TAKES], old.number[x, _PAID] + s.rest[stages, old.device[x]])
        if takes < best:
            best, found = takes, x
    if traced and found >= 0:
        for k in range(stages - 1, -1, -1):
            path[k] = parent[row[k + 1] + found, 1]
            found = parent[row[k + 1] + found, 0]
    return best
