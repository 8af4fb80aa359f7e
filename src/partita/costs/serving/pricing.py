"""From a decoder, a device and an engine to the prices of steps of one unit.

Every product of a step takes the longer of reading its weights and doing its arithmetic, at the rate that its shape
allows, and a little for one kernel ending and the next beginning. Of experts those are read that the step's tokens touch.
Tensor-parallel devices add up their results after attention and after each layer's feed-forward part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from partita.costs.serving.decoder import Attention, Block, Decoder, ExpertProduct, Product
from partita.costs.serving.formats import Format, find_format, product_rate
from partita.costs.serving.prices import StepPrices
from partita.ground.errors import InputError
from partita.nouns.catalogue.engines import EngineSpec
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec

_TOKENS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048,
           3072, 4096, 6144, 8192, 12288, 16384, 32768)

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Degrees and formats of a unit."""

    tensor: int = 1
    pipeline: int = 1
    attention_data: int = 1
    expert: int = 1  #: Devices that share out experts.
    expert_tensor: int = 1  #: Devices that share out each expert.
    weights: str = "bf16"
    expert_weights: str = "bf16"
    cache: str = "bf16"
    #: Devices of a stage in one machine, and the network of the others.
    per_machine: int = 8


@dataclass(frozen=True)
class Physics:
    """Shares and times that hold for every model; docs/serving.md says where they come from."""

    weight_share: float = 0.88  #: Of the memory bandwidth that products with few rows reach.
    compute_share: float = 0.62  #: Of the peak for bf16 products.
    compute_share_8bit: float = 0.55
    cache_share: float = 0.80  #: Of the memory bandwidth that attention of decodes reaches.
    attention_share: float = 0.42  #: Of the peak that attention of prompts reaches.
    expert_weight_share: float = 0.70
    expert_compute_share: float = 0.4
    blend: float = 3.0
    exchange_call_s: float = 4e-6
    exchange_hop_s: float = 0.7e-6
    exchange_share: float = 0.55
    expert_kernels: int = 4
    block_scale_cost: float = 1.0


def price_steps(
    decoder: Decoder, layout: Layout, device: DeviceSpec, link: LinkSpec, engine: EngineSpec, physics: Physics = Physics()
) -> StepPrices:
    """The prices of a unit."""
    return _Pricer(decoder, layout, device, link, engine, physics).prices()


