"""What the kernels of the variants read beside ``Arrays``: loads as several lines, each with its own limit.

A load that is a sum has one line, work + transfers. A load that is a maximum keeps every term under the limit by
itself, so it has one line per term. GPipe's objective gives forward and backward lines different limits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np

from partita.kernels.throughput.arrays import Bytes, Floats, Ints, Longs, Words

__all__ = ["Lines", "VariantScratch", "VariantStore", "VariantWeights", "as_lines"]


class Lines(NamedTuple):
    """L lines over n items, m nets, K kinds (of one group each), C capacity rules.

    Attributes
    ----------
    can
        (K, n) whether an item runs on a kind.
    work
        (K, n, L) what an item adds; 0 where it cannot run.
    cost_in, cost_out
        (K, m, L) what a cut net adds on a device without and with its maker.
    maker
        (m,) item that makes the net's tensors; any pin where that does not matter.
    with_reload, with_sync
        (L,) 1 where reloading, and synchronising in turn with work, add to the line.
    reload_time, sync_time
        (K,) per byte.
    sync, cover_sync
        Bytes that replicas synchronise: of an item, of a cover.
    phase
        (K,) 0 for kinds of the group that is filled first, 1 for those of the other one.
    group_in, group_out
        (2, m, L) as ``cost_in`` and ``cost_out`` for the groups; the one filled first is first.
    replicas
        (K,) most devices of a stage.
    flights
        (replicas + 1, devices + 1) microbatches in flight by replicas and devices from the stage to the end.
    switches
        [memory has a hard limit, recompute, backwards, synchronising at the same time as work, groups,
        memory is a peak]
    """

    can: Bytes
    work: Floats
    cost_in: Floats
    cost_out: Floats
    maker: Ints
    with_reload: Floats
    with_sync: Floats
    reload_time: Floats
    sync_time: Floats
    sync: Floats
    cover_sync: Floats
    phase: Longs
    group_in: Floats
    group_out: Floats
    replicas: Longs
    flights: Longs
    switches: Longs


class VariantWeights(NamedTuple):
    """What the remaining devices can still take, by remaining-count code (mixed radix over all kinds).

    For rule c, the remaining items weigh ``item[row]`` and the nets that cross into them ``net[row]`` with
    ``row = choice[c, code]``; together at most ``budget[c, code]`` in any completable state. ``first`` is the part of
    the budget of devices in the group that is filled first, and ``beyond[row, cut]`` what the other group may take
    beyond a cut.
    """

    item: Floats
    net: Floats
    choice: Longs
    budget: Floats
    first: Floats
    beyond: Floats
    radix: Longs


class VariantStore(NamedTuple):
    """Ideals (hashed bit sets), states in lists by devices used, and where the search stands."""

    table: Ints
    ideal_hash: Words
    words: Words
    fewest: Ints
    state_ideal: Ints
    state_code: Ints
    state_parent: Ints
    state_kind: Bytes
    state_replicas: Ints
    state_next: Ints
    heads: Ints
    counters: Longs


class VariantScratch(NamedTuple):
    """Working arrays; contents mean nothing between calls, except that ``status`` is 0."""

    zobrist: Words
    words: Words
    in_ideal: Bytes
    missing: Ints
    net_in: Ints
    status: Bytes
    missing_now: Ints
    head: Floats
    reach: Ints
    net_out: Ints
    net_here: Ints
    cover_here: Ints
    queue: Ints
    decision: Bytes
    queue_end: Ints
    mark_end: Ints
    marks: Ints
    value: Floats
    lost: Floats
    cross: Floats
    held: Floats
    memory: Floats
    cover_memory: Floats
    row: Longs
    rest: Floats
    reachable: Floats
    trial: Floats


def as_lines(values: dict[str, Any]) -> Lines:
    """Lines from a mapping, each contiguous and of the type the kernels are compiled for."""
    types = {Floats: np.float64, Ints: np.int32, Longs: np.int64, Bytes: np.int8}
    hints = get_type_hints(Lines)
    return Lines(**{name: np.ascontiguousarray(values[name], dtype=types[hints[name]]) for name in Lines._fields})
