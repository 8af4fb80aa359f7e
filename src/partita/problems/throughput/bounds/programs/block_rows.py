"""Rows that say what a block of an acyclic split costs: what all the programs are built from.

Blocks are numbered from 0 along the order. y_vb, the only kind of variable to branch on, says whether item v is in
block b or an earlier one; it rises with b and falls along the order. Whether v *is* in block b is then
x_vb = y_vb − y_v(b−1), which is written out everywhere (y before the first block is 0, y of the last block is 1).

**Cut nets.** A net e is cut by block b if some pin is in b and some is not. With the star of any pin u the rows
c_eb >= x_vb − x_ub and c_eb >= x_ub − x_vb, for every other pin v, say so for 0/1 points: if x is not the same on all
pins, it differs between u and some v, and one of the two differences is 1; if it is the same, all are 0. Nothing is
assumed of the order of the pins, so they hold for the merged tensors and the undirected nets of training graphs too.

Where a tensor goes from u to v, (9) and (10) of the paper follow: u and v have y_ub >= y_vb, and by definition
x_ub + y_u(b−1) = y_ub <= 1 and x_vb <= y_vb, so x_vb − x_ub >= x_vb + y_u(b−1) − 1, the right side of (9), and
x_ub − x_vb >= x_ub − y_vb, the right side of (10). They are strictly stronger where u or v is divided between blocks:
at y_u(b−1) = 0, x_ub = 1/2, x_vb = 1 (9) asks for nothing, the star for 1/2.

For three pins and more the star is replaced by c_eb = s_eb − a_eb with s_eb >= x_vb (some pin in b) and a_eb <= x_vb
(all pins in b) for every pin v: as many rows, and equal to the differences between *all* pairs of pins at once. The
first block needs no variables for pins that the order puts first (s is y_ub) or last (a is y_wb), and the last block
cuts what its complement, the blocks before it, cuts.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), Figure 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.mip.model import MixedProgram

#: Programs of more items would not be solved in any time worth waiting; their tables alone take n² bytes.
MOST_ITEMS = 4000


@dataclass(frozen=True)
class OrderTables:
    """The order's closure."""

    reach: Bools  #: (n, n) whether an item is the other one or comes before it.
    edges: list[tuple[int, int]]  #: Pairs (u, v) that imply all others: the transitive reduction.
    #: (m,) pin of a net that comes before all its other pins, pin that comes after them; −1 where there is none.
    maker: list[int]
    ender: list[int]

    def hulls(self, weights: Floats) -> Floats:
        """(n, n) weight of u, v and all between them; of both alone where neither comes before the other."""
        matrix = self.reach.astype(np.float64)
        between = (matrix * weights) @ matrix
        between = np.maximum(between, between.T)
        apart = ~(self.reach | self.reach.T)
        return np.where(apart, weights[:, None] + weights[None, :], between)


def order_of(uniform: BlockProblem) -> OrderTables:
    """The tables of a problem; items are numbered along the order."""
    n = uniform.items
    reach = np.eye(n, dtype=bool)
    edges: list[tuple[int, int]] = []
    for u in range(n - 1, -1, -1):
        # Nearest successors first: what they reach needs no edge from u.
        for v in np.sort(uniform.graph.after(u)):
            if not reach[u, v]:
                edges.append((u, int(v)))
                reach[u] |= reach[v]
    maker, ender = [], []
    for net in range(uniform.nets):
        pins = uniform.net.members(net)
        maker.append(int(pins[0]) if reach[pins[0], pins].all() else -1)
        ender.append(int(pins[-1]) if reach[pins, pins[-1]].all() else -1)
    return OrderTables(reach, edges[::-1], maker, ender)


#: A linear expression: terms and a constant.
Expression = tuple[list[tuple[int, float]], float]


