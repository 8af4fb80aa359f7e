from __future__ import annotations

import numpy as np

from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers, accelerator_devices
from partita.problems.throughput.problem import ThroughputProblem


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
        for cover in range(len(instance.cover_fixed)):
            first = instance.cover.members(cover)[0]
            size[layers.layer_of[first]] += instance.cover_fixed[cover] + instance.cover_active[cover]
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
