"""The simple bound of identical devices: the largest item, and the mean work of a device.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §3.
"""

from __future__ import annotations

import math

from partita.kernels.throughput.blocks import BlockProblem
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.protocol import HierarchyBound

#: Sums of many operators may round up: step back by more than they can have gained.
ROUNDING = 1e-12


def simple_bound(uniform: BlockProblem) -> float:
    """max(largest work, total work / devices)."""
    largest = float(uniform.work.max(initial=0.0))
    return max(largest, math.fsum(uniform.work.tolist()) / uniform.devices) * (1 - ROUNDING)


class SimpleBound(HierarchyBound):
    """What any split of the work over identical devices costs; ``capacity`` is the same for mixed devices."""

    name = "simple"
    summary = "largest operator, and total work over the number of devices; ignores communication"
    scope = "free"

    def improve(self, knowledge: Knowledge, deadline_s: float | None) -> None:
        """It takes no time worth asking for."""
        knowledge.prove(simple_bound(knowledge.uniform), self.name)
