"""What the searches over downsets read, keep, and answer, the places of single numbers, and stores that grow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs, Words, row_masks, zeros
from partita.engines.kernels.compiled import allocating_nothing
from partita.engines.kernels.throughput.arrays import Arrays, Codes, Lines

if TYPE_CHECKING:
    from partita.engines.kernels.throughput.working_memory import PeakArrays, PeakScratch

Own = TypeVar("Own")

#: Answers of the searches: no split, a split, the store must grow, nodes used up, told to stop.
REFUTED, FOUND, GROW, LIMIT, STOPPED = range(5)

#: Places in ``StateStore.counters``: how much is filled; the state begun, or -1; states taken from a queue, and where
#: its level ends; devices in use; effort; the last stage of a split that was found; whether ``Scratch`` describes a
#: downset; marks used so far; the level whose memory per item the plain search holds.
DOWNSETS, POOL, STATES, CURSOR, TAKEN, LEVEL_END, LEVEL, NODES = range(8)
LAST_PARENT, LAST_KIND, LAST_REPLICAS, VALID, STAMP, HELD = range(8, 14)

#: Places in ``Scratch.places``: ready items, items inside, the first word that is not full, the first from which on all
#: are empty, and moves since the running sums were last computed afresh.
READY, INSIDE, FIRST, END, MOVES = range(5)

#: Numbers that the searches of the plain problem and of variants save at every depth.
COLUMNS, LINE_COLUMNS = 13, 4


class Until(NamedTuple):
    """When a search pauses: nodes used up in all, or one of two raised flags."""

    node_limit: int
    stop: Longs
    halt: Longs


class Weights(NamedTuple):
    """What the remaining devices can still take, by rule and remaining-count code (mixed radix over all kinds).

    For rule c, the remaining items weigh ``item[row]`` (rows, n) and the nets that cross into them ``net[row]``
    (rows, m) with ``row = choice[c, code]``; together at most ``budget[c, code]`` in any completable state. ``radix``
    is that of the codes.
    """

    item: Floats
    net: Floats
    choice: Longs
    budget: Floats
    radix: Longs


class Plain(NamedTuple):
    """What the search of a plain problem has beside; its weights have one rule.

    Loads are at most ``target``. ``total`` (rows + 1,) is the weight of all items, with room for their memory;
    ``capacity[code]`` is the memory of the remaining devices together. ``up_item`` (rows, n), ``up_work`` (K, n) and
    ``before`` (K, 2, n) are (lower bounds on) sums over what follows or precedes an item, itself included; the last
    ones are of work on a kind and of what items need at least on any device. ``all_work`` (K,) is of all items.
    """

    target: float
    total: Floats
    capacity: Floats
    up_item: Floats
    up_work: Floats
    before: Floats
    all_work: Floats


class Variant(NamedTuple):
    """What the search of a variant has beside.

    Lines are at most ``limits`` (lines + 1,), the last one of synchronisation; ``inner`` ones are surely kept. ``cuts``
    are all downsets where the first group may end, none if they are not known. ``first`` is the part of the budgets of
    devices in the group that is filled first, and ``beyond[row, cut]`` what the other group may take beyond a cut.

    At every depth the lines (``value``), and by rule the weight that is lost to excluded items and that of nets that
    surely cross. By rule the row of weights in force, the weight outside the downset, and that of items in reach. Then
    what trials of cuts (2, lines), of single items (lines,) and of orders work with.
    """

    lines: Lines
    limits: Floats
    inner: Floats
    cuts: Words
    first: Floats
    beyond: Floats

    value: Floats
    lost: Floats
    cross: Floats
    row: Longs
    rest: Floats
    reachable: Floats
    links: Floats
    trial: Floats
    peaks: PeakArrays
    peak_scratch: PeakScratch


class StateStore(NamedTuple):
    """Downsets (hashed bit windows), states, and where the search stands.

    ``table`` is a hash table of downset numbers + 1; a downset has ``downset_length`` words in ``pool`` from
    ``downset_offset`` on, which follow ``downset_first`` full ones. ``fewest[downset, code]`` is the fewest devices of
    kind 0 it is known with. A state is a downset, a code of used devices, and the stage that led there. States are
    expanded in the order in which they are stored, or, where ``heads`` has entries, from lists by devices in use, which
    ``state_next`` links.
    """

    table: Ints
    downset_hash: Words
    downset_first: Ints
    downset_length: Ints
    downset_offset: Longs
    pool: Words
    fewest: Ints
    state_downset: Ints
    state_code: Ints
    state_parent: Ints
    state_kind: Bytes
    state_replicas: Ints
    state_next: Ints
    heads: Ints
    counters: Longs


class Tally(NamedTuple):
    """Sums over the current downset of ``item`` (n, rows), and over the nets that cross it of ``net`` (m, q)."""

    item: Floats
    net: Floats
    inside: Floats
    across: Floats


class Scratch(NamedTuple):
    """Working arrays of one search.

    The first group describes the current downset between calls: its ``words``, items, missing predecessors, pins inside
    it, and the items that are ready. The second describes the stage that is built: what it can reach, ``status`` of
    items, pins here and surely outside, the queue of decisions with what each changed, and in ``saved`` the numbers of
    every depth.
    """

    zobrist: Words
    words: Words
    full: Words
    in_downset: Bytes
    missing: Ints
    net_in: Ints
    ready_place: Ints
    ready_items: Ints
    places: Longs

    status: Bytes
    stamp_item: Ints
    stamp_net: Ints
    missing_now: Ints
    head: Floats
    reach: Ints
    touched: Ints
    net_out: Ints
    net_here: Ints
    cover_here: Ints
    queue: Ints
    decision: Bytes
    queue_end: Ints
    mark_end: Ints
    marks: Ints
    saved: Floats
    memory: Floats
    cover_memory: Floats
    remaining: Longs
    most_before: Floats


class DownsetSearch(NamedTuple, Generic[Own]):
    """All that a search reads and writes; ``own`` is what the one of plain problems or of variants has beside."""

    arrays: Arrays
    codes: Codes
    #: (K,) most devices of a stage, and 1 for kinds of the group that is filled second.
    replicas: Longs
    phase: Longs
    weights: Weights
    tally: Tally
    store: StateStore
    scratch: Scratch
    dominance: bool  #: Whether that rule is safe.
    own: Own
    until: Until


class StageTrial(NamedTuple):
    """Where the stages that are tried lead: the state they follow, their devices, code and count of the states after.

    ``rest`` is the code of the devices that remain, which ``Scratch.remaining`` counts.
    """

    state: int
    kind: int
    replicas: int
    code_after: int
    used_after: int
    rest: int


_STATE_FIELDS = ("state_downset", "state_code", "state_parent", "state_kind", "state_replicas")
_DOWNSET_FIELDS = ("downset_hash", "downset_first", "downset_length", "downset_offset", "fewest")


def new_store(codes: int, downsets: int, states: int, pool: int, levels: int = 0) -> StateStore:
    """Room for so many downsets, states, and words of downsets; the empty one with no device used is the first state.

    There are so many ``codes`` of used devices. Of so many ``levels``, counts of devices in use, each has a list of
    states; 0 for a queue.
    """
    store = zeros(
        StateStore,
        ("table", 4 * downsets),
        ("downset_hash downset_first downset_length downset_offset", downsets),
        ("pool", pool),
        ("fewest", (downsets, codes)),
        ("state_downset state_code state_kind state_replicas", states),
        ("counters", 16),
        state_parent=np.full(states, -1, dtype=np.int32),
        state_next=np.full(states if levels else 0, -1, dtype=np.int32),
        heads=np.full(levels, -1, dtype=np.int32),
    )
    store.fewest[0, 1:] = 1 << 30
    store.heads[:1] = 0
    store.counters[CURSOR] = -1
    for place in (DOWNSETS, STATES, LEVEL_END):
        store.counters[place] = 1
    return store


@allocating_nothing
def rehash(table: Ints, codes: Words, count: int) -> None:
    """Fill an empty hash table with the downsets 1 … count − 1 (the empty downset is never looked up)."""
    mask = table.shape[0] - 1
    for number in range(1, count):
        slot = int(codes[number] >> np.uint64(20)) & mask
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = number + 1


def enlarged(s: StateStore, words: int, max_bytes: float) -> StateStore | None:
    """The store with twice the room where it is full; None if that is more than ``max_bytes``.

    An downset has at most so many ``words``. A pool that had room for all of them in every downset keeps it.
    """
    if 2 * sum(int(field.nbytes) for field in s) > max_bytes:
        return None
    downsets, used, states = (int(s.counters[place]) for place in (DOWNSETS, POOL, STATES))
    room, pool = s.downset_hash.shape[0], s.pool.shape[0]
    grown: dict[str, Any] = {}

    def longer(name: str, filled: int) -> None:
        old = getattr(s, name)
        grown[name] = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
        grown[name][:filled] = old[:filled]

    if states >= s.state_downset.shape[0]:
        for name in (*_STATE_FIELDS, "state_next"):
            longer(name, states)
        return s._replace(**grown)
    if used + words > pool or (downsets >= room and pool == room * words):
        longer("pool", used)
    if downsets >= room:
        for name in _DOWNSET_FIELDS:
            longer(name, downsets)
        grown["table"] = np.zeros(2 * s.table.shape[0], dtype=np.int32)
        rehash(grown["table"], grown["downset_hash"], downsets)
    return s._replace(**grown)


def new_tally(item: Floats, net: Floats) -> Tally:
    """Sums of (rows, n) weights of items and (q, m) weights of nets."""
    item, net = np.ascontiguousarray(item.T), np.ascontiguousarray(net.T)
    return Tally(item, net, np.zeros(item.shape[1]), np.zeros(net.shape[1]))


def random_words(items: int) -> Words:
    """A random word for every item: sets of items are told apart by those of their items together."""
    words = np.random.default_rng(20240229).integers(0, 2**63, size=2 * items, dtype=np.uint64)
    return np.asarray(words[::2] ^ (words[1::2] << np.uint64(1)), dtype=np.uint64)


def new_scratch(a: Arrays, zobrist: Words, columns: int) -> Scratch:
    """Working arrays that save so many numbers a depth; ``zobrist`` as by ``random_words``."""
    n, m, covers = a.work.shape[1], a.net.ptr.shape[0] - 1, a.cover_fixed.shape[0]
    words = math.ceil(n / 64)
    full = np.full(words, 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    if n % 64:
        full[-1] = np.uint64((1 << (n % 64)) - 1)
    return zeros(
        Scratch,
        ("words", words),
        ("in_downset missing ready_place ready_items status stamp_item missing_now head memory", n),
        ("net_in stamp_net touched net_out net_here", m),
        ("cover_here cover_memory", covers),
        ("reach queue decision marks", n + 1),
        ("queue_end mark_end", n + 2),
        ("saved", (n + 2, columns)),
        ("places", 8),
        ("remaining", a.work.shape[0]),
        ("most_before", 2),
        zobrist=zobrist,
        full=full,
    )


def downset_masks(s: StateStore, downsets: npt.NDArray[np.integer[Any]], items: int) -> npt.NDArray[np.bool_]:
    """(downsets, n) which items each of these downsets holds."""
    words = np.zeros((len(downsets), math.ceil(items / 64)), dtype=np.uint64)
    for row, downset in zip(words, downsets, strict=True):
        first, length, offset = (
            int(s.downset_first[downset]),
            int(s.downset_length[downset]),
            int(s.downset_offset[downset]),
        )
        row[:first] = np.uint64(0xFFFFFFFFFFFFFFFF)
        row[first : first + length] = s.pool[offset : offset + length]
    return row_masks(words, items)


def stages_found(s: StateStore, items: int) -> list[tuple[int, int, npt.NDArray[np.int32]]]:
    """(kind, replicas, items) of the stages of the split that a search found, in search order."""
    stages = []
    inside = np.ones(items, dtype=bool)
    state, kind, replicas = (int(s.counters[place]) for place in (LAST_PARENT, LAST_KIND, LAST_REPLICAS))
    while state >= 0:
        (before,) = downset_masks(s, s.state_downset[state : state + 1], items)
        stages.append((kind, replicas, np.flatnonzero(inside & ~before).astype(np.int32)))
        inside, kind, replicas = before, int(s.state_kind[state]), int(s.state_replicas[state])
        state = int(s.state_parent[state])
    return stages[::-1]
