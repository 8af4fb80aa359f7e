"""What the kernels of the hybrid problem read: named tuples of plain arrays."""

from __future__ import annotations

from typing import NamedTuple

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs, Words


class HybridArrays(NamedTuple):
    """A hybrid problem over its suffix sets: n layers, m edges, R degrees, Z sets, Y segments of in-flight counts.

    A suffix set is closed under successors; a stage is the difference of two. Sets are sorted by work, then size, so
    that a subset comes before its supersets. Sums run over the layers of a set and have two parts: the first ones are
    multiples of a unit, and exact, the second ones what is left. So the difference of two sums is as exact as a sum
    over the layers between, however large what cancels is. Bytes are already divided by the bandwidth. Where
    ``uniform`` is 0 the configurations of a degree differ in weights, sharded memory or synchronisation, and sums hold
    the smallest value of each layer.
    """

    degree: Longs  #: (R,) tensor-parallel degrees.
    uniform: Bytes  #: (R,) whether every layer's configurations share weights, sharded memory and synchronisation.
    members: Words  #: (Z, words) bit sets.
    work: Floats  #: (Z, 2) least device time of the set.
    rest: Floats  #: (Z,) least device time of the layers outside it, transfers included.
    missing: Ints  #: (R, Z) layers of the set without the degree.
    #: (R, Z, 2) sums of p, w/B, a and b of the fastest configurations.
    time: Floats
    weight: Floats
    active: Floats
    fixed: Floats
    sharded: Floats  #: (R, Z, 2) sums of the memory that replicas share out.
    #: Edges from outside each set into it, as ranges of edge numbers.
    cross_ptr: Ints
    cross: Ints
    #: (m,) ends, 2·c/B; (R, m) 2·(c + sync)/B of the fastest configurations, for the reader and the writer.
    source: Ints
    target: Ints
    edge_time: Floats
    edge_enter: Floats
    edge_leave: Floats
    #: Edges into and out of each layer.
    in_ptr: Ints
    in_edges: Ints
    out_ptr: Ints
    out_edges: Ints
    #: (R, S + 1) segment of y microbatches in flight: in a segment the smallest configurations stay the same.
    segment: Ints
    #: (Y, Z, 2) sums of a, b and p of the smallest configurations.
    small_active: Floats
    small_fixed: Floats
    small_time: Floats
    #: (R, n + 1) options of each layer, the fastest first; configurations that are never better are left out.
    option_ptr: Ints
    #: (options,) p, w/B, a, b, memory that replicas share out.
    option_time: Floats
    option_weight: Floats
    option_active: Floats
    option_fixed: Floats
    option_sharded: Floats
    #: Synchronisation time 2·sync/B of each option, in the order of the layer's edges.
    option_in_ptr: Ints
    option_in: Floats
    option_out_ptr: Ints
    option_out: Floats
    kind: Ints  #: (R, n) layers with the same number share all memory of all options.
    next_replicas: Longs  #: (S + 2,) the smallest allowed data-parallel degree at least d; S + 1 stands for none.
    #: [memory, tolerance included; microbatches N; 1 if weights are synchronised once per batch; relative rounding of
    #: the time of a stage].
    limits: Floats


class HybridKnown(NamedTuple):
    """What is known of the least time of stages, from decision to decision: it does not depend on the target.

    Stages with layers alike, as in a chain of like ones, share what is known: entry kind · R + r belongs to a kind of
    stage. All arrays have one element where nothing is remembered.
    """

    kind: Ints  #: (Z · Z,) kind of the stage between each inner and outer set, -1 where there is none.
    #: An example of each kind.
    inner: Ints
    outer: Ints
    free: Ints  #: The most microbatches in flight that the fastest configurations hold.
    #: First entry of ``low`` and ``high`` for the counts after ``free``, as far as the smallest configurations reach.
    ptr: Longs
    #: The least time lies between these; NaN while nothing is known.
    low: Floats
    high: Floats


class HybridScratch(NamedTuple):
    """Working memory of the knapsack: items and their options of one stage, and the depth-first search over them.

    ``counters`` adds up searches and their nodes.
    """

    item: Ints
    first: Ints
    gain: Floats
    loss: Floats
    option: Ints
    ratio: Floats
    order: Ints
    step_gain: Floats
    step_loss: Floats
    step_order: Ints
    follow: Ints
    last: Ints
    choice: Ints
    top: Ints
    acc_gain: Floats
    acc_loss: Floats
    suffix_gain: Floats
    suffix_best: Floats
    best: Ints
    counters: Longs


class HybridWork(NamedTuple):
    """What the steps of a decision work on; any number in ``stop`` but 0 asks them to return."""

    arrays: HybridArrays
    scratch: HybridScratch
    known: HybridKnown
    stop: Longs


class StageIndex(NamedTuple):
    """The layers of set number ``outer`` that are not in set number ``inner``, on degree number ``r``."""

    inner: int
    outer: int
    r: int
