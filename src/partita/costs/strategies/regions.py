"""Split regions: where a tensor-parallel group can share the features of a tensor out among its devices.

A product with a weight can give each device some of the columns of its result; everything up to the next products with
weights then works on these columns alone, and those products need only the matching rows, after which the results of
the devices are added (Shoeybi et al., "Megatron-LM", 2019, §3). Such a region is found from the graph: the tensors
between products with weights, as far as only operators lie between them that leave features, or heads, apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from partita.costs.strategies.view import (
    ATTENTION,
    CHANNELWISE,
    ELEMENTWISE,
    LOSSES,
    NORMS,
    REDUCTIONS,
    ROWS_PER_DEVICE,
    SCANS,
    SLICES,
    SOFTMAX,
    GraphView,
)


@dataclass(frozen=True)
class Region:
    """Operators that work on a part of the features at each device."""

    kind: str  #: ``attention``, ``scan``, ``mlp``, ``experts`` or ``vocabulary``.
    #: Products with weights whose columns, and whose rows, are shared out.
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    operators: tuple[int, ...]  #: The operators between them.
    #: Numbers that a degree must divide: heads, groups of them, or features. Words of a vocabulary may be divided
    #: unevenly, if each device gets enough of them.
    units: tuple[int, ...]
    #: Operators from the product that makes attention scores to the one that uses them: what selective recomputation
    #: runs again. Empty where one operator does it all.
    core: tuple[int, ...] = ()
    context: int | None = None  #: The last of them.

    def splits(self, degree: int) -> bool:
        """Whether the degree divides what must be divided."""
        if self.kind == "vocabulary":
            return self.units[0] >= ROWS_PER_DEVICE * degree
        return all(unit % degree == 0 for unit in self.units)

    def share(self, degree: int) -> float:
        """The largest part that a device gets."""
        if self.kind == "vocabulary":
            return math.ceil(self.units[0] / degree) / self.units[0]
        return 1.0 / degree


def find_regions(view: GraphView, layer: list[int]) -> list[Region]:
    """All regions that can be split at once, each inside one layer, by their first operator.

    A product cannot end one region and begin the next without its result being put together; where regions compete,
    the one with more arithmetic in its products is taken.
    """
    found = [part.region(layer) for part in _collect(view)]
    regions = sorted(
        (region for region in found if region is not None),
        key=lambda r: (-sum(view.graph.operators[v].flops for v in (*r.columns, *r.rows)), r.columns),
    )
    taken: set[int] = set()
    chosen = []
    for region in regions:
        ends = {*region.columns, *region.rows}
        if not ends & taken:
            taken |= ends
            chosen.append(region)
    return sorted(chosen, key=lambda r: r.columns)


def _collect(view: GraphView) -> list[_Part]:
    """Sets of tensors that have to be split together, as far as every operator that reads one can do so."""
    import rustworkx

    split: set[int] = set()
    ties: list[tuple[int, int]] = []
    roles: list[tuple[int, str, int]] = []
    """Tensor, what an operator is to it, and the operator."""
    for v in view.forward:
        read, made = [place for place in view.inputs[v] if place in split], view.outputs[v]
        linear = view.linears.get(v)
        if linear is not None:
            roles += [(place, "row" if place == linear.source else "breaks", v) for place in read]
            roles += [(place, "column", v) for place in made]
            ties += pairwise(made)
        elif read and _leaves_apart(view, v, read):
            roles += [(place, "between", v) for place in read]
            ties += pairwise([*read, *made])
        else:
            roles += [(place, "breaks", v) for place in read]
            continue
        split |= set(made)
    tied: rustworkx.PyGraph[None, None] = rustworkx.PyGraph()
    tied.add_nodes_from([None] * len(view.graph.tensors))
    tied.add_edges_from_no_data(ties)
    sets = rustworkx.connected_components(tied)
    number = {place: index for index, tensors in enumerate(sets) for place in tensors}
    found: dict[tuple[int, str], set[int]] = defaultdict(set)
    for place, role, v in roles:
        found[number[place], role].add(v)
    return [
        _Part(view, tensors, *(tuple(sorted(found[index, role])) for role in ("column", "row", "between")))
        for index, tensors in enumerate(sets)
        if tensors & split and not found[index, "breaks"]
    ]


def _leaves_apart(view: GraphView, v: int, split: list[int]) -> bool:
    """Whether an operator may work on a part of the features of its split inputs; the others it reads whole."""
    name, graph = view.names[v], view.graph
    whole = [place for place in view.inputs[v] if place not in split]
    if name in LOSSES or name in CHANNELWISE:
        return True
    if name in SCANS:
        return len(split) > 1
    if graph.operators[v].flops:
        # Attention in one operator, or one of its two products: a product of two batches of matrices.
        weights = any(len(graph.parameters[p].shape) > 1 for p in view.parameters[v])
        heads = _heads(view, v) if name in ATTENTION else int(name in ("bmm", "baddbmm", "matmul"))
        masks = all(name in ATTENTION and heads not in graph.tensors[p].shape[-3:-2] for p in whole)
        return not weights and heads > 0 and masks and len(split) > 1
    if name not in ELEMENTWISE | SLICES | SOFTMAX | REDUCTIONS | NORMS:
        return False
    # A whole operand may only be one that is broadcast over features or heads.
    size = view.most_written(v)
    return all(view.size(place) < size or size == 1 for place in whole)


def _heads(view: GraphView, v: int) -> int:
    """Heads of an attention operator."""
    shape = view.graph.tensors[view.outputs[v][0]].shape
    return shape[-3] if len(shape) > 2 else 1


@dataclass(frozen=True)
class _Part:
    """Tensors that have to be split together, the products that make and read them, and the operators between."""

    view: GraphView
    tensors: set[int]
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    operators: tuple[int, ...]

    def region(self, layer: list[int]) -> Region | None:
        """The region they are; None where it cannot be split."""
        view, products = self.view, (*self.columns, *self.rows)
        if set(self.columns) & set(self.rows) or len({layer[v] for v in (*products, *self.operators)}) > 1:
            return None
        if not self.rows:
            return self._vocabulary()
        names = {view.names[v] for v in self.operators}
        # A result of the model is wanted whole.
        if names & LOSSES or not all(view.graph.tensors[place].consumers for place in self.tensors):
            return None
        if any(view.size(place) % view.linears[v].tokens for v in products for place in view.outputs[v]):
            return None
        tokens = {view.linears[v].tokens for v in self.columns}
        # What rows multiply must be the features that columns make, not tokens that a transposed reader takes for
        # features.
        if {view.linears[v].tokens for v in self.rows} - tokens:
            return None
        scans = [v for v in self.operators if view.names[v] in SCANS]
        if scans:
            return self._scan(scans)
        inner = [v for v in self.operators if view.graph.operators[v].flops]
        if inner:
            return self._attention(inner)
        if names & (SOFTMAX | REDUCTIONS | NORMS):
            return None
        if len(tokens) > 1 or not all(_in_rows(view.graph.tensors[place].shape, *tokens) for place in self.tensors):
            return None
        units = {*self._features(), *(view.linears[v].inputs for v in self.rows)}
        kind = "experts" if any(view.linears[v].experts > 1 for v in self.columns) else "mlp"
        return Region(kind, self.columns, self.rows, self.operators, tuple(sorted(units)))

    def _features(self) -> list[int]:
        """Features of every tensor that the columns make."""
        view = self.view
        return [view.size(place) // view.linears[v].tokens for v in self.columns for place in view.outputs[v]]

    def _vocabulary(self) -> Region | None:
        """A product whose result only a loss reads, or nobody: the last layer of a model that predicts words."""
        view = self.view
        if len(self.columns) != 1:
            return None
        for v in self.operators:
            name = view.names[v]
            if view.graph.operators[v].flops or name in SOFTMAX | NORMS | SLICES:
                return None
            if name in REDUCTIONS and view.most_written(v) > 1:
                return None
        linear = view.linears[self.columns[0]]
        if max(view.size(place) for place in self.tensors) > linear.tokens * linear.outputs:
            return None
        return Region("vocabulary", self.columns, (), self.operators, (linear.outputs,))

    def _attention(self, products: list[int]) -> Region | None:
        view = self.view
        fused = any(view.names[v] in ATTENTION for v in products)
        if len(products) != (1 if fused else 2):
            return None
        scores = view.outputs[products[0]][0]
        if fused:
            heads, width = _heads(view, products[0]), view.graph.tensors[scores].shape[-1]
        else:
            inputs = view.linears[self.rows[0]].inputs
            width = view.graph.operators[products[0]].flops // (2 * view.size(scores))
            if not width or inputs % width:
                return None
            heads = inputs // width
        units = {heads}
        for features in self._features():
            if features < heads * width:
                # Fewer heads of keys and values, shared by groups of query heads.
                if features % width:
                    return None
                units.add(features // width)
            elif features % heads:
                return None
        if not all(self._inside_heads(v, width, fused) for v in self.operators):
            return None
        if any(view.linears[v].inputs % heads for v in self.rows):
            return None
        core: tuple[int, ...] = ()
        if not fused:
            # Operators on the ways from the first product to the last, both included.
            first, last = products
            after = {first} | view.reach([first], self.operators)
            core = tuple(sorted(after & ({last} | view.reach([last], self.operators, back=True))))
        return Region("attention", self.columns, self.rows, self.operators, tuple(sorted(units)), core, products[-1])

    def _scan(self, scans: list[int]) -> Region | None:
        """A state-space mixer, split by groups of heads as Megatron Core does (Dao and Gu, "Mamba-2", 2024, §8.1).

        Each device needs whole groups: heads that share what goes into the state and out of it, and are normalised
        together.
        """
        view = self.view
        shapes = [view.graph.tensors[place].shape for v in scans for place in (*view.inputs[v], view.outputs[v][0])]
        units = {shape[-2] for shape in shapes if len(shape) == 4}
        groups, tokens = min(units, default=1), view.linears[self.columns[0]].tokens
        if groups == 1:
            return None
        for v in self.operators:
            name = view.names[v]
            parts = [view.size(place) for place in view.outputs[v]]
            if name in SOFTMAX | NORMS or (name in REDUCTIONS and any(size % (tokens * groups) for size in parts)):
                return None
        if any(features % groups for features in (*self._features(), *(view.linears[v].inputs for v in self.rows))):
            return None
        return Region("scan", self.columns, self.rows, self.operators, tuple(sorted(units)))

    def _inside_heads(self, v: int, width: int, fused: bool) -> bool:
        """Whether an operator of an attention region works on each head alone."""
        view, name = self.view, self.view.names[v]
        if name in SOFTMAX:
            return not fused
        if name in NORMS:
            return view.scales(v, width)
        if name in REDUCTIONS:
            read = max(view.size(place) for place in view.inputs[v])
            return all(view.size(place) * width == read for place in view.outputs[v])
        return True


def _in_rows(shape: tuple[int, ...], tokens: int) -> bool:
    """Whether the first dimensions of a shape are so many tokens, and the last their features."""
    return any(math.prod(shape[:k]) == tokens for k in range(len(shape) + 1))
