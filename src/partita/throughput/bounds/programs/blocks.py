"""Rows that say what a block of an acyclic split costs: what all the programs are built from.

Blocks are numbered from 0 along the order. y_vb, the only kind of variable to branch on, says whether item v is in
block b or an earlier one; it rises with b and falls along the order. Whether v *is* in block b is then
x_vb = y_vb − y_v(b−1), which is written out everywhere (y before the first block is 0, y of the last block is 1).

**Cut nets.** A net e is cut by block b if some pin is in b and some is not. With the star of its first pin u the rows
c_eb >= x_vb − x_ub and c_eb >= x_ub − x_vb, for every other pin v, say so for 0/1 points: if x is not the same on all
pins, it differs between u and some v, and one of the two differences is 1; if it is the same, all are 0. Nothing is
assumed of the order of the pins, so they hold for the merged tensors and the undirected nets of training graphs too.

Where a tensor goes from u to v, (9) and (10) of the paper follow: u and v have y_ub >= y_vb, and by definition
x_ub + y_u(b−1) = y_ub <= 1 and x_vb <= y_vb, so x_vb − x_ub >= x_vb + y_u(b−1) − 1, the right side of (9), and
x_ub − x_vb >= x_ub − y_vb, the right side of (10). They are strictly stronger where u or v is divided between blocks:
at y_u(b−1) = 0, x_ub = 1/2, x_vb = 1 (9) asks for nothing, the star for 1/2.

For three pins and more the rows are replaced by c_eb = s_eb − a_eb with s_eb >= x_vb (some pin in b) and a_eb <= x_vb
(all pins in b) for every pin v: as many rows, and equal to the differences between *all* pairs of pins at once.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), Figure 3.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partita.mip.model import Floats, Model
from partita.throughput.bounds.uniform import Uniform

__all__ = ["Blocks", "Expression"]

Ints = npt.NDArray[np.int32]

#: A linear expression: terms and a constant.
Expression = tuple[list[tuple[int, float]], float]


class Blocks:
    """A program whose variables say which block every item is in.

    Attributes
    ----------
    uniform
        What is split.
    count
        Number of blocks.
    model
        The program; no objective yet.
    y
        (blocks − 1, n) variables: item in that block or an earlier one.
    """

    def __init__(self, uniform: Uniform, count: int, *, whole_cuts: bool = False) -> None:
        """Variables and rows of the order.

        Parameters
        ----------
        uniform, count
            What to split into how many blocks.
        whole_cuts
            Make the variables of cut nets binary, for backends that know only integers.
        """
        self.uniform = uniform
        self.count = count
        self.whole_cuts = whole_cuts
        self.model = Model()
        n = uniform.items
        self.y = np.array([[self.model.add_binary() for _ in range(n)] for _ in range(count - 1)], dtype=np.int64)
        self.y.shape = (count - 1, n)
        #: What 0/1 points make of further variables: (variable, what it is at the given blocks of the items).
        self._cuts: list[tuple[int, int, int, int]] = []
        for b in range(count - 1):
            for v in range(n):
                if b:
                    self.row([self.early(v, b), self.early(v, b - 1, -1.0)], lower=0.0)
                for w in uniform.succ[uniform.succ_ptr[v] : uniform.succ_ptr[v + 1]]:
                    self.row([self.early(v, b), self.early(int(w), b, -1.0)], lower=0.0)

    def early(self, item: int, block: int, factor: float = 1.0) -> Expression:
        """factor · y: whether an item is in a block or before."""
        if block < 0:
            return [], 0.0
        if block >= self.count - 1:
            return [], factor
        return [(int(self.y[block, item]), factor)], 0.0

    def inside(self, item: int, block: int, factor: float = 1.0) -> Expression:
        """factor · x: whether an item is in a block."""
        now, before = self.early(item, block, factor), self.early(item, block - 1, -factor)
        return now[0] + before[0], now[1] + before[1]

    def row(self, parts: Iterable[Expression], lower: float = -np.inf, upper: float = np.inf) -> None:
        """A row on the sum of expressions."""
        terms: list[tuple[int, float]] = []
        constant = 0.0
        for more, one in parts:
            terms += more
            constant += one
        self.model.add_row(terms, lower - constant, upper - constant)

    def work(self, block: int, weights: Floats | None = None) -> list[Expression]:
        """Work (or another weight) of a block."""
        chosen = self.uniform.work if weights is None else weights
        return [self.inside(int(v), block, float(chosen[v])) for v in np.flatnonzero(chosen)]

    def load(self, block: int) -> list[Expression]:
        """f of a block: its work and the nets that it cuts."""
        parts = self.work(block)
        for net in range(self.uniform.nets):
            parts += self.cut(net, block, float(self.uniform.cost[net]))
        return parts

    def _indicator(self, net: int, block: int, what: int) -> int:
        variable = self.model.add_binary() if self.whole_cuts else self.model.add_continuous(0.0, 1.0)
        self._cuts.append((variable, net, block, what))
        return variable

    def cut(self, net: int, block: int, factor: float) -> list[Expression]:
        """factor · c with new variables and rows: whether a net is cut by a block; see the module."""
        pins = [int(v) for v in self.uniform.pins(net)]
        if len(pins) < 2:
            return []
        if len(pins) == 2:
            variable = self._indicator(net, block, _CUT)
            for v, w in (pins, pins[::-1]):
                self.row([([(variable, 1.0)], 0.0), self.inside(v, block, -1.0), self.inside(w, block)], lower=0.0)
            return [([(variable, factor)], 0.0)]
        some, every = self._indicator(net, block, _SOME), self._indicator(net, block, _EVERY)
        for v in pins:
            self.row([([(some, 1.0)], 0.0), self.inside(v, block, -1.0)], lower=0.0)
            self.row([([(every, 1.0)], 0.0), self.inside(v, block, -1.0)], upper=0.0)
        return [([(some, factor), (every, -factor)], 0.0)]

    def keep_within(self, first: Ints, last: Ints) -> None:
        """Allow each item only the blocks from ``first`` to ``last``."""
        for v in range(self.uniform.items):
            for b in range(self.count - 1):
                if b < first[v]:
                    self.model.fix(int(self.y[b, v]), 0.0)
                elif b >= last[v]:
                    self.model.fix(int(self.y[b, v]), 1.0)

    def label(self, values: Floats) -> Ints:
        """(n,) block of every item at a point."""
        return (self.count - 1 - (values[self.y] > 0.5).sum(axis=0)).astype(np.int32)

    def point(self, label: Ints) -> Floats:
        """Values of all variables for (n,) blocks; what else there is than y and cuts is left at 0."""
        values = np.zeros(self.model.size)
        for b in range(self.count - 1):
            values[self.y[b]] = label <= b
        for variable, net, block, what in self._cuts:
            pins = label[self.uniform.pins(net)] == block
            values[variable] = {_CUT: pins.any() and not pins.all(), _SOME: pins.any(), _EVERY: pins.all()}[what]
        return values


_CUT, _SOME, _EVERY = range(3)
