"""Roofline: an operator takes as long as its arithmetic or its memory traffic, whichever is longer.

Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures"
(Communications of the ACM 52(4), 2009), with a fixed time per operator added.
"""

from __future__ import annotations

from dataclasses import dataclass

from partita.catalogue.specs import DeviceSpec
from partita.graph import Graph, Operator


@dataclass(frozen=True)
class Roofline:
    """time = max(flops / (peak · efficiency), bytes / (bandwidth · efficiency)) + launch overhead; free operators 0."""

    allow_tf32: bool = False
    """Whether to price float32 products at the TensorFloat-32 rate of devices that have one."""

    def rate(self, device: DeviceSpec, dtype: str) -> float:
        """Achievable FLOP/s of a device for a number format."""
        if self.allow_tf32 and dtype == "float32":
            dtype = "tf32"
        return device.peak(dtype) * device.compute_efficiency

    def time_s(self, operator: Operator, device: DeviceSpec) -> float:
        """Seconds one operator takes on a device; the device has to state a rate for its number format."""
        if operator.free:
            return 0.0
        arithmetic = operator.flops / self.rate(device, operator.dtype) if operator.flops else 0.0
        bandwidth = device.memory_bandwidth_bytes_per_s * device.memory_efficiency
        return max(arithmetic, (operator.bytes_read + operator.bytes_written) / bandwidth) + device.launch_overhead_s

    def operator_times(self, graph: Graph, device: DeviceSpec) -> list[float | None]:
        return [self.time_s(operator, device) for operator in graph.operators]

    def notes(self) -> list[str]:
        note = (
            "Operator times are estimates: the larger of arithmetic and memory traffic at the achievable rates of the "
            "device, plus a fixed time per operator; caches, small-matrix effects and further fusion are not modelled."
        )
        if self.allow_tf32:
            note += " Float32 products run as TensorFloat-32 where the device can."
        return [note]
