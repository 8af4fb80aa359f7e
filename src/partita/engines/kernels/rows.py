"""Steps of kernels along one row of a graph, of sets, or of any pair (pointer, members); see ``graph_arrays``."""

from __future__ import annotations

from collections.abc import Iterator

from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.compiled import inlined
from partita.engines.kernels.graph_arrays import GraphArrays, Partition, Sets


@inlined
def row_of(pointer: Ints | Longs, members: Ints | Longs, i: int) -> Iterator[int]:
    """The members of row i."""
    for place in range(pointer[i], pointer[i + 1]):
        yield members[place]


@inlined
def successors(graph: GraphArrays, v: int) -> Iterator[int]:
    """The nodes that follow one directly."""
    for place in range(graph.succ_ptr[v], graph.succ_ptr[v + 1]):
        yield graph.succ[place]


@inlined
def predecessors(graph: GraphArrays, v: int) -> Iterator[int]:
    """The nodes that precede one directly."""
    for place in range(graph.pred_ptr[v], graph.pred_ptr[v + 1]):
        yield graph.pred[place]


@inlined
def pins_of(sets: Sets, s: int) -> Iterator[int]:
    """The items of a set."""
    for place in range(sets.ptr[s], sets.ptr[s + 1]):
        yield sets.pins[place]


@inlined
def sets_with(sets: Sets, item: int) -> Iterator[int]:
    """The sets that an item is in."""
    for place in range(sets.item_ptr[item], sets.item_ptr[item + 1]):
        yield sets.of_item[place]


@inlined
def members_of(groups: Partition, group: int) -> Iterator[int]:
    """The items of a group."""
    for place in range(groups.ptr[group], groups.ptr[group + 1]):
        yield groups.members[place]
