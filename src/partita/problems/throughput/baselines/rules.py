"""Rules for where to cut the chain of layers without search: by hand, and as training and serving runtimes do it.

Runtimes divide the repeated blocks of a chain, and treat what comes before and behind them by rules of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.layers import (
    Layers,
    accelerator_devices,
    balanced_boundaries,
    find_blocks,
    find_items,
    find_layers,
    first_kind_work,
    plan_from_labels,
)
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, Solver, ThroughputOptions


class LayerBaseline(Solver, ABC):
    """A split that only chooses where to cut the chain of layers. It proves nothing, and may not fit in memory."""

    #: The layers to cut.
    layers = staticmethod(find_layers)

    @abstractmethod
    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        """First layer of every device after the first, ascending."""

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        layers, devices = self.layers(problem), len(accelerator_devices(problem))
        cuts = np.array(self.cuts(problem, layers, devices)[: devices - 1], dtype=np.int64)
        run = np.searchsorted(cuts, layers.layer_of, side="right")
        return Outcome(plan=plan_from_labels(problem, layers.instance, run))


class Unsplit(LayerBaseline):
    """All operators on the first accelerator: what a split must beat, if one device can hold the model."""

    name = "single-device"
    summary = "everything on the first device, no transfers; ignores the other devices and memory"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return []


class EqualLayers(LayerBaseline):
    """Device i of d takes layers ⌊i·n/d⌋ up to ⌊(i+1)·n/d⌋."""

    name = "equal-layers"
    summary = "equal number of layers per device; ignores their cost, memory and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return sorted({i * layers.count // devices for i in range(1, devices)} - {0})


class EqualParameters(LayerBaseline):
    """Cut the layers so that the largest sum of parameter bytes, each where it is first used, is smallest."""

    name = "equal-parameters"
    summary = "balances parameter bytes; ignores compute time, activations and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return balanced_boundaries(layers.stored(problem, copies=False), devices)


class EqualTime(LayerBaseline):
    """Cut the layers so that the largest compute time is smallest, measured on the first accelerator kind."""

    name = "equal-time"
    summary = "balances compute time of the first device kind; ignores memory and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return balanced_boundaries(layers.total(first_kind_work(problem, layers.instance)), devices)


class MemoryGreedy(LayerBaseline):
    """Put layers on a device until the next does not fit, then go on with the next device; the last has what is left.

    This is what accelerate's sequential device map does with the capacity of each device. The fit is judged by what is
    stored once (weights, gradients, optimizer states) and one microbatch's activations.
    """

    name = "memory-greedy"
    summary = "fills each device's memory before the next; ignores time and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        instance = layers.instance
        size = layers.total(instance.fixed + instance.active)
        first = instance.cover.pins[instance.cover.ptr[:-1]]
        np.add.at(size, layers.layer_of[first], instance.cover_fixed + instance.cover_active)
        scratch = np.zeros(layers.count)
        np.maximum.at(scratch, layers.layer_of, instance.workspace)
        limits = [float(instance.memory[kind]) for _, kind in accelerator_devices(problem)]
        cuts: list[int] = []
        used = peak = 0.0
        for layer in range(layers.count):
            peak = max(peak, float(scratch[layer]))
            if layer > 0 and used + size[layer] + peak > limits[len(cuts)] and len(cuts) < devices - 1:
                cuts.append(layer)
                used, peak = 0.0, float(scratch[layer])
            used += float(size[layer])
        return cuts


class GreedyTopological(LayerBaseline):
    """Operators one after the other, the next device as soon as this one has its share of the total work.

    The order is topological with the file's order among equals; operators that must stay together go together. Work is
    the time on the first accelerator kind. The list-scheduling splits of hand-written placers do this.
    """

    name = "greedy-topological"
    summary = "operators in topological order up to total/k work per device; ignores memory, transfers"
    layers = staticmethod(find_items)

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        work = first_kind_work(problem, layers.instance)
        share, used = float(work.sum()) / devices, 0.0
        cuts: list[int] = []
        for item, time in enumerate(work.tolist()):
            if used >= share and len(cuts) < devices - 1:
                cuts.append(item)
                used = 0.0
            used += time
        return cuts


def partition_uniform(items: int, parts: int) -> list[int]:
    """Starts of the parts and the end: ⌊items ÷ parts⌋ each, one more for the first ones.

    Source: DeepSpeed, ``deepspeed/runtime/utils.py: partition_uniform``.
    """
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


class DeepSpeedParameters(LayerBaseline):
    """``partition_method='parameters'``, the default: a tied parameter counts in every layer that reads it."""

    name = "deepspeed"
    summary = "DeepSpeed's 'parameters': evens parameter bytes; ignores compute, activations, transfers"
    layers = staticmethod(find_blocks)

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return partition_balanced(layers.stored(problem, copies=True), devices)[1:-1]


class DeepSpeedUniform(LayerBaseline):
    """``partition_method='uniform'``."""

    name = "deepspeed-uniform"
    summary = "DeepSpeed's 'uniform': layers evenly, embedding and head among them; ignores all costs"
    layers = staticmethod(find_blocks)

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return partition_uniform(layers.count, devices)[1:-1]


class BlockLayout(LayerBaseline):
    """A runtime's rule for how many blocks each device gets; embedding and head go to the first and the last."""

    layers = staticmethod(find_blocks)

    @abstractmethod
    def refusal(self, blocks: int, devices: int) -> str | None:
        """None if the runtime accepts so many blocks on so many devices, otherwise why it does not."""

    @abstractmethod
    def counts(self, blocks: int, devices: int) -> list[int]:
        """Blocks of every device, first device first."""

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        return self.refusal(find_blocks(problem).blocks, len(accelerator_devices(problem)))

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return [layers.before + total for total in accumulate(self.counts(layers.blocks, devices)[:-1])]


