"""The node bound: the cheapest block with an item, for the item where that is most.

f(S) = work + cut nets is submodular as long as S need not be convex, so the minimum over all S with an item is a
minimum cut. Of convexity one half fits in: what lies between the item and another one of the block.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.throughput.mincut import block_network, most_expensive_item
from partita.ground.rounding import lowered, raised
from partita.problems.throughput.bounds.knowledge import HierarchyBound, Knowledge

#: Cuts computed before the clock is read.
BATCH = 32


class NodeBound(HierarchyBound):
    """max over items v of min over sets S with v of f(S), with what convexity says about v and the rest of S."""

    name = "node"
    summary = "cheapest block with one operator, for the operator where it is most: one minimum cut each"
    argument = "a maximum flow out of one operator charges work and transfers of whatever convex set holds it"

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Items by decreasing upper estimate, until no estimate exceeds the bound."""
        uniform = knowledge.uniform
        if not uniform.items or uniform.devices < 2:
            return
        network = block_network(uniform, np.zeros(uniform.nets, dtype=np.int8))
        upper = uniform.net_loads()
        best = knowledge.bound
        while not knowledge.done and left_s() > 0:
            best = most_expensive_item(network, uniform, self.scope == "acyclic", upper, best, BATCH)
            # Each path of a flow adds to it, and there are some thousands at most.
            knowledge.prove(lowered(best), self.name)
            if float(upper.max(initial=-math.inf)) <= raised(best):
                return


class FreeNodeBound(NodeBound):
    """The same over any sets."""

    name = "node-free"
    summary = "as node, for blocks that need not be convex"
    argument = "a maximum flow out of one operator charges work and transfers of whatever set holds it"
    scope = "free"
