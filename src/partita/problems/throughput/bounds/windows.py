"""The window bound: branch and bound over which blocks every item may be in.

A node gives every item a window of consecutive blocks. What follows from the windows (``kernels.throughput.windows``)
narrows them, and bounds the largest load. A node is divided at a boundary between blocks, by an item that lies before
it in one part and after it in the other; all items before or after that one follow. After a few such decisions the
main line of a graph is cut into pieces, tensors over their ends are known to be cut, and what hangs beside it matters
little. The node with the least bound is next: that bound holds for all splits.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Bytes
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.mincut import block_network
from partita.engines.kernels.throughput.windows import dividing_item, new_window_room, settle_windows
from partita.ground.rounding import rounded_down
from partita.problems.throughput.bounds.knowledge import FEW_BLOCKS, HierarchyBound, Knowledge

#: Items and blocks up to which nodes are small and soon done.
MOST_ITEMS, MOST_BLOCKS = 5_000, 64
#: Blocks above which other bounds prove more in the same time.
WORTH_BLOCKS = 8
#: Bytes of open nodes at which the search ends with what it has proven; and those of a node beside its windows.
MOST_BYTES, NODE_BYTES = 5e8, 400
#: Share by which the bound rises before it is told.
STEP = 2e-4
#: Nodes divided between two descents to a split.
DESCENTS = 1_000


class WindowSearch:
    """The open nodes of one problem, which a later call can go on from.

    Windows of charged work are where it starts from; nodes are compared with the value that is known.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge, self.uniform = knowledge, knowledge.uniform
        uniform = self.uniform
        n, k = uniform.items, uniform.devices
        # A network of transfers alone.
        bare = uniform._replace(work=np.zeros(n))
        self.room = new_window_room(bare, block_network(bare, np.zeros(uniform.nets, dtype=np.int8)))
        self.counter, self.divided = itertools.count(), 0
        #: The least load of a split that may be an answer, although none is known for it.
        self.unsettled = math.inf
        self.open: list[tuple[float, int, Bytes, Bytes]] = []
        first, last = np.zeros(n, dtype=np.int8), np.full(n, k - 1, dtype=np.int8)
        charged = knowledge.charged
        if charged is not None and charged.target >= knowledge.value:
            first, last = charged.parts.first.astype(np.int8), charged.parts.last.astype(np.int8)
        self._keep(0.0, first, last)

    def _keep(self, bound: float, first: Bytes, last: Bytes) -> None:
        """Open a node unless no split in it is better than the best one known; ``bound`` is that of its parent."""
        value = self.knowledge.value
        bound = max(bound, float(settle_windows(self.uniform, first, last, value, self.room)))
        if bound < value:
            heapq.heappush(self.open, (bound, next(self.counter), first, last))

    def run(self, stop: Callable[[], bool], by: str) -> None:
        """Divide nodes until none is left that could hold a better split, or until told to stop."""
        knowledge, told, node_bytes = self.knowledge, 0.0, 2.0 * self.uniform.items + NODE_BYTES
        while self.open and not stop() and len(self.open) * node_bytes < MOST_BYTES:
            self.divided += 1
            if self.divided % DESCENTS == 0:
                self._descend(*self.open[0][2:], stop, by)
            bound, _, first, last = heapq.heappop(self.open)
            if bound >= min(knowledge.value, self.unsettled):
                self.open.clear()
                break
            if bound > told * (1 + STEP):
                knowledge.prove(self._certain(bound), by)
                told = bound
            boundary, item = dividing_item(self.uniform, first, last, self.room)
            if item < 0:
                # One split is left. Where memory forbids it, it is no loss; otherwise it is the best there is.
                load = knowledge.offer_blocks(first.astype(np.int32), by)
                if not knowledge.complete and load < knowledge.value:
                    self.unsettled = min(self.unsettled, load)
                continue
            before, after = last.copy(), first.copy()
            before[item], after[item] = boundary, boundary + 1
            self._keep(bound, first.copy(), before)
            self._keep(bound, after, last)
        least = min([knowledge.value, self.unsettled, *(node[0] for node in self.open[:1])])
        if not math.isinf(least):
            knowledge.prove(self._certain(least), by)

    def _descend(self, first: Bytes, last: Bytes, stop: Callable[[], bool], by: str) -> None:
        """Take the part with the smaller bound until one split is left, or none that is better."""
        while not stop():
            boundary, item = dividing_item(self.uniform, first, last, self.room)
            if item < 0:
                self.knowledge.offer_blocks(first.astype(np.int32), by)
                return
            parts = []
            for before in (True, False):
                low, high = first.copy(), last.copy()
                (high if before else low)[item] = boundary + (not before)
                bound = float(settle_windows(self.uniform, low, high, self.knowledge.value, self.room))
                parts.append((bound, before, low, high))
            bound, _, first, last = min(parts, key=lambda part: part[:2])
            if bound >= self.knowledge.value:
                return

    def _certain(self, bound: float) -> float:
        """Windows compare sums over some of the blocks with as many times the target."""
        uniform = self.uniform
        return rounded_down(bound, bound * uniform.devices, len(uniform.group) + uniform.nets)


class WindowBound(HierarchyBound):
    """Divides the windows of blocks that items may be in, the least bound first."""

    name = "windows"
    summary = "branch and bound over the blocks that operators may be in, with minimum cuts between blocks"
    argument = "branch and bound over the blocks that operators may be in covered every case"

    def share(self, uniform: BlockProblem) -> float:
        """Most where there are few blocks: then a few decisions place everything."""
        if uniform.devices > WORTH_BLOCKS or uniform.items > MOST_ITEMS:
            return 0.0
        return 12.0 if uniform.devices <= FEW_BLOCKS else 2.0

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Go on from the open nodes of the last time, to be better than a single block where no split is known."""
        uniform = knowledge.uniform
        if not 0 < uniform.items <= MOST_ITEMS or not 2 <= uniform.devices <= MOST_BLOCKS or knowledge.done:
            return
        if not math.isfinite(knowledge.value):
            knowledge.offer_blocks(np.zeros(uniform.items, dtype=np.int32), self.name)
        if self.name not in knowledge.kept:
            knowledge.kept[self.name] = WindowSearch(knowledge)
        knowledge.kept[self.name].run(lambda: knowledge.done or left_s() <= 0, self.name)
