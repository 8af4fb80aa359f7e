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

from partita.costs.menus.forward import GraphView, numel
from partita.costs.menus.regions import Embedding, Linear, Region
from partita.costs.menus.targets import ELEMENTWISE, EMBEDDINGS, LOSSES, NORMS, REDUCTIONS, SLICES
from partita.graph import Tensor


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
    """What can be split in a graph, whatever the degree.

    Attributes
    ----------
    view
        The graph.
    layer, members
        The layer of every operator; the operators of every layer, in order.
    linears, embeddings
        Products with weights and lookups, by operator.
    regions
        What can be split.
    """

    view: GraphView
    layer: list[int]
    members: list[list[int]]
    linears: dict[int, Linear]
    embeddings: dict[int, Embedding]
    regions: list[Region]

    @cached_property
    def tokens(self) -> list[int]:
        """Tokens of each layer: those of what enters it or is looked up, as most of its products have; 0 if unknown."""
        graph = self.view.graph
        result = []
        for layer, members in enumerate(self.members):
            forward = [v for v in members if not self.view.backward[v]]
            entering = [
                graph.tensors[place]
                for v in forward
                for place in self.view.inputs[v]
                if (maker := graph.tensors[place].producer) is not None
                and self.layer[maker] != layer
                and self.view.state[maker]
            ]
            looked_up = [graph.tensors[p] for v in forward if v in self.embeddings for p in self.view.outputs[v]]
            products = Counter(self.linears[v].tokens for v in forward if v in self.linears)
            found = max(entering or looked_up, key=lambda t: (products[_tokens(t)], numel(t)), default=None)
            result.append(0 if found is None else _tokens(found))
        return result


@dataclass(frozen=True)
class Modes:
    """How the group of one degree runs the model.

    Attributes
    ----------
    degree
        Devices of the group.
    sequence
        Whether tokens are shared out where features are not.
    mode
        Of every forward operator; that of its forward operator for a backward one.
    share
        Of every forward operator, the part of its split dimension that a device gets; 1 where it does everything.
    """

    degree: int
    sequence: bool
    mode: tuple[Mode, ...]
    share: tuple[float, ...]


def assign_modes(splits: Splits, degree: int, sequence: bool) -> Modes:
    """Modes of all operators at a degree.

    Parameters
    ----------
    splits
        The graph and what can be split in it.
    degree
        Devices of a group.
    sequence
        Whether tokens are to be shared out where features are not.
    """
    view = splits.view
    count = len(view.graph.operators)
    mode = [Mode.WHOLE] * count
    share = [1.0] * count
    regions = [region for region in splits.regions if degree > 1 and region.splits(degree)]
    tables = {v: table for v, table in splits.embeddings.items() if degree > 1 and table.splits(degree)}
    if sequence:
        # Where nothing is split, sharing out tokens would only cost exchanges.
        active = {splits.layer[region.columns[0]] for region in regions} | {splits.layer[v] for v in tables}
        for v in range(count):
            here = splits.layer[v] in active and not view.backward[v] and view.state[v]
            if here and _by_token(splits, v, degree):
                mode[v], share[v] = Mode.TOKENS, 1.0 / degree
    for region in regions:
        parts = ((region.columns, Mode.COLUMN), (region.rows, Mode.ROW), (region.operators, Mode.SPLIT))
        for mine, kind in parts:
            for v in mine:
                mode[v], share[v] = kind, region.share(degree)
    for v, table in tables.items():
        mode[v], share[v] = Mode.ROW, math.ceil(table.rows / degree) / table.rows
    for v in range(count):
        if view.backward[v]:
            mode[v], share[v] = mode[view.roots[v]], share[view.roots[v]]
    return Modes(degree, sequence and degree > 1, tuple(mode), tuple(share))


def holding(view: GraphView, place: int, modes: Modes) -> Mode:
    """How the group holds a forward tensor: SPLIT, TOKENS or WHOLE."""
    producer = view.graph.tensors[place].producer
    if producer is None:
        return Mode.WHOLE
    mode = modes.mode[producer]
    if mode is Mode.COLUMN:
        return Mode.SPLIT
    if mode is Mode.ROW:
        return Mode.TOKENS if modes.sequence else Mode.WHOLE
    return mode


def seen_share(splits: Splits, v: int, place: int, modes: Modes, *, writes: bool) -> float:
    """The part of a tensor that a device reads or writes when it runs an operator."""
    mode, share = modes.mode[v], modes.share[v]
    if mode not in (Mode.COLUMN, Mode.ROW):
        return share
    view = splits.view
    # The side of a product that is split: its result for columns, its source for rows.
    split_result = mode is Mode.COLUMN
    if not view.backward[v]:
        return share if writes == split_result else 1.0
    if place in view.weight_gradients:
        return share
    product = view.graph.operators[v].flops > 0
    linear = splits.linears.get(view.roots[v])
    source = linear is not None and (place == linear.source or (product and writes))
    return share if source != split_result else 1.0


def parameter_share(splits: Splits, v: int, place: int, modes: Modes) -> float:
    """The part of a parameter that a device needs for an operator."""
    mode, share, root = modes.mode[v], modes.share[v], splits.view.roots[v]
    if mode is Mode.COLUMN:
        return share
    if mode is Mode.ROW:
        linear = splits.linears.get(root)
        table = splits.embeddings[root].table if linear is None else linear.weight
        return share if place == table else 1.0
    if mode is Mode.SPLIT:
        # One number for each feature is split; one for each feature of a head is not.
        region = next(r for r in splits.regions if root in r.operators)
        features = min(splits.linears[c].outputs for c in region.columns)
        return share if math.prod(splits.view.graph.parameters[place].shape) >= features else 1.0
    return 1.0


def _by_token(splits: Splits, v: int, degree: int) -> bool:
    """Whether an operator treats every token alone and there is a whole number of tokens for each device."""
    view = splits.view
    graph, name = view.graph, view.names[v]
    written = [graph.tensors[place] for place in view.outputs[v]]
    read = [graph.tensors[place] for place in view.inputs[v]]
    if v in splits.linears:
        linear = splits.linears[v]
        # A transposed source may have tokens for features: then its rows are not the layer's tokens.
        same = linear.tokens == splits.tokens[splits.layer[v]]
        return same and linear.experts == 1 and linear.tokens % degree == 0
    if graph.operators[v].flops or name in LOSSES or not written:
        return False
    tokens = _tokens(written[0])
    if tokens % degree or not tokens:
        return False
    if name in ELEMENTWISE or name in EMBEDDINGS:
        return True
    if name in NORMS:
        width = written[0].shape[-1]
        return all(math.prod(graph.parameters[p].shape) == width for p in view.parameters[v])
    if name in SLICES:
        return all(_tokens(tensor) == tokens for tensor in (*read, *written))
    if name in REDUCTIONS:
        largest = max(read, key=numel, default=None)
        return largest is not None and all(
            tensor.shape == (*largest.shape[:-1], 1) and largest.shape[-1] > 1 for tensor in written
        )
    return False


def _tokens(tensor: Tensor) -> int:
    """Rows of a tensor of features."""
    return math.prod(tensor.shape[:-1])
