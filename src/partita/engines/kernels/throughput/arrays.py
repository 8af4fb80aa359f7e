"""What the kernels of the contiguous throughput problem read: named tuples of plain arrays."""

from __future__ import annotations

from typing import NamedTuple

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs
from partita.engines.kernels.graph_arrays import GraphArrays, Sets


class Arrays(NamedTuple):
    """An instance in search order: n items (topologically numbered), m nets, K kinds, c covers.

    The fields are those of ``problems.throughput.contraction.instance.Instance``, kinds first where there is a
    choice, so that one kind is contiguous: ``work`` (K, n), ``net_cost`` (K, m). ``memory`` includes the tolerance.
    ``limited`` tells whether any kind has a limit, ``backwards`` whether the search runs from the outputs to the
    inputs.
    """

    graph: GraphArrays
    net: Sets
    cover: Sets
    work: Floats
    net_cost: Floats
    net_source: Ints
    net_entering: Floats
    fixed: Floats
    active: Floats
    workspace: Floats
    cover_fixed: Floats
    cover_active: Floats
    memory: Floats
    devices: Longs
    in_flight: Longs
    limited: bool
    recompute: bool
    backwards: bool


class Lines(NamedTuple):
    """What variants have beside ``Arrays``: L lines over n items, m nets, K kinds (of one group each).

    A load that is a sum has one line, work + transfers. A load that is a maximum keeps every term under the limit by
    itself, so it has one line per term. GPipe's objective gives forward and backward lines different limits.
    """

    can: Bytes  #: (K, n) whether an item runs on a kind.
    work: Floats  #: (K, n, L) what an item adds; 0 where it cannot run.
    chain: Floats  #: (K, n) what it adds to the first line, infinite where it cannot run.
    #: (K, m, L) what a cut net adds on a device without and with its maker.
    cost_in: Floats
    cost_out: Floats
    maker: Ints  #: (m,) item that makes the net's tensors; any pin where that does not matter.
    #: (L,) 1 where reloading, and synchronising in turn with work, add to the line.
    with_reload: Floats
    with_sync: Floats
    #: (K,) per byte.
    reload_time: Floats
    sync_time: Floats
    #: Bytes that replicas synchronise: of an item, of a cover.
    sync: Floats
    cover_sync: Floats
    phase: Longs  #: (K,) 0 for kinds of the group that is filled first, 1 for those of the other one.
    #: (2, m, L) as ``cost_in`` and ``cost_out`` for the groups; the one filled first is first.
    group_in: Floats
    group_out: Floats
    replicas: Longs  #: (K,) most devices of a stage.
    #: (replicas + 1, devices + 1) microbatches in flight by replicas and devices from the stage to the end.
    flights: Longs
    hard: bool  #: Whether memory has a limit that reloading cannot exceed.
    sync_apart: bool  #: Whether replicas synchronise while they work, which then has a limit of its own.
    grouped: bool  #: Whether devices are in two groups.
    peak: bool  #: Whether memory depends on the order of operators.


class Codes(NamedTuple):
    """Counts of used devices as one number, mixed radix over the kinds from 1 on."""

    stride: Longs  #: (K,) what one device of a kind adds; 0 for kind 0.
    #: (codes, K) devices of each kind, 0 for kind 0; (codes,) all of them.
    digits: Longs
    digit_sum: Longs
    phases: Longs  #: (codes,) 1 where devices of the group filled second are used.


class SliceTable(NamedTuple):
    """What slicing an order leaves, for its first i items and every code of devices used, each (items + 1, codes).

    ``fewest`` devices of kind 0 hold them; the last stage begins at ``start`` and has ``replicas`` of a ``kind``.
    """

    fewest: Ints
    start: Ints
    kind: Bytes
    replicas: Ints
