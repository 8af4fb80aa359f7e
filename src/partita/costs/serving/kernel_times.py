"""Times of the kernels of a step, by the number of tokens in it: products, products of experts, chains, sums over
devices.

All take and give arrays over the grid of tokens. A kernel takes the longer of its memory traffic and its arithmetic
(with a soft corner, since neither is spread evenly), and a little for the end of the one before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.costs.collectives import Level, collective_time
from partita.costs.products import TILE_OVERHEAD, TILES
from partita.costs.serving.formats import Format, product_rate
from partita.nouns.catalogue.kernels import KernelSpec
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec

Values = npt.NDArray[np.float64]

#: Memory efficiency of the devices that shares of kernels are stated for.
_USUAL_MEMORY = 0.85

#: Rows that a tile of a product with few rows has: weights and activations change places there.
_NARROW_TILE = 16

#: Split and stream kernels share out the inner dimension where tiles do not fill a round: half of the waste, in
#: logarithms.
_FILLED = 0.5


@dataclass(frozen=True)
class KernelSeconds:
    """Seconds of kernels; parts are what they would take if each were alone."""

    total: Values
    weights: Values
    arithmetic: Values


@dataclass(frozen=True)
class KernelTimes:
    """What kernels take on a device, after another takes ``gap_s``."""

    device: DeviceSpec
    spec: KernelSpec
    gap_s: float
    #: Whether products reach what they do in long runs, rather than a share of the best rate.
    sustained: bool = False

    def bandwidth(self, share: float) -> float:
        """Bytes per second that kernels with a share reach."""
        usual = self.device.memory_efficiency / _USUAL_MEMORY
        return self.device.memory_bandwidth_bytes_per_s * min(1.0, share * usual)

    def product(self, rows: Values, columns: float, inner: float, form: Format) -> KernelSeconds:
        """Rows of activations times a matrix of weights."""
        narrow = form.bytes < 2
        share = self.spec.narrow_weight_share if narrow else self.spec.weight_share
        fast = product_rate(form, self.device) > 1.01 * self.device.peak("bfloat16")
        rate = self.spec.narrow_product_share if fast else self.spec.product_share
        return self._products(rows, columns, inner, form, np.ones_like(rows), share, rate)

    def experts(self, rows: Values, columns: float, inner: float, form: Format, touched: Values) -> KernelSeconds:
        """Rows shared out evenly among the experts touched, each with a matrix of its own."""
        spec = self.spec
        each = rows / np.maximum(touched, 1e-9)
        return self._products(each, columns, inner, form, touched, spec.expert_weight_share, spec.expert_product_share)

    def _products(
        self, rows: Values, columns: float, inner: float, form: Format, count: Values, share: float, rate: float
    ) -> KernelSeconds:
        bandwidth = self.bandwidth(share)
        weights = count * columns * inner * form.bytes / bandwidth
        moved = count * rows * (inner * min(2.0, max(1.0, form.bytes)) + 2.0 * columns) / bandwidth
        reached = self.device.compute_efficiency if self.sustained else self.device.of_best * rate
        peak = product_rate(form, self.device) * reached
        padded = np.ceil(rows / _NARROW_TILE) * _NARROW_TILE
        arithmetic = 2.0 * count * padded * columns * inner / (peak * self._shape(rows, columns, inner, count))
        blend = self.spec.blend
        total = ((weights + moved) ** blend + arithmetic**blend) ** (1 / blend) + self.gap_s
        return KernelSeconds(total, weights, arithmetic)

    def _shape(self, rows: Values, columns: float, inner: float, count: Values) -> Values:
        """Share of the best rate that shapes allow, as ``partita.costs.products`` has it, for rows that fill tiles."""
        best = np.zeros_like(rows)
        places = self.device.multiprocessors
        for height, width, rate in TILES:
            tiles = count * np.ceil(rows / height) * math.ceil(columns / width)
            useful = count * rows * columns
            filled = useful / (tiles * height * width)
            rounds = np.ones_like(rows) if places is None else tiles / (np.ceil(tiles / places) * places)
            best = np.maximum(best, rate * filled * rounds**_FILLED)
        # With few rows the tiles are turned around and thin: weights are what takes the time there.
        best = np.where(rows < TILES[-1][0], 1.0, best)
        return best * inner / (inner + TILE_OVERHEAD)

    def chain(self, rows: Values, token_bytes: float) -> Values:
        """Elementwise operators in one kernel, that move so many bytes for a token."""
        return rows * token_bytes / self.bandwidth(self.spec.weight_share) + self.gap_s


@dataclass(frozen=True)
class Fabric:
    """How devices of a stage reach each other: at most ``per_machine`` over ``link``, others over ``network``."""

    link: LinkSpec
    network: LinkSpec | None = None
    per_machine: int = 8

    def sum_s(self, size_bytes: Values, devices: int, spec: KernelSpec, *, library: bool = False) -> Values:
        """Seconds to add up so many bytes over a group of neighbours, each of which has the sum then.

        At one switch engines run kernels of their own, which read the others' memory: all parts at once, or in two
        steps where that is faster (TensorRT-LLM, "3x Faster AllReduce with NVSwitch and TensorRT-LLM MultiShot",
        2024), instead of a library's ring or tree.
        """
        if devices <= 1:
            return np.zeros_like(size_bytes)
        link = self.link
        if (link.switched or link.pairwise) and devices <= self.per_machine and not library:
            rate = link.bandwidth_bytes_per_s * spec.exchange_share * (devices - 1 if link.pairwise else 1)
            fixed = spec.exchange_call_s + spec.exchange_hop_s * devices
            return fixed + 2 * (devices - 1) / devices * size_bytes / rate
        through_host = link.name.startswith("pcie")
        levels = self.levels(devices, spec.host_exchange_share if through_host else link.efficiency)
        took = np.array([collective_time("all-reduce", float(size), levels) for size in size_bytes])
        if not through_host:
            return took
        # Small messages carry a flag with every number, twice the bytes, until waiting for whole buffers is less.
        nothing = collective_time("all-reduce", 0.0, levels)
        result: Values = took + np.minimum(took - nothing, spec.host_exchange_switch_s)
        return result

    def levels(self, devices: int, share: float) -> list[Level]:
        """The group as levels of collectives, with a share of the inner link's bandwidth."""
        inside = min(devices, self.per_machine)
        found = [_level(inside, self.link, share)]
        if devices > inside:
            outer = self.link if self.network is None else self.network
            found.append(_level(math.ceil(devices / inside), outer, outer.efficiency))
        return found

    def hand_on(self, stage_devices: int, stages: int) -> LinkSpec:
        """The slowest link between neighbouring stages."""
        apart = stage_devices * stages > self.per_machine and self.network is not None
        return self.network if apart and self.network is not None else self.link


def _level(size: int, link: LinkSpec, share: float) -> Level:
    return Level(
        size=size,
        bandwidth=link.bandwidth_bytes_per_s * share,
        call_time=link.latency_s,
        hop_time=link.per_hop_s,
        switched=link.switched,
    )
