"""The row of layers as a training or serving runtime sees it: embedding, repeated blocks, head.

Runtimes divide the repeated blocks and treat what comes before and after them by rules of their own. Blocks are the
layers of ``problems.throughput.baselines.layers``; here the operators before the first and behind the last are parts
of their own.
Problems without module names have one block per operator class, and no such parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np

from partita.dags import row_of_blocks
from partita.problems.throughput.baselines.layers import Layers, accelerator_devices, item_layers, plan_from_cuts
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.run.monitor import Monitor


@dataclass(frozen=True)
class BlockRow:
    """Input part, blocks, output part, as one row of layers.

    Attributes
    ----------
    layers
        The row.
    before, after
        1 if the row begins with an input part or ends with an output part, otherwise 0.
    """

    layers: Layers
    before: int
    after: int

    @property
    def count(self) -> int:
        """Number of repeated blocks."""
        return self.layers.count - self.before - self.after

    def cuts(self, counts: Sequence[int]) -> list[int]:
        """Cuts of the row for so many blocks per device; input part on the first device, output part on the last."""
        return [self.before + total for total in accumulate(counts[:-1])]


def find_blocks(problem: ThroughputProblem) -> BlockRow:
    """The row of a problem."""
    instance = build_instance(problem)
    names = item_layers(problem, instance)
    if not any(names):
        return BlockRow(Layers(instance, np.arange(instance.items), instance.items), 0, 0)
    preds = [instance.pred[instance.pred_ptr[v] : instance.pred_ptr[v + 1]].tolist() for v in range(instance.items)]
    places, blocks = row_of_blocks(names, preds)
    place, last = np.array(places, dtype=np.int64), len(blocks)
    before, after_part = int((place == 0).any()), int((place > last).any())
    return BlockRow(Layers(instance, place - (1 - before), last + before + after_part), before, after_part)


class BlockLayout(ABC):
    """A runtime's rule for how many blocks each device gets. It proves nothing, and may not fit in memory."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def refusal(self, blocks: int, devices: int) -> str | None:
        """None if the runtime accepts so many blocks on so many devices, otherwise why it does not."""
        return None

    @abstractmethod
    def counts(self, blocks: int, devices: int) -> list[int]:
        """Blocks of every device, first device first."""

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """What the runtime itself accepts; a contiguous answer is a valid free one too."""
        return self.refusal(find_blocks(problem).count, len(accelerator_devices(problem)))

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Lay out once."""
        blocks = find_blocks(problem)
        counts = self.counts(blocks.count, len(accelerator_devices(problem)))
        return Outcome(plan=plan_from_cuts(problem, blocks.layers, blocks.cuts(counts)))
