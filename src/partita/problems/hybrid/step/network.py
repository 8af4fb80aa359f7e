"""Where the devices of a uniform mesh are, and how fast they reach each other.

Ranks are numbered as in Megatron-LM (Narayanan et al., SC 2021, §3): the t devices of a tensor-parallel group are
neighbours, then come the d replicas of a stage, then the stages. Machines are filled in that order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from partita.costs.collectives import Level, collective_time
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.training import Training


@dataclass(frozen=True)
class MeshNetwork:
    """The links of a mesh of d replicas of t devices a stage."""

    #: The degrees; groups that share out the sequence count as replicas.
    data: int
    tensor: int
    #: What a device moves to others in its machine, and to other machines while all its neighbours do the same: bytes
    #: per unit of time in each direction.
    inside: float
    outside: float
    per_machine: int  #: Devices of a machine.
    training: Training  #: Latencies.

    def collective_time(self, kind: str, size: float) -> float:
        """Time of an ``all-gather``, ``reduce-scatter`` or ``all-reduce`` of so many bytes among a stage's replicas.

        Where they leave machines, each of these has as many of them as fill the smallest part that a stage may have.
        """
        if self.data == 1 or size <= 0:
            return 0.0
        together = math.gcd(self.data, max(1, self.per_machine // self.tensor))
        sizes, rates = (together, self.data // together), (self.inside, self.outside)
        t = self.training
        parts = zip(sizes, rates, t.call_times, t.hop_times, t.switched, strict=True)
        return collective_time(kind, size, [Level(*part) for part in parts])

    def handover(self, before: int, stages: int) -> tuple[float, float]:
        """Bytes per unit of time and device from a stage to the next one, and what a transfer takes beside its bytes.

        Parameters
        ----------
        before
            Number of the stage that hands over; the last one hands over to the first.
        stages
            How many there are.
        """
        width = self.data * self.tensor
        if before == stages - 1:
            crosses = stages * width > self.per_machine
        else:
            crosses = self.per_machine % width != 0 or (before + 1) * width % self.per_machine == 0
        return (self.outside if crosses else self.inside), self.training.call_times[crosses]


def network_of(problem: HybridProblem, data: int, tensor: int) -> MeshNetwork:
    """The network that a mesh of a problem about a step sees."""
    inside, hierarchy = problem.bandwidth_bytes_per_unit, problem.hierarchy
    outside, size = inside, problem.devices
    if hierarchy is not None:
        size = hierarchy.devices_per_machine
        outside = min(inside, hierarchy.machine_bandwidth_bytes_per_unit / size)
    return MeshNetwork(data, tensor, inside, outside, size, problem.step)
