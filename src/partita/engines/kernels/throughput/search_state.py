"""What the searches over downsets read, keep, and answer: named tuples of arrays, and the places of single numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs, Words
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
