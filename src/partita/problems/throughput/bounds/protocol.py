"""What a member of the hierarchy of bounds is, and the first of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import rounded_down
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.contraction.blocks import uniform, uniform_refusal
from partita.problems.throughput.problem import ThroughputProblem

#: Programs of whole splits have few variables up to so many blocks; the search for blocks is short up to so many items.
FEW_BLOCKS, SMALL_BLOCK = 5, 25


def simple_bound(uniform: BlockProblem) -> float:
    """max(largest work, total work / devices)."""
    largest = float(uniform.work.max(initial=0.0))
    mean = math.fsum(uniform.work.tolist()) / uniform.devices
    # Work of an item is a sum of operators.
    return rounded_down(max(largest, mean), max(largest, mean), len(uniform.group))


def suits_programs(uniform: BlockProblem) -> bool:
    """Whether programs of whole splits are likely to prove more in the same time than a search for single blocks."""
    return uniform.devices <= FEW_BLOCKS or uniform.items > SMALL_BLOCK * uniform.devices


class HierarchyBound:
    """A bound on the uniform relaxation that reads and adds to what the others know.

    It says its ``name``, ``summary``, ``argument`` and ``scope``, and how to ``refine`` the simple bound. All are
    refused or run alone in the same way.
    """

    name: str
    summary: str
    argument: str
    scope: str = "acyclic"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, and loads that add transfers to work."""
        return uniform_refusal(problem)

    def improve(self, knowledge: Knowledge, deadline_s: float | None) -> None:
        """Raise the bound of ``knowledge`` to the simple bound, and then as far as this method can within some seconds.

        Work of all items is finite. ``knowledge.done`` is polled, and ends the method early; what is proven counts.
        """
        end = math.inf if deadline_s is None else time.perf_counter() + deadline_s
        knowledge.prove(simple_bound(knowledge.uniform), self.name)
        self.refine(knowledge, lambda: end - time.perf_counter())

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Raise the bound with ``prove(value, self.name)``; ``left_s`` are the seconds left, infinite for no limit."""

    def share(self, uniform: BlockProblem) -> float:
        """Its part of the time that the hierarchy has left, relative to the other methods; 0 to be left out.

        As much as any other; those that are better for small or for large blocks say so.
        """
        return 1.0

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """What this member proves by itself; infinite if an operator can run nowhere."""
        knowledge = Knowledge.watched(uniform(problem, free=self.scope == "free"), monitor)
        if knowledge.uniform.runs:
            self.improve(knowledge, None if monitor.time_limit_s is None else monitor.remaining_s)
        else:
            knowledge.prove(float("inf"), self.name)
        return Bound(knowledge.bound, self.name, self.scope, monitor.elapsed_s)


class SimpleBound(HierarchyBound):
    """What any split of the work over identical devices costs; ``capacity`` is the same for mixed devices."""

    name = "simple"
    summary = "largest operator, and total work over the number of devices; ignores communication"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"
    scope = "free"