class BlockProgram:
    """A program whose variables say which of ``count`` blocks every item is in; no objective yet.

    ``y`` (blocks − 1, n) are the variables: item in that block or an earlier one.
    """

    def __init__(self, uniform: BlockProblem, count: int, order: OrderTables | None = None) -> None:
        """Variables and rows of the order, given its tables if they are known."""
        self.uniform = uniform
        self.count = count
        self.order = order_of(uniform) if order is None else order
        self.model = MixedProgram()
        n = uniform.items
        numbers = [self.model.add_binary() for _ in range(n * (count - 1))]
        self.y = np.array(numbers, dtype=np.int64).reshape(count - 1, n)
        #: Nets that no interesting split leaves whole, and items that none puts into one block.
        self.split_nets: Bools = np.zeros(uniform.nets, dtype=bool)
        self.apart: Bools | None = None
        for b in range(count - 1):
            for v in range(n if b else 0):
                self.row([self.early(v, b), self.early(v, b - 1, -1.0)], lower=0.0)
            for v, w in self.order.edges:
                self.row([self.early(v, b), self.early(w, b, -1.0)], lower=0.0)

    def early(self, item: int, block: int, factor: float = 1.0) -> Expression:
        """factor · y: whether an item is in a block or before."""
        if block < 0:
            return [], 0.0
        if block >= self.count - 1:
            return [], factor
        return [(int(self.y[block, item]), factor)], 0.0

    def inside(self, item: int, first: int, last: int, factor: float = 1.0) -> Expression:
        """factor · x: whether an item is in the blocks from ``first`` to ``last``."""
        now, before = self.early(item, last, factor), self.early(item, first - 1, -factor)
        return now[0] + before[0], now[1] + before[1]

    def row(self, parts: Iterable[Expression], lower: float = -np.inf, upper: float = np.inf) -> None:
        """A row on the sum of expressions."""
        terms: list[tuple[int, float]] = []
        constant = 0.0
        for more, one in parts:
            terms += more
            constant += one
        self.model.add_row(terms, lower - constant, upper - constant)

    def work(self, block: int, weights: Floats | None = None, scale: float = 1.0) -> list[Expression]:
        """Work (or another weight) of a block, times ``scale``."""
        chosen = self.uniform.work if weights is None else weights
        return [self.inside(int(v), block, block, scale * float(chosen[v])) for v in np.flatnonzero(chosen)]

    def cuts(self, block: int, scale: float = 1.0, most: float = math.inf) -> dict[int, Expression]:
        """What each net costs if a block cuts it, times ``scale`` and at most so much, with the variables and rows."""
        return {e: self.cut(e, block, min(scale * float(cost), most)) for e, cost in enumerate(self.uniform.cost)}

    def _indicator(self) -> Expression:
        return [(self.model.add_continuous(0.0, 1.0), 1.0)], 0.0

    def cut(self, net: int, block: int, factor: float) -> Expression:
        """factor · c with new variables and rows: whether a net is cut by a block; see the module."""
        pins = [int(v) for v in self.uniform.net.members(net)]
        first, last = (0, block - 1) if block == self.count - 1 and block else (block, block)
        if self.split_nets[net]:
            return _times(self._touched(block, pins), factor)
        if len(pins) == 2 and first > 0:
            cut = self._indicator()
            for v, w in (pins, pins[::-1]):
                self.row([cut, self.inside(v, first, last, -1.0), self.inside(w, first, last)], lower=0.0)
            return _times(cut, factor)
        # Unions of the first blocks are entered by what comes first in the order, and left whole by what comes last.
        some = _times(self._pinned(self.order.maker[net], pins, first, last, lower=0.0), factor)
        every = _times(self._pinned(self.order.ender[net], pins, first, last, upper=0.0), -factor)
        return some[0] + every[0], some[1] + every[1]

    def _pinned(self, decisive: int, pins: list[int], first: int, last: int, **side: float) -> Expression:
        """At least, or at most, whether each pin is in the blocks; a ``decisive`` one says so alone (−1 for none)."""
        if first == 0 and decisive >= 0:
            return self.early(decisive, last)
        found = self._indicator()
        for v in pins:
            self.row([found, self.inside(v, first, last, -1.0)], **side)
        return found

    def _touched(self, block: int, pins: list[int]) -> Expression:
        """Whether a net that is split in any case has a pin in a block; pins that are apart are not there together."""
        some = self._indicator()
        missing = list(pins)
        while missing:
            clique = [missing[0]]
            for v in missing[1:] + [v for v in pins if v not in missing]:
                if self.apart is not None and all(self.apart[v, w] for w in clique):
                    clique.append(v)
            missing = [v for v in missing if v not in clique]
            self.row([some, *(self.inside(v, block, block, -1.0) for v in clique)], lower=0.0)
        return some

    def keep_within(self, first: Ints, last: Ints) -> None:
        """Allow each item only the blocks from ``first`` to ``last``."""
        for b in range(self.count - 1):
            for v in np.flatnonzero(first > b):
                self.model.fix(int(self.y[b, v]), 0.0)
            for v in np.flatnonzero(last <= b):
                self.model.fix(int(self.y[b, v]), 1.0)

    def label(self, values: Floats) -> Ints:
        """(n,) block of every item at a point."""
        label: Ints = (self.count - 1 - (values[self.y] > 0.5).sum(axis=0)).astype(np.int32)
        return label


def _times(expression: Expression, factor: float) -> Expression:
    return [(v, factor * c) for v, c in expression[0]], factor * expression[1]
