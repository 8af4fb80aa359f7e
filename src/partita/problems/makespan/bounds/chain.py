"""Blocks between separators, each bounded by itself, added up along the shortest path."""

from __future__ import annotations

import math

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import lowered
from partita.problems.kind import BoundMethod
from partita.problems.makespan.bounds.blocks import BlockBounds
from partita.problems.makespan.bounds.energetic import destructive_bound
from partita.problems.makespan.bounds.multipliers import multiplier_bound
from partita.problems.makespan.bounds.simple import impossible
from partita.problems.makespan.chain_path import lengths, rows_of
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.separators import chain_of


class Separators(BoundMethod[MakespanProblem]):
    """The sum of bounded blocks.

    In any schedule the separators are somewhere, and the makespan is at least the sum of their times and of the
    makespans of the blocks between them (``partita.problems.makespan.separators``); with a valid bound in place of each
    block's makespan, and the least over the devices of the separators, which is a shortest path, that stays a bound.
    """

    name = "separators"
    summary = "each block between separators bounded by all means, summed along the best devices of the separators"
    argument = (
        "every schedule passes the separators one by one, and the bounds of the blocks between add up along the "
        "shortest path"
    )

    def supports(self, problem: MakespanProblem) -> str | None:
        if chain_of(build_instance(problem)).helps:
            return None
        return "no operators separate the problem into blocks; use critical path"

    def bound(self, problem: MakespanProblem, monitor: Monitor) -> Bound:
        instance = build_instance(problem)
        if impossible(instance) is not None:
            return Bound(math.inf, self.name, self.scope, monitor.elapsed_s)
        chain = chain_of(instance)
        known: dict[tuple[bytes, int, int], float] = {}
        blocks: dict[bytes, BlockBounds] = {}

        def length(number: int, source: int, target: int) -> float:
            block = chain.blocks[number]
            key = block.key, source, target
            # Without time the rest counts nothing.
            if key not in known and monitor.stopping:
                return 0.0
            if block.key not in blocks:
                blocks[block.key] = BlockBounds(block)
            if key not in known:
                known[key] = blocks[block.key].bound(source, target)
            return known[key]

        rows = rows_of(chain)
        found = lengths(chain, rows, length)
        better: set[tuple[bytes, int, int]] = set()
        while math.isfinite(found.total):
            # What the shortest path is made of is bounded by all means, until it is by all means the shortest.
            open_arcs = [(chain.blocks[k], rows[k][i], rows[k + 1][j]) for k, i, j in found.path()]
            open_arcs = [arc for arc in open_arcs if arc[0].members and (arc[0].key, *arc[1:]) not in better]
            for block, source, target in open_arcs:
                if monitor.stopping:
                    break
                key = block.key, source, target
                better.add(key)
                inner = block.at(source, target)
                value = destructive_bound(inner, known[key], monitor) if known[key] > 0 else 0.0
                known[key] = max(known[key], value, multiplier_bound(inner, monitor))
            found = lengths(chain, rows, length)
            if monitor.stopping or not open_arcs:
                break
        total = lowered(found.total)
        return Bound(max(total, instance.critical), self.name, self.scope, monitor.elapsed_s)
