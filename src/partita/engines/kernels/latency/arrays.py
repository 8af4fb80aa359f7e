"""Arrays of a latency problem for compiled loops, and a placement with all that follows from it."""

from __future__ import annotations

import math
from typing import NamedTuple

from partita.engines.kernels.arrays import Floats, Ints, Longs, zeros
from partita.engines.kernels.graph_arrays import GraphArrays, Partition


class LatencyArrays(NamedTuple):
    """n operators in topological order, which their numbers follow.

    ``graph`` says who reads whom, ``group`` the colocation classes. ``cpu``, ``acc`` (infinite where it cannot run),
    ``comm``, ``mem`` (n,) are times and bytes; ``part`` (n,) is 1 for backward operators. ``shape`` is (accelerators,
    passes, pieces of a pass); ``limit`` (1,) bytes.

    A *slot* is a place for a piece: accelerator, pass and piece in one number, in the order in which they run; the
    number of slots stands for the CPU.
    """

    graph: GraphArrays
    group: Partition
    cpu: Floats
    acc: Floats
    comm: Floats
    mem: Floats
    part: Ints
    shape: Ints
    limit: Floats


class PlacementState(NamedTuple):
    """The slot of every operator, and what follows from it; scratch space for trials behind.

    ``slot`` (n,); ``readers`` (n, slots + 1) readers of an operator in a slot; ``into``, ``out``, ``work`` (slots,)
    times of a piece; ``held`` (accelerators,) bytes; ``links`` (slots, slots) edges between pieces, one more between
    neighbours on an accelerator; ``degree`` (slots,) sum of links to a piece; ``on_cpu`` (n,) operators on the CPU, of
    which there are ``outside[0]``, and ``where`` (n,) their place in it. ``best`` (n,) is the best placement, ``value``
    (3,) the latency of it, that of ``slot``, and the energy of an annealing.
    """

    slot: Ints
    readers: Ints
    into: Floats
    out: Floats
    work: Floats
    held: Floats
    links: Ints
    degree: Ints
    on_cpu: Ints
    where: Ints
    outside: Ints
    best: Ints
    value: Floats
    moved: Ints
    goal: Ints
    seen: Longs
    start: Floats
    open: Ints
    first: Ints
    following: Ints
    target: Ints
    stack: Ints


def empty_placement(a: LatencyArrays) -> PlacementState:
    """A placement with room for the arrays and everything on the CPU; ``reset`` is to be called."""
    n, edges = a.cpu.shape[0], a.graph.pred.shape[0]
    devices, slots = int(a.shape[0]), int(a.shape.prod())
    state = zeros(
        PlacementState,
        ("slot on_cpu where best moved goal seen", n),
        ("readers", (n, slots + 1)),
        ("into out work degree first", slots),
        ("held", devices),
        ("links", (slots, slots)),
        ("outside", 1),
        ("value", 3),
        ("start open stack", slots + n),
        ("following target", edges),
    )
    for field, value in ((state.slot, slots), (state.best, slots), (state.value, math.inf), (state.seen, -1)):
        field.fill(value)
    return state