class MegatronLayout(BlockLayout):
    """Every stage holds layers ÷ stages blocks; the embedding is on the first stage, the head on the last.

    Source: Megatron-LM, ``megatron/core/transformer/transformer_block.py: get_num_layers_to_build``, without
    interleaving and with the defaults for embedding and loss (neither counts as a layer). It asserts divisibility.
    """

    name = "megatron"
    summary = "Megatron-LM: layers / devices each, embedding first, head last; ignores all costs"

    def refusal(self, blocks: int, devices: int) -> str | None:
        if blocks % devices:
            return f"Megatron-LM needs a multiple of the {devices} devices, and there are {blocks} layers"
        return None

    def counts(self, blocks: int, devices: int) -> list[int]:
        return [blocks // devices] * devices


class TorchTitanLayout(BlockLayout):
    """Embedding and head count as one layer each; what does not divide evenly goes to the first stages.

    Source: torchtitan, ``torchtitan/distributed/pipeline_parallel.py: generate_llm_fqn_per_model_part``, with one
    stage per device and the defaults of ``pipeline_parallel_first_stage_less_layers`` and
    ``pipeline_parallel_last_stage_less_layers``, both 1.
    """

    name = "torchtitan"
    summary = "torchtitan: even, embedding and head count as a layer each; ignores all costs"

    def refusal(self, blocks: int, devices: int) -> str | None:
        if blocks + 2 < devices:
            return f"torchtitan leaves no stage empty, and {blocks} layers are too few for {devices} devices"
        return None

    def counts(self, blocks: int, devices: int) -> list[int]:
        each, extra = divmod(blocks + 2, devices)
        counts = [each + (stage < extra) for stage in range(devices)]
        counts[0] -= 1
        counts[-1] -= 1
        return counts


class VllmLayout(BlockLayout):
    """⌊layers ÷ devices⌋ each; the remainder one by one from the last device but one backwards.

    The last device is spared because it has the final norm and the head, the first one as long as possible because it
    has the embedding. Source: vLLM, ``vllm/distributed/utils.py: get_pp_indices``, without
    ``VLLM_PP_LAYER_PARTITION``.
    """

    name = "vllm"
    summary = "vLLM: even, the remainder from the last device but one backwards; ignores all costs"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        if problem.training:
            return "vLLM serves models and trains none; megatron and torchtitan are the layouts for training"
        return super().supports(problem, options)

    def refusal(self, blocks: int, devices: int) -> str | None:
        if blocks < devices:
            return f"vLLM has at least a layer per device, and there are {blocks} layers for {devices} devices"
        return None

    def counts(self, blocks: int, devices: int) -> list[int]:
        each, rest = divmod(blocks, devices)
        return [each + (devices - 1 - rest <= stage < devices - 1) for stage in range(devices)]
