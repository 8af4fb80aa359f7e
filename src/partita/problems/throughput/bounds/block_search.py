"""Searches for blocks that carry too much charge, at all items in turn, on several threads.

Every block has an *anchor*, its first item in the numbering, so searches at all anchors look at all blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs, Words, bit_rows, row_masks
from partita.engines.kernels.throughput.block_growth import grow_blocks
from partita.engines.kernels.throughput.covering import search_block
from partita.engines.kernels.throughput.cut_search import search_by_cuts
from partita.engines.kernels.throughput.mincut import TINY
from partita.ground.rounding import NOT_ZERO, clearly_below, up_to
from partita.problems.throughput.bounds.block_pool import BlockPool
from partita.problems.throughput.bounds.knowledge import Charged

#: Nodes of a search with knapsacks before one with minimum cuts; and of one for a block that carries still more.
SIMPLE, FURTHER = 40, 40
#: What blocks carry that are good to know, though they prove nothing: this part of what others carry above 1.
FAIR = 0.1
#: How far the taste for an item is from 1 in the second of two attempts to grow blocks.
TASTE = 0.3
#: Blocks after which the charges are computed anew: so many, or a part of the items.
ENOUGH, PART = 25, 0.2


class _Answer(NamedTuple):
    """Of the search at an anchor: 0 for no block, 1 for a block, 2 for not known; the block, and one that is near."""

    anchor: int
    status: int
    block: Words
    near: Words


class BlockSearch:
    """Searches for blocks of load at most a target; what they find goes into the pool.

    Charges for it are those of blocks up to the target ``priced``, which is no smaller.
    ``earlier`` is a search at another target, from whose prices and anchors this one goes on.
    """

    def __init__(
        self,
        pool: BlockPool,
        target: float,
        threads: int,
        stop: Callable[[], bool],
        charged: Charged | None = None,
        earlier: BlockSearch | None = None,
    ) -> None:
        self.pool, self.target, self.priced = pool, target, target
        self.threads, self.stop = threads, stop
        n = pool.uniform.items
        self.exclusions = pool.exclusions(target, charged)
        self.before = bit_rows(np.tri(n, k=-1, dtype=np.bool_))
        self.flag = np.zeros(1, dtype=np.int64)
        self.random: np.random.Generator = np.random.default_rng(0) if earlier is None else earlier.random
        #: Price of load that an anchor ended with, and the number of its last search.
        self.price: Floats = np.full(n, 1 / max(target, NOT_ZERO)) if earlier is None else earlier.price
        self.last: Longs = np.zeros(n, dtype=np.int64) if earlier is None else earlier.last
        #: Anchors whose last search gave up.
        self.hard: Bools = np.zeros(n, dtype=np.bool_)

    def lower(self, target: float, *, priced: bool) -> None:
        """Go on at a smaller target, for which what blocks cannot hold is still true.

        Charges are ``priced`` at it, too, or still at the larger one: these are lower, but nothing is new to them.
        """
        self.target = target
        self.priced = target if priced else self.priced

    def anchors(self) -> list[int]:
        """All anchors: those last whose last search gave up, and those first that were not searched for longest."""
        return [int(v) for v in np.lexsort((self.last, self.hard))]

    def grow(self, charge: Floats, share: float) -> int:
        """Grow blocks from every item, which proves nothing; the number of new ones that carry more than ``share``."""
        n, found = self.pool.uniform.items, 0
        seeds = np.arange(n, dtype=np.int64)
        self.flag[0] = 0
        for taste in (np.ones(n), self.random.uniform(1 - TASTE, 1 + TASTE, n)):
            blocks, carried = grow_blocks(
                self.pool.uniform, self.exclusions, charge, self.target, taste, seeds, self.flag
            )
            for place in np.flatnonzero(carried > 1 + FAIR * (share - 1)):
                new = self.pool.add(row_masks(blocks[place], n), active=True)
                found += int(new and carried[place] > share)
        return found

    def round(self, charge: Floats, share: float, anchors: Sequence[int], nodes: int) -> tuple[int, list[int]]:
        """Search at each anchor for a block with more than ``share``, with so many nodes.

        The number of new blocks, and the anchors left open.
        """
        self.flag[0] = 0
        n = self.pool.uniform.items
        found, open_anchors, place = 0, [], 0
        with ThreadPoolExecutor(self.threads) as executor:
            running: set[Future[_Answer]] = set()
            while running or place < len(anchors):
                while place < len(anchors) and len(running) < 2 * self.threads and self.flag[0] == 0:
                    if found >= ENOUGH and self.hard[anchors[place]]:
                        # Other charges may make it easy.
                        break
                    running.add(executor.submit(self._at, charge, share, anchors[place], nodes))
                    place += 1
                if not running:
                    break
                done, running = wait(running, timeout=0.05, return_when=FIRST_COMPLETED)
                if self.stop():
                    self.flag[0] = 1
                for future in done:
                    answer = future.result()
                    self.last[answer.anchor] = self.last.max() + 1
                    self.hard[answer.anchor] = answer.status == 2 and self.flag[0] == 0
                    if answer.near.any():
                        self.pool.add(row_masks(answer.near, n), active=True)
                    if answer.status == 1 and self.pool.add(row_masks(answer.block, n), active=True):
                        found += 1
                    elif answer.status != 0:
                        open_anchors.append(answer.anchor)
                if found >= max(ENOUGH, PART * n):
                    self.flag[0] = 1
        return found, [*open_anchors, *anchors[place:]]

    def _at(self, charge: Floats, share: float, anchor: int, nodes: int) -> _Answer:
        """A short search with knapsacks, then one with minimum cuts."""
        uniform, x, wanted = self.pool.uniform, self.exclusions, clearly_below(share)
        block, near = np.zeros((2, x.after.shape[1]), dtype=np.uint64)
        simple, _ = search_block(uniform, x, charge, up_to(self.target), wanted, anchor, SIMPLE, self.flag, block)
        if simple == 0 or self.flag[0] != 0:
            return _Answer(anchor, simple, block, near)
        if simple == 1:
            # One that carries more is worth more than several others.
            wanted, nodes = up_to(float(charge[row_masks(block, len(charge))].sum())), FURTHER
        status, _, self.price[anchor] = search_by_cuts(
            uniform,
            x,
            TINY * float(charge.sum()),
            charge,
            up_to(self.target),
            wanted,
            1 + FAIR * (share - 1),
            anchor,
            self.before[anchor],
            self.price[anchor],
            nodes,
            FURTHER,
            self.flag,
            block,
            near,
        )
        return _Answer(anchor, 1 if simple == 1 else status, block, near)
