"""What a decoder does for a token, read off one traced step of decoding.

A step of decoding has a cache of keys and values in each layer (``load_model(…, decode=…)``), so that its shapes say
how large the cache of a token is, and, where the context is longer than a sliding window, which layers look at a window
only. Products with weights are told by the weights they read; what depends on the cache without a weight in between is
attention; all else are chains of elementwise operators between them, which engines run as a kernel each.

Latent attention (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1) caches a low-rank form of keys and values. The trace
makes all keys of it again in each step; engines absorb these weights into the queries and outputs, so that decodes
read the cache as it is (ibid., section 2.1.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import EMBEDDINGS, GraphView
from partita.ground.errors import InputError
from partita.nouns.graph import Graph

#: Marks weights of products that make a low-rank form that all heads read; tensor-parallel devices each make all of it.
_LOW_RANK = "_a_proj"


@dataclass(frozen=True)
class WeightProduct:
    """Products of a token's features with weights, made as one: ``inner`` features become ``columns``."""

    columns: int
    inner: int
    #: ``dense``, ``keys`` (keys and values of heads), ``copied`` (each device makes all), ``router`` or ``head``.
    kind: str


@dataclass(frozen=True)
class ExpertProduct:
    """A product that each token makes with the weights of ``active`` of ``experts`` experts."""

    experts: int
    active: int
    columns: int
    inner: int


@dataclass(frozen=True)
class CachedAttention:
    """CachedAttention of a layer: what it keeps of a token, and what a query does with a key."""

    window: int  #: Keys that a query looks at, 0 for all.
    heads: int
    key_heads: int  #: Heads that have keys and values of their own; devices beyond so many hold copies.
    kept: int  #: Numbers that the cache has of a token.
    prompt_flops: int  #: Floating-point operations of a query and a key of a prompt, over all heads.
    decode_flops: int  #: Likewise where a decode reads the cache as it is.


@dataclass(frozen=True)
class DecoderBlock:
    """What one layer does for a token."""

    products: tuple[WeightProduct, ...]
    experts: tuple[ExpertProduct, ...]
    attention: CachedAttention | None
    chains: int  #: Kernels of elementwise chains.
    chain_bytes: int  #: Memory traffic of these for a token.
    other_weights: int  #: Weights that no product reads: norms, biases, tables of embeddings.
    reductions: int  #: Sums over tensor-parallel devices.


@dataclass(frozen=True)
class Decoder:
    """A decoder as engines run it: what comes before the layers, the layers, and what comes behind."""

    name: str
    hidden: int  #: Features of a token between layers.
    blocks: tuple[DecoderBlock, ...]
    tied: int = 0  #: Weights of the output that are those of the table of embeddings.

    @property
    def weights(self) -> int:
        """Numbers of weights of all kinds."""
        return sum(weights_of(block) for block in self.blocks) - self.tied

    @property
    def heads(self) -> int:
        """Whole heads of every attention that tensor-parallel degrees have to divide; 1 without attention."""
        return math.gcd(*(block.attention.heads for block in self.blocks if block.attention is not None)) or 1


def weights_of(block: DecoderBlock) -> int:
    """Weights of a block."""
    dense = sum(p.columns * p.inner for p in block.products)
    return dense + sum(p.experts * p.columns * p.inner for p in block.experts) + block.other_weights


def decoder_of(graph: Graph) -> Decoder:
    """Read a decoder off a graph of one decoding step.

    Raises ``InputError`` if the graph has no cache of keys and values, such as that of a whole sequence.
    """
    return _DecoderReader(graph).decoder()


