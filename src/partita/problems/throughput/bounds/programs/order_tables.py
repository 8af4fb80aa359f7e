"""What the order says about a uniform problem, as dense tables: for problems small enough for programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats
from partita.engines.kernels.throughput.blocks import BlockProblem

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
