"""The row of layers as a training or serving runtime sees it: embedding, repeated blocks, head.

Runtimes divide the repeated blocks and treat what comes before and after them by rules of their own. Blocks are the
layers of ``problems.throughput.baselines.layers``; here the operators before the first and behind the last are parts
of their own.
Problems without module names have one block per operator class, and no such parts.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import accumulate

import numpy as np

from partita.engines.kernels.graph_arrays import lists
from partita.ground.dags import row_of_blocks
from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers, accelerator_devices, item_layers
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options


def find_blocks(problem: ThroughputProblem) -> Layers:
    """The row of a problem."""
    instance = build_instance(problem)
    names = item_layers(problem, instance)
    preds = lists(instance.graph.pred_ptr, instance.graph.pred)
    places, blocks = row_of_blocks(names, preds)
    place, last = np.array(places, dtype=np.int64), len(blocks)
    before, after = int((place == 0).any()), int((place > last).any())
    return Layers(instance, place - (1 - before), last + before + after, before, after)


class BlockRow(LayerBaseline):
    """A row that begins with the embedding and ends with norm and head as layers of their own, as users write it."""

    def row(self, problem: ThroughputProblem) -> Layers:
        return find_blocks(problem)


class BlockLayout(BlockRow):
    """A runtime's rule for how many blocks each device gets; embedding and head go to the first and the last."""

    def refusal(self, blocks: int, devices: int) -> str | None:
        """None if the runtime accepts so many blocks on so many devices, otherwise why it does not."""
        return None

    @abstractmethod
    def counts(self, blocks: int, devices: int) -> list[int]:
        """Blocks of every device, first device first."""

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        return self.refusal(find_blocks(problem).blocks, len(accelerator_devices(problem)))

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return [layers.before + total for total in accumulate(self.counts(layers.blocks, devices)[:-1])]
