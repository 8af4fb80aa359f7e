"""Blocks between separators, each bounded by itself, added up along the shortest path."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.ground.rounding import lowered
from partita.problems.makespan.bounds.energetic import destructive_bound
from partita.problems.makespan.bounds.multipliers import multiplier_bound
from partita.problems.makespan.bounds.simple import InstanceBound, impossible, simple_bound, work_bound
from partita.problems.makespan.instance import MakespanInstance, build_instance, critical_of, labels
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.separators import Block, Chain, chain_of
from partita.problems.makespan.thinning import thin


class BlockBounds:
    """Of a block, for every pair of devices of its ends: chains, and work, which they do not change."""

    def __init__(self, block: Block) -> None:
        self.block, self.instance = block, block.at()
        self.ends = [place for place, v in enumerate(block.operators) if v in (block.entry, block.exit)]
        self.nowhere = impossible(self.instance) is not None
        self.work = 0.0 if self.nowhere else work_bound(self.instance)
        group = self.instance.arrays.group.of
        #: Where the device of an end is that of members, their work depends on it.
        self.tied = any(int((group == group[v]).sum()) > 1 for v in self.ends)

    def bound(self, source: int, target: int) -> float:
        """What the block takes at least between two devices; infinite if that cannot be."""
        homes = [d for d in (source, target) if d >= 0]
        able = self.instance.able
        if self.nowhere or not all(able[v, d] for v, d in zip(self.ends, homes, strict=True)):
            return math.inf
        able = able.copy()
        group = self.instance.arrays.group.of
        for v, d in zip(self.ends, homes, strict=True):
            able[group == group[v], :d] = False
            able[group == group[v], d + 1 :] = False
        if not able.any(axis=1).all():
            return math.inf
        time = np.where(able, self.instance.arrays.time, math.inf)
        chain = critical_of(*labels(self.instance.arrays, self.instance.ordered, time))
        return max(chain, simple_bound(self.block.at(source, target)) if self.tied else self.work)


def _chain(instance: MakespanInstance) -> Chain | None:
    """What splits the problem, or the thinned one; None if nothing does."""
    chain = chain_of(instance)
    if chain.helps:
        return chain
    thinned = thin(instance)
    return thinned.chain if thinned is not None and thinned.chain.helps else None


class Separators(InstanceBound):
    """The sum of bounded blocks.

    In any schedule the separators are somewhere, and the makespan is at least the sum of their times and of the
    makespans of the blocks between them (``partita.problems.makespan.separators``); with a valid bound in place of each
    block's makespan, and the least over the devices of the separators, which is a shortest path, that stays a bound.
    Where nothing separates blocks, this is done without what stands beside nearly everything
    (``partita.problems.makespan.thinning``).
    """

    name = "separators"
    summary = "each block between separators bounded by all means, summed along the best devices of the separators"
    argument = (
        "every schedule passes the separators one by one, and the bounds of the blocks between add up along the "
        "shortest path"
    )

    def supports(self, problem: MakespanProblem) -> str | None:
        if _chain(build_instance(problem)) is not None:
            return None
        return "no operators separate the problem into blocks; use critical path"

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        chain = _chain(instance)
        if chain is None:
            return instance.critical
        known: dict[tuple[int, int, int], float] = {}
        simple = cache(lambda number: BlockBounds(chain.blocks[number]))

        def length(number: int, source: int, target: int) -> float:
            arc = chain.alike[number], source, target
            # Without time the rest counts nothing.
            if arc not in known and monitor.stopping:
                return 0.0
            if arc not in known:
                known[arc] = simple(arc[0]).bound(source, target)
            return known[arc]

        found = chain.paths(length)
        better: set[tuple[int, int, int]] = set()
        while math.isfinite(found.total):
            # What the shortest path is made of is bounded by all means, until it is by all means the shortest.
            arcs = [(chain.alike[k], chain.rows[k][i], chain.rows[k + 1][j]) for k, i, j in found.path()]
            arcs = [arc for arc in arcs if chain.blocks[arc[0]].members and arc not in better]
            for arc in arcs:
                if monitor.stopping:
                    break
                better.add(arc)
                inner = chain.blocks[arc[0]].at(*arc[1:])
                value = destructive_bound(inner, known[arc], monitor)
                known[arc] = max(known[arc], value, multiplier_bound(inner, monitor))
            found = chain.paths(length)
            if monitor.stopping or not arcs:
                break
        return max(lowered(found.total), instance.critical)
