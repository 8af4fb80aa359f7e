"""Problems with identical devices as the bounds and the searches over orders and partitions see them.

What a problem says beyond this (groups' links, GPipe's two maxima) only adds to loads or forbids plans, so a bound on
its blocks is a bound on the problem; so it is if memory is left out.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §2 and §3, who leave
memory out of their programs in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.graph_arrays import GraphArrays, Sets
from partita.ground.rounding import SUMMED_FEW


class BlockProblem(NamedTuple):
    """n items to be put into k blocks, m nets, c covers.
    A block S (a set of items) costs f(S) = Σ work + Σ cost of the nets with a pin in S and another outside, and what it
    holds beyond the limit. A split gives every item a block 0 … k − 1; along the order the block never falls. Blocks
    may be empty.

    Items are numbered along the order. What is not said here is as in
    ``problems.throughput.contraction.instance.Instance``.
    """

    graph: GraphArrays
    net: Sets
    cover: Sets
    work: Floats  #: (n,) time of an item.
    cost: Floats  #: (m,) transfer time of a net; all positive.
    held: Floats  #: (n,) bytes of an item.
    workspace: Floats
    cover_bytes: Floats  #: (c,) bytes that a block with any of the pins of a cover holds once.
    #: [memory of a device, reload time per byte]; an infinite memory means that no bytes are looked at, an infinite
    #: time that a block may not exceed it.
    limit: Floats
    devices: int  #: Number of blocks k, at least 1.
    group: Ints
    kept: Longs  #: (m,) nets of the instance that these are.

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.work.shape[0])

    @property
    def nets(self) -> int:
        """Number of nets."""
        return int(self.cost.shape[0])

    @property
    def runs(self) -> bool:
        """Whether every item can run on the devices."""
        return self.devices > 0 and bool(np.isfinite(self.work).all())

    @property
    def most(self) -> float:
        """No block costs as much as this, unless it breaks a hard memory limit."""
        everything = float(self.work.sum() + self.cost.sum())
        if np.isfinite(self.limit[0]) and np.isfinite(self.limit[1]):
            largest = self.workspace.max(initial=0.0)
            everything += self.limit[1] * float(self.held.sum() + self.cover_bytes.sum() + largest)
        return everything * (1 + 1e-6) + 1e-30

    @property
    def low(self) -> float:
        """What no partition can be below: the largest item and the average work, infinite if an item fits nowhere."""
        return max(float(self.singles().max()), float(self.work.sum()) / self.devices * (1 - SUMMED_FEW))

    def falls(self, label: Ints) -> bool:
        """Whether (n,) blocks of the items fall somewhere along the order."""
        return bool((np.repeat(label, np.diff(self.graph.succ_ptr)) > label[self.graph.succ]).any())

    def load(self, members: Bools) -> float:
        """f(S) of the set with this (n,) mask, apart from memory."""
        cut = cut_nets(self.net, members)
        return float(self.work[members].sum() + self.cost[cut].sum())

    def net_loads(self) -> Floats:
        """(n,) f({v}) apart from memory: work and all nets of the item."""
        loads = self.work.copy()
        np.add.at(loads, self.net.pins, np.repeat(self.cost, np.diff(self.net.ptr)))
        return loads

    def singles(self) -> Floats:
        """(n,) what a block costs at least that holds this item: its work, and memory that it needs by itself."""
        if not np.isfinite(self.limit[0]):
            return self.work
        held = self.held + self.workspace
        for v in range(self.items):
            held[v] += self.cover_bytes[self.cover.holding(v)].sum()
        over = np.maximum(0.0, held - self.limit[0])
        singles: Floats = self.work + over * np.where(over > 0, self.limit[1], 0.0)
        return singles


def cut_nets(net: Sets, members: Bools) -> Bools:
    """(m,) nets with a pin in the set with this (n,) mask and another outside."""
    inside = np.add.reduceat(members[net.pins], net.ptr[:-1]) if len(net.ptr) > 1 else np.zeros(0)
    cut: Bools = (inside > 0) & (inside < np.diff(net.ptr))
    return cut