class _Pricer:
    def __init__(self, decoder, layout, device, link, engine, physics):
        self.d, self.l, self.dev, self.link, self.e, self.p = decoder, layout, device, link, engine, physics
        self.n = np.array(_TOKENS, dtype=float)
        self.bw = device.memory_bandwidth_bytes_per_s
        self.wf, self.ef, self.cf = (find_format(x) for x in (layout.weights, layout.expert_weights, layout.cache))
        self.half = find_format("bf16")

    def stages(self):
        blocks = self.d.blocks
        inner = [b for b in blocks if b.attention is not None]
        p = self.l.pipeline
        cuts = [round(i * len(inner) / p) for i in range(p + 1)]
        parts = [list(inner[cuts[i]:cuts[i + 1]]) for i in range(p)]
        before = [b for b in blocks[: len(blocks) // 2] if b.attention is None]
        after = [b for b in blocks[len(blocks) // 2 :] if b.attention is None]
        parts[0] = before + parts[0]
        parts[-1] = parts[-1] + after
        return parts

    def gemm(self, n, cols, inner, form: Format, experts=1.0, share_w=None, share_c=None):
        """seconds, weights part, arithmetic part; n rows each of `experts` many matrices"""
        p, dev = self.p, self.dev
        share_w = share_w or p.weight_share
        wide = product_rate(form, dev) > 1.01 * dev.peak("bfloat16")
        share_c = share_c or (p.compute_share_8bit if wide else p.compute_share)
        rows = np.maximum(n, 1e-9)
        tile = np.where(rows <= 64, 16, 64)
        padded = np.ceil(rows / tile) * tile
        weights = experts * cols * inner * form.bytes / (self.bw * share_w)
        acts = experts * rows * (inner * min(2.0, max(1.0, form.bytes)) + cols * 2) / (self.bw * share_w)
        compute = experts * 2 * padded * cols * inner / (product_rate(form, dev) * share_c)
        if dev.multiprocessors:
            tiles = experts * np.ceil(rows / 128) * math.ceil(cols / 128)
            rounds = np.ceil(tiles / dev.multiprocessors)
            quant = rounds * dev.multiprocessors / np.maximum(tiles, 1)
            quant = np.where(rows > 128, quant, 1.0)
            compute = compute * np.minimum(quant, 2.0)
        mem = weights + acts
        total = (mem**p.blend + compute**p.blend) ** (1 / p.blend)
        return total + self.e.kernel_s, weights + 0 * n, compute

    def allreduce(self, n, size):
        """n rows of hidden"""
        if size <= 1:
            return 0 * n
        p = self.p
        data = n * self.d.hidden * 2
        bw = self.link.bandwidth_bytes_per_s * p.exchange_share
        return p.exchange_call_s + p.exchange_hop_s * size + 2 * (size - 1) / size * data / bw

    def block(self, b: Block):
        l, p, e, n = self.l, self.p, self.e, self.n
        t = l.tensor
        mine = n / l.attention_data
        total = np.zeros_like(n)
        w = np.zeros_like(n)
        c = np.zeros_like(n)
        x = np.zeros_like(n)
        kernels = 0
        for prod in b.products:
            form = self.half if prod.kind in ("router", "head") else self.wf
            cols, inner = prod.columns, prod.inner
            rows = mine
            if prod.kind in ("copied", "router"):
                deg = 1
            elif prod.kind == "keys":
                deg = min(t, b.attention.key_heads)
            else:
                deg = t
            if prod.kind == "head":
                rows = np.minimum(mine, 256)  # only last tokens
            s, ww, cc = self.gemm(rows, cols / deg, inner, form)
            if prod.kind == "keys":
                s = s - e.kernel_s
            else:
                kernels += 1
            total += s; w += ww; c += cc
        for ex in b.experts:
            E, k = ex.experts, ex.active
            touched = E * (1 - (1 - k / E) ** n)
            ep = l.expert
            per = touched / ep
            if ep > 1:
                q = touched / E
                per = np.minimum(E / ep, per + np.sqrt(2 * np.log(ep) * E / ep * q * (1 - q)))
            load = n * k / ep
            if ep > 1:
                load = np.minimum(n * k, load + np.sqrt(2 * np.log(ep) * load))
            s, ww, cc = self.gemm(load / per, ex.columns / l.expert_tensor, ex.inner, self.ef, experts=per, share_w=p.expert_weight_share, share_c=p.expert_compute_share)
            total += s; w += ww * 1.0; c += cc
            kernels += 1
        if b.experts:
            total += p.expert_kernels * e.kernel_s
            kernels += p.expert_kernels
        # chains
        if b.attention is not None:
            total += b.chains * e.kernel_s + mine * b.chain_bytes / t**0.5 / (self.bw * p.weight_share)
            kernels += b.chains
            total += 2 * e.kernel_s
            kernels += 2
            ar = self.allreduce(mine, t) * b.reductions
            if b.experts and l.attention_data > 1:
                # gather and scatter tokens among all
                ar = self.allreduce(mine, t) * (b.reductions - 1) + self.allreduce(n, l.expert * l.expert_tensor)
            x += ar
            kernels += b.reductions * (t > 1)
        total += x
        return total, w, c, x, kernels

    def prices(self) -> StepPrices:
        l, p, e, dev = self.l, self.p, self.e, self.dev
        n = self.n
        dense, mixed, ws, cs, xs = [], [], [], [], []
        windows = sorted({b.attention.window for b in self.d.blocks if b.attention})
        prompt, decode, chunk, request, weight, cache, budget = [], [], [], [], [], [], []
        moved = [0.0] * len(windows)
        for part in self.stages():
            tot = np.zeros_like(n); w = tot.copy(); c = tot.copy(); x = tot.copy(); kernels = 0
            ps = [0.0] * len(windows); ds = [0.0] * len(windows); cb = [0.0] * len(windows); held = 0.0
            for b, count in Counter(part).items():
                a1, a2, a3, a4, kk = self.block(b)
                tot += count * a1; w += count * a2; c += count * a3; x += count * a4; kernels += count * kk
                held += count * self.held(b)
                if b.attention:
                    a = b.attention
                    i = windows.index(a.window)
                    per = a.kept * self.cf.bytes
                    shared = min(l.tensor, a.key_heads)
                    cb[i] += count * per / shared
                    moved[i] += count * per
                    rate = dev.peak("bfloat16")
                    att = p.attention_share
                    ps[i] += count * a.prompt_flops / l.tensor / (rate * att) / l.attention_data
                    ds[i] += count * max(per / shared / (self.bw * p.cache_share), a.decode_flops / l.tensor / (rate * 0.4)) / l.attention_data
            launched = kernels * e.launch_s
            dense.append(tuple(np.where(n <= e.recorded_tokens, tot, np.maximum(tot, launched))))
            mixed.append(tuple(np.maximum(tot, launched)))
            ws.append(tuple(w)); cs.append(tuple(c)); xs.append(tuple(x))
            prompt.append(tuple(ps)); decode.append(tuple(ds))
            weight.append(int(held)); cache.append(tuple(cb))
            budget.append(dev.memory_bytes * e.memory_share - held - 1.5 * 2**30)
        s = len(dense)
        add = 0.0 if e.overlaps else e.host_s
        return StepPrices(
            tokens=_TOKENS, dense_s=tuple(dense), dense_mixed_s=tuple(mixed), windows=tuple(windows), prompt_s=tuple(prompt),
            decode_s=tuple(decode), chunk_s=(e.host_prompt_s,) * s, request_s=(0.0 if e.overlaps else e.host_request_s,) * s,
            step_s=(add,) * s, mixed_step_s=(add,) * s, host_s=e.host_s if e.overlaps else 0.0,
            host_request_s=e.host_request_s if e.overlaps else 0.0, arrival_s=e.arrival_s,
            weight_bytes=tuple(weight), cache_bytes_per_token=tuple(cache), cache_budget_bytes=tuple(budget),
            attention_data=l.attention_data, moved_bytes_per_token=tuple(moved), weights_s=tuple(ws), arithmetic_s=tuple(cs), exchange_s=tuple(xs),
        )

    def held(self, b: Block) -> float:
        l = self.l
        out = b.other_weights * 2 / (l.tensor if b.attention is None else 1)
        for prod in b.products:
            form = self.half if prod.kind in ("router", "head") else self.wf
            deg = 1 if prod.kind in ("copied", "router") else min(l.tensor, b.attention.key_heads) if prod.kind == "keys" else l.tensor
            out += prod.columns * prod.inner * form.bytes / deg
        for ex in b.experts:
            out += ex.experts * ex.columns * ex.inner * self.ef.bytes / (l.expert * l.expert_tensor)
        return out
