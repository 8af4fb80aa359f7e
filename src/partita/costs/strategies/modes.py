"""How a tensor-parallel group runs a model: what each device does of every operator, holds of every tensor, and sends.

Four ways to hold a tensor, as in Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
(2022), §4: *split* by features or heads, *whole* on every device, or, with sequence parallelism, some of its
*tokens*.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from partita.costs.strategies.regions import Region
from partita.costs.strategies.view import ELEMENTWISE, EMBEDDINGS, LOSSES, NORMS, REDUCTIONS, SLICES, GraphView, numel
from partita.nouns.graph import Tensor


class Mode(Enum):
    """What a device does of a forward operator."""

    COLUMN = "column"
    """A product: reads its input whole, makes a part of the features."""
    ROW = "row"
    """A product: reads a part of the features, makes a part of a sum; also a lookup in a part of a table."""
    SPLIT = "split"
    """Works on a part of the features or heads."""
    TOKENS = "tokens"
    """Works on a part of the tokens."""
    WHOLE = "whole"
    """Does everything, as every device of the group does."""


@dataclass(frozen=True)
class Splits:
    """What can be split in a graph, whatever the degree."""

    view: GraphView
    layer: list[int]  #: The layer of every operator.
    names: list[str]  #: The layers' names.
    regions: list[Region]

    @cached_property
    def members(self) -> list[list[int]]:
        """The operators of every layer, in order."""
        result: list[list[int]] = [[] for _ in self.names]
        for v, number in enumerate(self.layer):
            result[number].append(v)
        return result

    def forward(self, layer: int) -> list[int]:
        """The forward operators of a layer, in order."""
        return [v for v in self.members[layer] if not self.view.backward[v]]

    @cached_property
    def tokens(self) -> list[int]:
        """Tokens of each layer: those of what enters it or is looked up, as most of its products have; 0 if unknown."""
        view = self.view
        result = []
        for layer in range(len(self.names)):
            forward = self.forward(layer)
            entering = [
                place
                for v in forward
                for place in view.inputs[v]
                if (maker := view.maker(place)) is not None and self.layer[maker] != layer and view.state[maker]
            ]
            looked_up = [place for v in forward if v in view.embeddings for place in view.outputs[v]]
            found = [view.graph.tensors[place] for place in entering or looked_up]
            products = Counter(view.linears[v].tokens for v in forward if v in view.linears)
            result.append(_tokens(max(found, key=lambda t: (products[_tokens(t)], numel(t)))) if found else 0)
        return result


@dataclass(frozen=True)
class Modes:
    """How the group of one degree runs the model."""

    splits: Splits
    degree: int
    sequence: bool  #: Whether tokens are shared out where features are not.
    #: Whether what is gathered for columns is gathered again in the backward pass, instead of being kept whole.
    again: bool
    mode: tuple[Mode, ...]  #: Of every forward operator; that of its forward operator for a backward one.
    #: Likewise the part of its split dimension that a device gets; 1 where it does everything.
    share: tuple[float, ...]

    def holding(self, place: int) -> Mode:
        """How the group holds a forward tensor: SPLIT, TOKENS or WHOLE."""
        producer = self.splits.view.maker(place)
        mode = Mode.WHOLE if producer is None else self.mode[producer]
        if mode is Mode.COLUMN:
            return Mode.SPLIT
        if mode is Mode.ROW:
            return Mode.TOKENS if self.sequence else Mode.WHOLE
        return mode

    def seen_share(self, v: int, place: int, *, writes: bool) -> float:
        """The part of a tensor that a device reads or writes when it runs an operator."""
        mode, share, view = self.mode[v], self.share[v], self.splits.view
        if mode is Mode.TOKENS and place in view.weight_gradients:
            # A sum over its own tokens.
            return 1.0
        if mode not in (Mode.COLUMN, Mode.ROW):
            return share
        # The side of a product that is split: its result for columns, its source for rows.
        split_result = mode is Mode.COLUMN
        if not view.backward[v]:
            return share if writes == split_result else 1.0
        if place in view.weight_gradients:
            return share
        product = view.graph.operators[v].flops > 0
        linear = view.linears.get(view.roots[v])
        source = linear is not None and (place == linear.source or (product and writes))
        return share if source != split_result else 1.0

    def parameter_share(self, v: int, place: int) -> float:
        """The part of a parameter that a device needs for an operator."""
        mode, share, view = self.mode[v], self.share[v], self.splits.view
        root = view.roots[v]
        if mode is Mode.COLUMN:
            return share
        if mode is Mode.ROW:
            linear = view.linears.get(root)
            return share if place == (view.embeddings[root].table if linear is None else linear.weight) else 1.0
        if mode is Mode.SPLIT:
            # One number for each feature is split; one for each feature of a head is not.
            region = next(r for r in self.splits.regions if root in r.operators)
            features = min(view.linears[c].outputs for c in region.columns)
            return share if numel(view.graph.parameters[place]) >= features else 1.0
        return 1.0


def assign_modes(splits: Splits, degree: int, sequence: bool, *, again: bool = True) -> Modes:
    """Modes of all operators at a degree, with tokens shared out where features are not if asked to.

    ``again`` says whether what is gathered is gathered again for the backward pass.
    """
    view = splits.view
    count = len(view.graph.operators)
    mode = [Mode.WHOLE] * count
    share = [1.0] * count
    regions = [region for region in splits.regions if degree > 1 and region.splits(degree)]
    tables = {v: table for v, table in view.embeddings.items() if degree > 1 and table.splits(degree)}
    if sequence:
        # Where nothing is split, sharing out tokens would only cost exchanges.
        active = {splits.layer[region.columns[0]] for region in regions} | {splits.layer[v] for v in tables}
        for v in view.forward:
            if splits.layer[v] in active and view.state[v] and _by_token(splits, v, degree):
                mode[v], share[v] = Mode.TOKENS, 1.0 / degree
    for region in regions:
        parts = ((region.columns, Mode.COLUMN), (region.rows, Mode.ROW), (region.operators, Mode.SPLIT))
        for mine, kind in parts:
            for v in mine:
                mode[v], share[v] = kind, region.share(degree)
    for v, table in tables.items():
        mode[v], share[v] = Mode.ROW, math.ceil(table.rows / degree) / table.rows
    roots = view.roots
    sequence = sequence and degree > 1
    return Modes(
        splits, degree, sequence, again, tuple(mode[root] for root in roots), tuple(share[root] for root in roots)
    )


def _by_token(splits: Splits, v: int, degree: int) -> bool:
    """Whether an operator treats every token alone and there is a whole number of tokens for each device."""
    view = splits.view
    tensors, name = view.graph.tensors, view.names[v]
    written = [tensors[place] for place in view.outputs[v]]
    read = [tensors[place] for place in view.inputs[v]]
    linear = view.linears.get(v)
    if linear is not None:
        # A transposed source may have tokens for features: then its rows are not the layer's tokens.
        same = linear.tokens == splits.tokens[splits.layer[v]]
        return same and linear.experts == 1 and linear.tokens % degree == 0
    if view.graph.operators[v].flops or name in LOSSES or not written:
        return False
    tokens = _tokens(written[0])
    if tokens % degree or not tokens:
        return False
    if name in NORMS:
        return view.scales(v, written[0].shape[-1])
    if name in SLICES:
        return all(_tokens(tensor) == tokens for tensor in (*read, *written))
    if name in REDUCTIONS:
        largest = max(read, key=numel, default=None)
        return largest is not None and all(
            tensor.shape == (*largest.shape[:-1], 1) and largest.shape[-1] > 1 for tensor in written
        )
    return name in ELEMENTWISE or name in EMBEDDINGS


def _tokens(tensor: Tensor) -> int:
    """Rows of a tensor of features."""
    return math.prod(tensor.shape[:-1])
