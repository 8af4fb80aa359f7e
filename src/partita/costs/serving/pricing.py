"""From a decoder, a layout, devices and an engine to the prices of steps of one unit.

Every product of a step takes the longer of reading its weights and doing its arithmetic. Of experts those are read
that the step's tokens touch: of E experts, k of which a token chooses, n tokens touch E · (1 − (1 − k/E)ⁿ) on
average. Devices that share out a layer add up their results after attention and after the feed-forward part.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from partita.costs.serving.decoder import CachedAttention, Decoder, DecoderBlock, ExpertProduct, WeightProduct
from partita.costs.serving.formats import Format, find_format
from partita.costs.serving.kernel_times import Fabric, KernelTimes, Values
from partita.costs.serving.layout import ServingLayout
from partita.costs.serving.prices import StepPrices
from partita.nouns.catalogue.engines import EngineSpec
from partita.nouns.catalogue.kernels import KERNELS, KernelSpec
from partita.nouns.catalogue.specs import DeviceSpec

#: Numbers of tokens that steps are priced at; in between their times are lines.
GRID = (1, 2, 3, *(quarters << power for power in range(13) for quarters in (4, 5, 6, 7)), 4 << 13)

#: Rows of a step that tokens are sampled for at most: the last of each request.
_SAMPLED = 256

#: Kernels of attention for a layer: writing the cache and attending.
_ATTENTION_KERNELS = 2

#: Bytes of a number of activations.
_ACTIVATION = 2


def price_steps(
    decoder: Decoder,
    layout: ServingLayout,
    device: DeviceSpec,
    fabric: Fabric,
    engine: EngineSpec,
    kernels: KernelSpec = KERNELS,
) -> StepPrices:
    """The prices of the steps of a unit.

    Raises ``InputError`` if the layout's degrees do not go together, or a format is unknown.
    """
    return _Pricer(decoder, layout.settled(decoder), device, fabric, engine, kernels).prices()


def touched_experts(experts: int, active: int, tokens: Values) -> Values:
    """How many experts so many tokens choose at least once, on average, if each chooses ``active`` at random."""
    return experts * (1.0 - (1.0 - active / experts) ** tokens)


@dataclass
class _Sum:
    """What the blocks of a stage take, on the grid of tokens."""

    total: Values
    weights: Values
    arithmetic: Values
    exchange: Values
    together: Values  #: Of the total what attention-data groups do with each other's tokens.
    kernels: float = 0.0
    held: float = 0.0
    prompt: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    cache: list[float] = field(default_factory=list)

    @classmethod
    def zero(cls, points: int, forms: int) -> _Sum:
        """Nothing yet."""
        total, weights, arithmetic, exchange, together = (np.zeros(points) for _ in range(5))
        prompt, decode, cache = ([0.0] * forms for _ in range(3))
        return cls(total, weights, arithmetic, exchange, together, prompt=prompt, decode=decode, cache=cache)

    def add(self, other: _Sum, count: int) -> None:
        """As many blocks alike."""
        self.total += count * other.total
        self.weights += count * other.weights
        self.arithmetic += count * other.arithmetic
        self.exchange += count * other.exchange
        self.together += count * other.together
        self.kernels += count * other.kernels
        self.held += count * other.held
        for mine, theirs in ((self.prompt, other.prompt), (self.decode, other.decode), (self.cache, other.cache)):
            mine[:] = [a + count * b for a, b in zip(mine, theirs, strict=True)]


@dataclass(frozen=True)
class _Pricer:
    decoder: Decoder
    layout: ServingLayout
    device: DeviceSpec
    fabric: Fabric
    engine: EngineSpec
    spec: KernelSpec

    @property
    def times(self) -> KernelTimes:
        return KernelTimes(self.device, self.spec, self.engine.kernel_s, self.engine.sustained)

    def prices(self) -> StepPrices:
        engine, layout, n = self.engine, self.layout, np.array(GRID, dtype=float)
        windows = tuple(sorted({b.attention.window for b in self.decoder.blocks if b.attention is not None}))
        stages = []
        for part in self._parts():
            stage = _Sum.zero(len(GRID), len(windows))
            for block, count in Counter(part).items():
                stage.add(self._block(block, n, windows), count)
            stages.append(stage)
        if layout.pipeline == 1:
            stages[0].held -= self.decoder.tied * _ACTIVATION / layout.tensor
        launch = engine.launch_on.get(self.device.name, engine.launch_s)
        alone = 0.0 if engine.overlaps else engine.host_s
        hand_on = self.fabric.hand_on(layout.stage_devices, layout.pipeline)
        several = layout.pipeline > 1
        mixed = [_launched(s, n > 0, launch) for s in stages]
        together = [np.maximum.accumulate(s.together) for s in stages]
        # More tokens take no less, of what groups do by themselves and of what they do together.
        apart = [
            np.minimum.accumulate(np.maximum(0.0, whole - part)[::-1])[::-1]
            for whole, part in zip(mixed, together, strict=True)
        ]
        uneven = layout.attention_data > 1 and engine.padded_tokens is not None
        return StepPrices(
            tokens=GRID,
            dense_s=tuple(_numbers(_launched(s, n > engine.recorded_tokens, launch)) for s in stages),
            dense_mixed_s=tuple(map(_numbers, mixed)),
            windows=windows,
            prompt_s=tuple(tuple(s.prompt) for s in stages),
            decode_s=tuple(tuple(s.decode) for s in stages),
            chunk_s=(engine.host_prompt_s,) * len(stages),
            request_s=(0.0 if engine.overlaps else engine.host_request_s,) * len(stages),
            step_s=(alone,) * len(stages),
            mixed_step_s=(alone,) * len(stages),
            host_s=engine.host_s if engine.overlaps else 0.0,
            host_request_s=engine.host_request_s if engine.overlaps else 0.0,
            hand_on_s=hand_on.latency_s if several else 0.0,
            hand_on_s_per_token=self._hidden_bytes / hand_on.achievable_bytes_per_s if several else 0.0,
            arrival_s=engine.arrival_s,
            weight_bytes=tuple(math.ceil(s.held) for s in stages),
            cache_bytes_per_token=tuple(tuple(s.cache) for s in stages),
            cache_budget_bytes=tuple(self._budget(s.held) for s in stages),
            attention_data=layout.attention_data,
            moved_bytes_per_token=self._moved(windows),
            weights_s=tuple(_numbers(s.weights) for s in stages),
            arithmetic_s=tuple(_numbers(s.arithmetic) for s in stages),
            exchange_s=tuple(_numbers(s.exchange) for s in stages),
            apart_s=tuple(map(_numbers, apart)) if uneven else (),
            together_s=tuple(map(_numbers, together)) if uneven else (),
            padded_tokens=engine.padded_tokens or 0,
            notes=self._notes(),
        )

    @property
    def _hidden_bytes(self) -> int:
        return self.decoder.hidden * _ACTIVATION

    def _notes(self) -> tuple[str, ...]:
        return (
            f"Steps are priced as {self.engine.name} runs them on {self.device.name}: weights read, arithmetic at what "
            "shapes allow, collectives, host time; docs/serving-prices.md says how far that is from measured runs.",
        )

    def _parts(self) -> list[list[DecoderBlock]]:
        """The blocks of each stage: layers in even runs, the table of embeddings first and the output last."""
        blocks, stages = self.decoder.blocks, self.layout.pipeline
        layers = [place for place, block in enumerate(blocks) if block.attention is not None]
        cuts = [0, *(layers[round(stage * len(layers) / stages)] for stage in range(1, stages)), len(blocks)]
        return [list(blocks[low:high]) for low, high in itertools.pairwise(cuts)]

    def _budget(self, held: float) -> float:
        """Bytes of a device that are left for the cache."""
        widest = max((p.columns for b in self.decoder.blocks for p in b.products if p.kind != "head"), default=0)
        activations = self.engine.step_tokens * (4 * self.decoder.hidden + widest / self.layout.tensor) * _ACTIVATION
        usable = self.device.memory_bytes * self.engine.memory_share
        return float(usable - held - activations - self.spec.reserved_bytes)

    def _moved(self, windows: tuple[int, ...]) -> tuple[float, ...]:
        moved = dict.fromkeys(windows, 0.0)
        for block in self.decoder.blocks:
            if block.attention is not None:
                moved[block.attention.window] += block.attention.kept * find_format(self.layout.cache).bytes
        return tuple(moved[window] for window in windows)

    def _block(self, block: DecoderBlock, n: Values, windows: tuple[int, ...]) -> _Sum:
        layout, times, found = self.layout, self.times, _Sum.zero(len(n), len(windows))
        mine = n / layout.attention_data
        for product in block.products:
            self._product(product, block.attention, mine, found)
        for expert in block.experts:
            self._experts(expert, n, found)
        found.held += block.other_weights * _ACTIVATION / (layout.tensor if block.attention is None else 1)
        if block.experts:
            found.kernels += self.spec.expert_kernels
            found.total += self.spec.expert_kernels * times.gap_s
        if block.attention is None:
            return found
        # What goes between the two halves of a layer is whole on every device, what is inside them is shared out.
        share = (1 + 1 / layout.tensor) / 2
        found.total += times.chain(mine, block.chain_bytes * share) + (block.chains - 1) * times.gap_s
        found.total += _ATTENTION_KERNELS * times.gap_s + self.spec.cache_call_s
        found.kernels += block.chains + _ATTENTION_KERNELS
        own, gathered = self._exchange(block, n)
        found.exchange += own + gathered
        found.together += gathered
        found.total += found.exchange
        found.kernels += block.reductions * (layout.tensor > 1)
        self._attention(block.attention, windows.index(block.attention.window), found)
        return found

    def _product(self, product: WeightProduct, attention: CachedAttention | None, rows: Values, found: _Sum) -> None:
        layout = self.layout
        form = find_format("bf16" if product.kind in ("router", "head") else layout.weights)
        degree = _degree(product.kind, attention, layout.tensor)
        if product.kind == "head":
            rows = np.minimum(rows, _SAMPLED)
        took = self.times.product(rows, product.columns / degree, product.inner, form)
        # Keys and values are made with the queries, in one kernel.
        joined = product.kind == "keys"
        found.total += took.total - joined * self.times.gap_s
        found.weights += took.weights
        found.arithmetic += took.arithmetic
        found.kernels += not joined
        found.held += product.columns * product.inner * form.bytes / degree

    def _experts(self, product: ExpertProduct, n: Values, found: _Sum) -> None:
        layout = self.layout
        groups, count, active = layout.expert, product.experts, product.active
        form: Format = find_format(layout.of_experts)
        touched = touched_experts(count, active, n) / groups
        rows = n * active / groups
        if groups > 1:
            # The step waits for the group with most: the largest of so many draws, about √(2 ln groups) deviations up.
            spread = self.spec.imbalance * math.sqrt(2 * math.log(groups))
            touched = np.minimum(count / groups, touched + spread * np.sqrt(touched * (1 - touched * groups / count)))
            rows = np.minimum(n * active, rows + spread * np.sqrt(rows))
        took = self.times.experts(rows, product.columns / layout.expert_tensor, product.inner, form, touched)
        found.total += took.total
        found.together += took.total - self.times.gap_s
        found.weights += took.weights
        found.arithmetic += took.arithmetic
        found.kernels += 1
        devices = layout.expert * layout.expert_tensor
        found.held += count * product.columns * product.inner * form.bytes / devices

    def _exchange(self, block: DecoderBlock, n: Values) -> tuple[Values, Values]:
        """Of each group by itself, and of all together."""
        layout = self.layout
        mine = self._hidden_bytes * n / layout.attention_data
        own, gathered = block.reductions * self._sum_s(mine, layout.tensor), np.zeros_like(n)
        if block.experts and layout.attention_data > 1:
            # Groups bring their tokens together before the experts and take them apart behind: together a sum over all.
            own = own - self._sum_s(mine, layout.tensor)
            gathered = self._sum_s(self._hidden_bytes * n, layout.stage_devices)
        return own, gathered

    def _sum_s(self, size_bytes: Values, devices: int) -> Values:
        return self.fabric.sum_s(size_bytes, devices, self.spec, library=self.engine.library_sums)

    def _attention(self, attention: CachedAttention, form: int, found: _Sum) -> None:
        layout, device, spec = self.layout, self.device, self.spec
        cached = find_format(layout.cache)
        kept = attention.kept * cached.bytes / min(layout.tensor, attention.key_heads)
        rate = device.peak("bfloat16") * spec.prompt_share
        read = kept / self.times.bandwidth(spec.cache_share)
        worked = attention.decode_flops / layout.tensor / rate
        groups = layout.attention_data
        found.prompt[form] = attention.prompt_flops / layout.tensor / rate / groups
        found.decode[form] = max(read, worked) / groups
        found.cache[form] = kept


def _degree(kind: str, attention: CachedAttention | None, tensor: int) -> int:
    """Devices that share out a product."""
    if kind in ("copied", "router"):
        return 1
    return min(tensor, attention.key_heads) if kind == "keys" and attention is not None else tensor


def _launched(stage: _Sum, issued: object, launch_s: float) -> Values:
    """Times of steps whose kernels are issued one by one where ``issued``: no faster than the host issues them."""
    least = np.where(np.asarray(issued), stage.kernels * launch_s, 0.0)
    # A step may be filled up to a size that fits tiles better.
    result: Values = np.maximum.accumulate(np.maximum(stage.total, least))
    return result


def _numbers(values: Values) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
