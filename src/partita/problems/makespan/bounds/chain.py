"""Blocks between separators, each bounded by itself, added up along the shortest path."""

from __future__ import annotations

import math

from partita.problems.kind import BoundMethod
from partita.problems.makespan.bounds.simple import impossible, simple_bound
from partita.problems.makespan.chain_path import lengths, rows_of
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.separators import chain_of
from partita.run.monitor import Monitor
from partita.run.result import Bound


class Separators(BoundMethod[MakespanProblem]):
    """The sum of bounded blocks.

    In any schedule the separators are somewhere, and the makespan is at least the sum of their times and of the
    makespans of the blocks between them (``partita.problems.makespan.separators``); with a valid bound in place of each
    block's makespan, and the least over the devices of the separators, which is a shortest path, that stays a bound.
    """

    name = "separators"
    summary = "chains and work of each block between separators, summed along the best devices of the separators"

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

        def length(number: int, source: int, target: int) -> float:
            block = chain.blocks[number]
            key = block.key, source, target
            # Without time the rest counts nothing.
            if key not in known and monitor.stopping:
                return 0.0
            if key not in known:
                known[key] = simple_bound(block.at(source, target))
            return known[key]

        total = lengths(chain, rows_of(chain), length).total * (1 - 1e-11)
        return Bound(total, self.name, self.scope, monitor.elapsed_s)