class _DecoderReader:
    """A graph under reading."""

    def __init__(self, graph: Graph) -> None:
        caches = [number for number, p in enumerate(graph.parameters) if p.cache]
        if not caches:
            raise InputError(
                f"model {graph.name!r} was traced without a cache of keys and values, which serving is priced by; "
                "trace a step of decoding (decode=…) of a decoder"
            )
        self.graph, self.view = graph, GraphView(graph)
        self.caches = set(caches)
        self.samples = graph.samples
        self.layer, self.names = assign_layers(self.view)
        self.context = max(graph.parameters[number].shape[2] for number in caches)
        self.weights = [
            [n for n in held if not graph.parameters[n].buffer and len(graph.parameters[n].shape) > 1]
            for held in self.view.parameters
        ]
        self.looks = self._looks_at_cache()

    def _looks_at_cache(self) -> list[bool]:
        """For every operator whether it depends on the cache with no product with a weight of the query in between."""
        looks = [False] * len(self.graph.operators)
        for v, op in enumerate(self.graph.operators):
            held = any(number in self.caches for number in self.view.parameters[v])
            makers = [self.view.maker(place) for place in self.view.inputs[v]]
            stored = any(self.graph.tensors[place].stored is not None for place in self.view.inputs[v])
            later = held or stored or any(maker is not None and looks[maker] for maker in makers)
            product = op.product is not None and bool(self.weights[v])
            # Writing the new row does not look at the cache; a product over all rows of it does.
            writes = op.target.startswith("aten.copy_") and not any(looks[m] for m in makers if m is not None)
            looks[v] = later and not writes and not (product and not self._over_context(v))
        return looks

    def _over_context(self, v: int) -> bool:
        product = self.graph.operators[v].product
        return product is not None and self.context > 2 and self.samples * self.context in product[:3]

    def decoder(self) -> Decoder:
        graph = self.graph
        blocks = [self._block(number) for number in range(len(self.names))]
        heads = [p for block in blocks for p in block.products if p.kind == "head"]
        hidden = heads[0].inner if heads else max(p.inner for b in blocks for p in b.products)
        tables = {n for v, name in enumerate(self.view.names) if name in EMBEDDINGS for n in self.weights[v]}
        both = {n for v, op in enumerate(graph.operators) if op.product for n in self.weights[v]} & tables
        tied = sum(math.prod(graph.parameters[n].shape) for n in both)
        return Decoder(graph.name, hidden, tuple(blocks), tied)

    def _block(self, number: int) -> DecoderBlock:
        graph = self.graph
        members = [v for v, layer in enumerate(self.layer) if layer == number]
        attention = self._attention(members)
        dense: dict[tuple[int, str], WeightProduct] = {}
        experts: list[ExpertProduct] = []
        used: set[int] = set()
        several = [v for v in members if self._experts(v) > 1]
        owners = {graph.operators[v].module.rpartition(".")[0] for v in several}
        counts = {self._experts(v) for v in several}
        for v in members:
            op = graph.operators[v]
            if not self.weights[v] or op.flops == 0 or op.product is None:
                continue
            used.update(self.weights[v])
            if self._experts(v) > 1:
                experts.append(self._expert_product(v, members))
                continue
            inner, columns = self._sides(v)
            kind = self._kind(v, columns, attention, owners, number, counts)
            source = self._source(v)
            merged = dense.get((source, kind))
            columns += 0 if merged is None else merged.columns
            dense[source, kind] = WeightProduct(columns, inner, kind)
        chains, traffic = self._chains(members)
        others = sum(
            math.prod(p.shape)
            for n, p in enumerate(graph.parameters)
            if not p.buffer and n not in used and p.users and self.layer[p.users[0]] == number
        )
        # Attention adds up over devices, and so does what follows it; a table of embeddings does alone.
        looked_up = any(self.view.names[v] in EMBEDDINGS for v in members)
        reductions = int(looked_up) if attention is None else 2
        return DecoderBlock(tuple(dense.values()), tuple(experts), attention, chains, traffic, others, reductions)

    def _experts(self, v: int) -> int:
        shapes = [self.graph.parameters[n].shape for n in self.weights[v]]
        return shapes[0][0] if shapes and len(shapes[0]) == 3 and self.graph.operators[v].flops else 1

    def _sides(self, v: int) -> tuple[int, int]:
        """Inner dimension and columns of a product with a weight."""
        product = self.graph.operators[v].product
        assert product is not None
        _, rows, columns, inner = product
        shape = self.graph.parameters[self.weights[v][0]].shape
        size = math.prod(shape)
        # One of the result's sides is the tokens, the other is the weight's.
        return inner, columns if columns * inner == size else rows if rows * inner == size else size // inner

    def _expert_product(self, v: int, members: list[int]) -> ExpertProduct:
        shape = self.graph.parameters[self.weights[v][0]].shape
        op = self.graph.operators[v]
        assert op.product is not None
        inner = op.product[3]
        columns = math.prod(shape[1:]) // inner
        active = round(op.flops / (2 * inner * columns * self.samples))
        chosen = [self._chosen(u) for u in members if self.view.names[u] == "topk"]
        # Layers that run all experts and weigh them by zeros: how many count is what the router chooses.
        if active >= shape[0] and chosen:
            active = max(1, min(chosen))
        return ExpertProduct(shape[0], max(1, min(active, shape[0])), columns, inner)

    def _chosen(self, v: int) -> int:
        return min((self.graph.tensors[place].shape[-1] for place in self.view.outputs[v]), default=1)

    def _kind(
        self, v: int, columns: int, attention: CachedAttention | None, experts: set[str], number: int, counts: set[int]
    ) -> str:
        weight = self.graph.parameters[self.weights[v][0]].name
        module = self.graph.operators[v].module
        if attention is None and number == len(self.names) - 1:
            return "head"
        if _LOW_RANK in weight:
            return "copied"
        inside = any(f"{module}.".startswith(f"{owner}.") for owner in experts)
        if (inside and "shared" not in module and columns in counts) or "shared_expert_gate" in weight:
            return "router"
        if attention is not None and attention.key_heads < attention.heads and columns == self._key_columns(v):
            return "keys"
        return "dense"

    def _key_columns(self, v: int) -> int:
        """Features of the keys of the layer, if this product is in the module that caches them; else 0."""
        module = self.graph.operators[v].module.rpartition(".")[0]
        for n in self.caches:
            if self.graph.parameters[n].name.rpartition(".")[0] == module:
                shape = self.graph.parameters[n].shape
                return shape[1] * shape[3]
        return 0

    def _source(self, v: int) -> int:
        """The tensor that a product reads, before it was only looked at otherwise."""
        places = [p for p in self.view.inputs[v] if self.graph.tensors[p].stored is None]
        place = max(places, key=lambda p: self.graph.tensors[p].bytes, default=-1)
        while place >= 0:
            maker = self.view.maker(place)
            if maker is None or not self.graph.operators[maker].free:
                break
            before = self.view.inputs[maker]
            if len(before) != 1:
                break
            place = before[0]
        return place

    def _attention(self, members: list[int]) -> CachedAttention | None:
        graph = self.graph
        inside = set(members)
        caches = [n for n in sorted(self.caches) if any(v in inside for v in graph.parameters[n].users)]
        if not caches:
            return None
        shapes = [graph.parameters[n].shape for n in caches]
        rows = max(shape[2] for shape in shapes)
        flops = heads = expanded = 0
        for v in members:
            op = graph.operators[v]
            if not self.looks[v] or not op.flops:
                continue
            if self.weights[v] and self._over_context(v):
                expanded += math.prod(graph.parameters[self.weights[v][0]].shape)
                continue
            flops += op.flops // (self.samples * rows)
            heads = max(heads, self._heads(v))
        key_heads = max(shape[1] for shape in shapes)
        kept = sum(shape[1] * shape[3] for shape in shapes)
        heads = max(heads, key_heads)
        # Latent: with weights absorbed, every head scores against all that is kept and sums its latent part.
        decode = 2 * heads * (kept + max(shape[3] for shape in shapes)) if expanded else flops
        window = rows if rows < self.context else 0
        return CachedAttention(window, heads, key_heads, kept, flops, decode)

    def _heads(self, v: int) -> int:
        op = self.graph.operators[v]
        if op.product is not None:
            return max(1, op.product[0] // self.samples)
        shapes = [self.graph.tensors[place].shape for place in self.view.outputs[v]]
        return max((shape[1] for shape in shapes if len(shape) == 4), default=1)

    def _chains(self, members: list[int]) -> tuple[int, int]:
        """Kernels of elementwise operators of a layer, and bytes they move for a token.

        Operators with as many products behind them in the layer run in one kernel: what passes between two of these is
        written and read.
        """
        graph, view, inside = self.graph, self.view, set(members)
        level: dict[int, int] = {}
        works: dict[int, bool] = {}
        for v in members:
            op = graph.operators[v]
            heavy = bool(op.flops) or self.looks[v]
            makers = [m for m in (view.maker(p) for p in view.inputs[v]) if m in inside and m is not None]
            level[v] = max((level[m] + works[m] for m in makers), default=0)
            works[v] = heavy
        kernels: dict[int, int] = {}
        for v in members:
            op = graph.operators[v]
            if works[v] or op.free or view.names[v] in EMBEDDINGS:
                continue
            moved = kernels.setdefault(level[v], 0)
            for place in view.outputs[v]:
                tensor = graph.tensors[place]
                left = [u for u in tensor.consumers if level.get(u, -1) != level[v] or works.get(u, True)]
                if tensor.stored is not None:
                    continue
                moved += tensor.bytes if left or not tensor.consumers else 0
            for place in view.inputs[v]:
                maker = view.maker(place)
                if graph.tensors[place].stored is None and (
                    maker not in level or level[maker] != level[v] or works[maker]
                ):
                    moved += graph.tensors[place].bytes
            kernels[level[v]] = moved
        return len(kernels), round(sum(kernels.values()) / self.samples)
