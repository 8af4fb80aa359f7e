"""Context parallelism: a group shares out the sequence, and blocks of keys and values go round a ring.

Every device has two pieces of each sequence, one from either end, so that each has the same part of the causal pairs
(*zig-zag*). All operators but attention work on these tokens alone; attention needs the keys and values of all, which
neighbours hand on block by block while they work on the one before. Sources: Liu, Zaharia and Abbeel, "Ring Attention
with Blockwise Transformers for Near-Infinite Context" (2023), section 3; for the balance of causal work Brandon et al.,
"Striped Attention" (2023). Backward each block's gradient travels with it, as in NVIDIA's TransformerEngine.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from partita.costs.strategies.modes import Splits
from partita.costs.strategies.shares import Shape, shared_view
from partita.costs.strategies.view import (
    ATTENTION,
    ELEMENTWISE,
    EMBEDDINGS,
    LOSSES,
    NORMS,
    REDUCTIONS,
    ROUTING,
    SLICES,
    SOFTMAX,
    GraphView,
    numel,
)


@dataclass(frozen=True)
class Attention:
    """One attention of a layer: its forward operators, its sequence, and what goes round the ring."""

    operators: tuple[int, ...]  #: The fused operator, or those from the product of scores to the one that uses them.
    tokens: int  #: Queries and keys of a sequence.
    exchanged_bytes: float  #: Keys and values of the whole sequence.


@dataclass(frozen=True)
class TokenSequence:
    """How long the model's sequences are, and the attentions of each layer."""

    tokens: int
    attentions: dict[int, tuple[Attention, ...]]

    def refusal(self, degree: int) -> str | None:
        """Why so many devices cannot share out the sequence; None if they can."""
        if degree == 1 or self.tokens % (2 * degree) == 0:
            return None
        return (
            f"context-parallel degree {degree} does not cut the {self.tokens} tokens of a sequence into "
            f"{2 * degree} equal pieces, two for each device"
        )


def find_sequence(splits: Splits) -> TokenSequence | str:
    """The sequence that attention works on; a sentence if tokens cannot be shared out."""
    view, found = splits.view, _attentions(splits)
    if not found:
        return "no attention was found, by which tokens of a sequence meet"
    for layer, rows in found.items():
        for attention in rows:
            if not attention.tokens:
                return f"attention of {splits.names[layer]} has other queries than keys"
    lengths = sorted({attention.tokens for rows in found.values() for attention in rows})
    if len(lengths) > 1:
        return f"attention works on sequences of {', '.join(map(str, lengths))} tokens"
    inside = {v for rows in found.values() for attention in rows for v in attention.operators}
    experts = {splits.layer[v] for v, linear in view.linears.items() if linear.experts > 1}
    for v in view.forward:
        if v not in inside and view.state[v] and not _apart(view, v, lengths[0], splits.layer[v] in experts):
            op = view.graph.operators[v]
            return f"{op.target} in {op.module or 'the model'} may make one token of several"
    return TokenSequence(lengths[0], found)


def context_view(view: GraphView, sequence: TokenSequence, degree: int) -> GraphView:
    """What one of so many devices that share out the sequence has of a graph."""
    share = 1.0 / degree
    by_token, carried = _by_token(view, sequence.tokens)
    rings = {v: row for rows in sequence.attentions.values() for row in rows for v in row.operators[-1:]}
    found = shared_view(
        view,
        dict.fromkeys(by_token, share),
        {},
        dict.fromkeys(carried, share),
        lambda v, shape: _product(view, v, shape, degree),
    )
    operators = list(found.graph.operators)
    for v, ring in rings.items():
        # The block in use and the one that arrives.
        scratch = operators[v].workspace_bytes + round(2 * ring.exchanged_bytes / degree)
        operators[v] = msgspec.structs.replace(operators[v], workspace_bytes=scratch)
    return found.priced_as(found.graph.replace(operators=tuple(operators)))


def _attentions(splits: Splits) -> dict[int, tuple[Attention, ...]]:
    view = splits.view
    found: dict[int, list[Attention]] = {}
    cores = {region.core[-1]: region.core for region in splits.regions if region.core}
    for v in view.forward:
        if view.names[v] in ATTENTION:
            found.setdefault(splits.layer[v], []).append(_fused(view, v))
        elif v in cores:
            found.setdefault(splits.layer[v], []).append(_by_scores(view, cores[v]))
    return {layer: tuple(rows) for layer, rows in found.items()}


