"""DeepSpeed's PipelineModule: two of its partition methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.problems.throughput.baselines.blocks import BlockRow
from partita.problems.throughput.baselines.layers import Layers
from partita.problems.throughput.problem import ThroughputProblem


def partition_uniform(items: int, parts: int) -> list[int]:
    """Starts of the parts and the end: ⌊items ÷ parts⌋ each, one more for the first ones.

    Source: DeepSpeed, ``deepspeed/runtime/utils.py: partition_uniform``.
    """
    if items <= parts:
        return [min(part, items) for part in range(parts + 1)]
    each, rest = divmod(items, parts)
    return [part * each + min(part, rest) for part in range(parts + 1)]


def partition_balanced(weights: Sequence[float] | Floats, parts: int) -> list[int]:
    """Starts of the parts and the end, by DeepSpeed's dynamic program.

    It keeps, for each prefix and number of parts, the split with the smallest difference between its largest and
    smallest part; of equal ones the one whose last part is shortest. Keeping one split per prefix makes it a heuristic.
    Source: DeepSpeed, ``deepspeed/runtime/utils.py: partition_balanced`` (since 0.14; older versions searched for the
    smallest largest part instead).
    """
    n = len(weights)
    if n <= parts:
        return partition_uniform(n, parts)
    prefix = np.concatenate([[0.0], np.cumsum(weights)])
    largest = np.full((n + 1, parts + 1), np.inf)
    smallest = np.full((n + 1, parts + 1), np.inf)
    start = np.zeros((n + 1, parts + 1), dtype=np.int64)
    largest[0, 0] = 0.0
    for end in range(1, n + 1):
        for part in range(1, min(end, parts) + 1):
            last = prefix[end] - prefix[:end]
            high = np.maximum(largest[:end, part - 1], last)
            low = np.minimum(smallest[:end, part - 1], last)
            spread = high - low
            # The last of equal ones.
            chosen = end - 1 - int(spread[::-1].argmin())
            if np.isfinite(spread[chosen]):
                largest[end, part], smallest[end, part] = high[chosen], low[chosen]
                start[end, part] = chosen
    bounds = [n]
    for part in range(parts, 0, -1):
        bounds.append(int(start[bounds[-1], part]))
    return bounds[::-1]


class DeepSpeed(BlockRow):
    """``partition_method='parameters'``, the default: a tied parameter counts in every layer that reads it."""

    name = "deepspeed"
    summary = "DeepSpeed's 'parameters': evens parameter bytes; ignores compute, activations, transfers"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return partition_balanced(layers.stored(problem, copies=True), devices)[1:-1]


class DeepSpeedUniform(BlockRow):
    """``partition_method='uniform'``."""

    name = "deepspeed-uniform"
    summary = "DeepSpeed's 'uniform': layers evenly, embedding and head among them; ignores all costs"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return partition_uniform(layers.count, devices)[1:-1]
