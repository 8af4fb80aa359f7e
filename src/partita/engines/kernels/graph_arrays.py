"""Graphs and sets of their nodes as arrays: the one form that kernels of all problems read.

Row i of a pair (pointer, members) is ``members[pointer[i]:pointer[i + 1]]``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Ints, Longs

Places = npt.NDArray[np.integer]


class GraphArrays(NamedTuple):
    """Who follows and who precedes each of n nodes, as rows; both in the order in which the edges were given."""

    succ_ptr: Ints
    succ: Ints
    pred_ptr: Ints
    pred: Ints

    def after(self, v: int) -> Ints:
        """The nodes that follow one directly."""
        return self.succ[self.succ_ptr[v] : self.succ_ptr[v + 1]]

    def before(self, v: int) -> Ints:
        """The nodes that precede one directly."""
        return self.pred[self.pred_ptr[v] : self.pred_ptr[v + 1]]

    @property
    def edges(self) -> Longs:
        """(edges, 2) pairs: the earlier node and the later one."""
        earlier = np.repeat(np.arange(len(self.succ_ptr) - 1), np.diff(self.succ_ptr))
        return np.stack([earlier, self.succ.astype(np.int64)], axis=1)

    def turned(self) -> GraphArrays:
        """The same graph with every edge turned round."""
        return GraphArrays(self.pred_ptr, self.pred, self.succ_ptr, self.succ)

    def numbered(self, nodes: Places) -> GraphArrays:
        """The same graph with its nodes numbered as in this order of all of them."""
        number = np.argsort(nodes).astype(np.int32)
        return GraphArrays(
            *chosen_rows(self.succ_ptr, self.succ, nodes, number), *chosen_rows(self.pred_ptr, self.pred, nodes, number)
        )


class Sets(NamedTuple):
    """Sets of items with a meaning (nets: who touches a tensor; covers: who uses an array), by set and by item.

    ``pins`` are the items of each set, ``of_item`` the sets of each item, ascending.
    """

    ptr: Ints
    pins: Ints
    item_ptr: Ints
    of_item: Ints

    def members(self, row: int) -> Ints:
        """The items of a set."""
        return self.pins[self.ptr[row] : self.ptr[row + 1]]

    def holding(self, item: int) -> Ints:
        """The sets that an item is in."""
        return self.of_item[self.item_ptr[item] : self.item_ptr[item + 1]]

    def chosen(self, rows: Places, number: Ints | None = None) -> Sets:
        """Some of the sets, in this order; with the number that each item then has."""
        items = len(self.item_ptr) - 1
        return _both_ways(*chosen_rows(self.ptr, self.pins, rows, number), items)


class Partition(NamedTuple):
    """Items that are each in one group, as colocation classes are: ``of`` (n,) its group, and the members of each."""

    of: Ints
    ptr: Ints
    members: Ints


def graph_of(edges: Iterable[tuple[int, int]] | Longs, nodes: int) -> GraphArrays:
    """The graph of so many nodes with these edges, each from the earlier node to the later one."""
    pairs = np.array(edges if isinstance(edges, np.ndarray) else list(edges), dtype=np.int64).reshape(-1, 2)
    return GraphArrays(*rows_of(pairs[:, 0], pairs[:, 1], nodes), *rows_of(pairs[:, 1], pairs[:, 0], nodes))


def sets_of(rows: Iterable[Iterable[int]], items: int) -> Sets:
    """Sets of so many items."""
    return _both_ways(*csr(rows), items)


def partition_of(group: npt.ArrayLike, groups: int) -> Partition:
    """The groups of items by the group of each, members ascending."""
    of = np.asarray(group, dtype=np.int32)
    return Partition(of, *rows_of(of, np.arange(len(of)), groups))


def _both_ways(pointer: Ints, members: Ints, items: int) -> Sets:
    rows = np.repeat(np.arange(len(pointer) - 1, dtype=np.int32), np.diff(pointer))
    return Sets(pointer, members, *rows_of(members, rows, items))


def csr(rows: Iterable[Iterable[int]]) -> tuple[Ints, Ints]:
    """The pair of a list of lists."""
    listed = [list(row) for row in rows]
    return pointer_of([len(row) for row in listed]), np.array([v for row in listed for v in row], dtype=np.int32)


def pointer_of(lengths: npt.ArrayLike) -> Ints:
    """Where rows of these lengths begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)


def lists(pointer: Places, members: Places) -> list[list[int]]:
    """The list of lists of a pair."""
    flat = members.tolist()
    return [flat[start:end] for start, end in itertools.pairwise(pointer.tolist())]


def rows_of(row: Places, member: Places, count: int) -> tuple[Ints, Ints]:
    """The members of each of ``count`` rows, in the order given."""
    pointer = pointer_of(np.bincount(row, minlength=count))
    return pointer, np.ascontiguousarray(member[np.argsort(row, kind="stable")], dtype=np.int32)


def chosen_rows(pointer: Ints, members: Ints, chosen: Places, names: Ints | None = None) -> tuple[Ints, Ints]:
    """Some rows, in this order; members with other ``names`` are sorted by them."""
    sizes = np.diff(pointer)[chosen]
    starts = pointer_of(sizes)
    flat = members[np.arange(starts[-1]) + np.repeat(pointer[:-1][chosen] - starts[:-1], sizes)]
    if names is not None:
        flat = names[flat]
        flat = flat[np.lexsort((flat, np.repeat(np.arange(len(chosen)), sizes)))]
    return starts, np.ascontiguousarray(flat, dtype=np.int32)