def _fused(view: GraphView, v: int) -> Attention:
    """Fused attention: the score product's arithmetic tells the keys, and the query's width."""
    graph = view.graph
    result = graph.tensors[view.outputs[v][0]]
    queries, item = result.shape[-2], result.bytes // max(1, view.size(view.outputs[v][0]))
    rows = view.size(view.outputs[v][0]) // result.shape[-1]
    read = [place for place in view.inputs[v] if (maker := view.maker(place)) is None or view.state[maker]]
    total = sum(graph.tensors[place].bytes for place in read)
    # flops = 2·rows·keys·(width of a query + width of a value)
    widths, rest = divmod(graph.operators[v].flops, 2 * rows * queries)
    query = rows * (widths - result.shape[-1]) * item
    same = not rest and 0 < query < total
    return Attention((v,), queries if same else 0, float(total - query))


def _by_scores(view: GraphView, core: tuple[int, ...]) -> Attention:
    """Attention in two products: scores have a row for every query and a column for every key."""
    graph = view.graph
    scores = view.outputs[core[0]][0]
    shape, item = graph.tensors[scores].shape, graph.tensors[scores].bytes // max(1, view.size(scores))
    query = graph.operators[core[0]].flops // (2 * shape[-1]) * item
    keys = sum(graph.tensors[place].bytes for place in view.inputs[core[0]]) - query
    inner = {place for v in core for place in view.outputs[v]}
    values = sum(graph.tensors[place].bytes for place in view.inputs[core[-1]] if place not in inner)
    same = len(shape) > 1 and shape[-1] == shape[-2]
    return Attention(core, shape[-1] if same else 0, float(max(keys, 0) + values))


def _apart(view: GraphView, v: int, tokens: int, routes: bool) -> bool:
    """Whether an operator treats every token alone, as far as its name and shapes tell."""
    name = view.names[v]
    if v in view.linears or name in ELEMENTWISE | EMBEDDINGS | LOSSES | SOFTMAX | NORMS or (routes and name in ROUTING):
        return True
    read = max((view.graph.tensors[place] for place in view.inputs[v]), key=numel, default=None)
    if read is None:
        return True
    written = [view.graph.tensors[place] for place in view.outputs[v]]
    if name in SLICES or name == "stack":
        # Features of all tokens, not some tokens.
        return all(numel(read) < tokens * numel(tensor) for tensor in written)
    if name in REDUCTIONS:
        whole = read.shape[:-1]
        return all(routes or numel(tensor) == 1 or tensor.shape in (whole, (*whole, 1)) for tensor in written)
    # A product with a copy of a weight, such as a router in another number format, reads nothing else by token.
    sources = [place for place in view.inputs[v] if view.fed(place)]
    return view.graph.operators[v].product is not None and len(sources) == 1


def _by_token(view: GraphView, tokens: int) -> tuple[list[int], list[int]]:
    """Tensors with a part for every token, and the operators that work on such tensors."""
    graph = view.graph
    place_of: set[int] = {place for place, tensor in enumerate(graph.tensors) if tensor.producer is None}
    carried = []
    for v in range(len(graph.operators)):
        fed = any(place in place_of for place in view.inputs[v])
        # Positions and masks have no source, and a dimension for the sequence.
        constant = not fed and not view.backward[v] and not view.state[v]
        made = [
            place
            for place in view.outputs[v]
            if place not in view.weight_gradients and (fed or (constant and tokens in graph.tensors[place].shape))
        ]
        place_of |= set(made)
        if fed or made:
            carried.append(v)
    return sorted(place_of), carried


def _product(view: GraphView, v: int, shape: Shape, degree: int) -> Shape:
    batch, rows, columns, inner = shape
    if any(place in view.weight_gradients for place in view.outputs[v]):
        return batch, rows, columns, max(1, round(inner / degree))
    linear = view.linears.get(view.roots[v])
    if linear is not None and columns == linear.tokens != rows:
        return batch, rows, max(1, round(columns / degree)), inner
    return batch, max(1, round(rows / degree)), columns, inner
