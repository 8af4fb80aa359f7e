"""Where times of operators come from; unless stated the roofline, the longer of arithmetic and memory traffic.

Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures"
(Communications of the ACM 52(4), 2009). Products of matrices reach what their shape allows, attention kernels what such
kernels do, and no operator is faster than the program can issue operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from partita.costs.products import is_aligned, shape_efficiency
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.graph import Graph, Operator

#: Backward, an attention kernel makes the scores once more: five products where the graph counts four (Dao,
#: "FlashAttention-2", 2023, section 3.1).
_ATTENTION_BACKWARD = 5 / 4

#: A causal kernel skips the half of the scores that lies above the diagonal.
_CAUSAL = 1 / 2

#: Share of the bandwidth of other kernels that chunked scans of state-space models reach: short kernels one after the
#: other over states in 32 bits. Fitted to nine published training runs of models with such layers.
_SCAN_SHARE = 1 / 32

#: Part of the time to issue a kernel that is left where kernels are recorded and replayed: about a microsecond (NVIDIA,
#: "Constant Time Launch for Straight-Line CUDA Graphs and Other Performance Enhancements", 2024).
_REPLAYED = 0.25

#: Number formats of matrix units, whose kernels read whole pieces of rows, and bytes of a number.
_MATRIX_FORMATS = {"float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}


def unpacking_s(operator: Operator, device: DeviceSpec) -> float:
    """Seconds that unpacking the weights of an operator takes before it runs, by memory traffic."""
    if not operator.unpacking_bytes:
        return 0.0
    traffic = operator.unpacking_bytes / (device.memory_bandwidth_bytes_per_s * device.memory_efficiency)
    return max(traffic, device.launch_overhead_s) if device.accelerator else traffic + device.launch_overhead_s


class CostSource(Protocol):
    """Times of operators on a device."""

    def operator_times(self, graph: Graph, device: DeviceSpec) -> Sequence[float | None]:
        """Seconds each operator of the graph takes on the device, in order; None where it cannot run.

        Raises ``InputError`` if the source cannot tell.
        """

    def notes(self, graph: Graph) -> Sequence[str]:
        """What a reader should know about the times of a graph, one sentence each."""


@dataclass(frozen=True)
class Roofline:
    """time = max(flops / (peak · efficiency), bytes / (bandwidth · efficiency), issue); free operators take 0.

    Where weights are packed, unpacking them comes before, by its memory traffic.
    """

    allow_tf32: bool = False  #: Whether to price float32 products at the TensorFloat-32 rate of devices that have one.
    tuned: bool = False  #: Whether attention and products run in kernels that were written for the device.
    fused_experts: bool = False  #: Whether the products of all experts of a layer are one kernel as fast as others.
    recorded: bool = False  #: Whether the program records kernels and replays them, as with CUDA graphs.

    def rate(self, device: DeviceSpec, dtype: str) -> float:
        """Achievable FLOP/s of a device for a number format, for products of the best shape."""
        return self._peak(device, dtype) * device.of_products(dtype, tuned=self.tuned)

    def time_s(self, operator: Operator, device: DeviceSpec) -> float:
        """Seconds one operator takes on a device; the device has to state a rate for its number format."""
        if operator.free:
            return 0.0
        if operator.unpacking_bytes:
            plain = msgspec.structs.replace(operator, unpacking_bytes=0)
            return self.time_s(plain, device) + unpacking_s(operator, device)
        bandwidth = device.memory_bandwidth_bytes_per_s * device.memory_efficiency
        if "chunk_scan" in operator.target:
            bandwidth *= _SCAN_SHARE
        time = max(self._arithmetic_s(operator, device), (operator.bytes_read + operator.bytes_written) / bandwidth)
        if operator.joined:
            return time
        # An accelerator works while the program issues what comes next; a CPU does one after the other.
        issue = device.launch_overhead_s * operator.launches * (_REPLAYED if self.recorded else 1.0)
        return max(time, issue) if device.accelerator else time + issue

    def operator_times(self, graph: Graph, device: DeviceSpec) -> list[float | None]:
        return [self.time_s(operator, device) for operator in graph.operators]

    def notes(self, graph: Graph) -> list[str]:
        note = (
            "Operator times are estimates: the largest of arithmetic (at the rate that a product's shape allows), "
            "memory traffic, and the time to issue an operator; caches, falling clocks and further fusion are not "
            "modelled."
        )
        if self.allow_tf32:
            note += " Float32 products run as TensorFloat-32 where the device can."
        return [note]

    def _peak(self, device: DeviceSpec, dtype: str) -> float:
        return device.peak("tf32" if self.allow_tf32 and dtype == "float32" else dtype)

    def _arithmetic_s(self, operator: Operator, device: DeviceSpec) -> float:
        if not operator.flops:
            return 0.0
        if "attention" in operator.target.lower():
            reached = device.of_tuned_attention if self.tuned else device.of_attention
            rate = self._peak(device, operator.dtype) * reached
            work = operator.flops * (_CAUSAL if operator.causal else 1.0)
            return work * (_ATTENTION_BACKWARD if operator.phase == "backward" else 1.0) / rate
        rate = self.rate(device, operator.dtype)
        if operator.product is not None:
            size = _MATRIX_FORMATS.get(operator.dtype)
            if size is not None and not is_aligned(operator.product, operator.consecutive, size):
                rate = self._peak(device, operator.dtype) * device.of_unaligned
            if device.multiprocessors is not None:
                rate *= shape_efficiency(operator.product, device.multiprocessors)
            if not self.fused_experts and "grouped" in operator.target:
                rate *= device.grouped_share
        return operator.flops / rate
