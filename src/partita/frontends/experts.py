"""Mixtures of experts, whose tokens are routed by data: how many experts a batch is expected to reach, and read."""

from __future__ import annotations

import math

import msgspec

from partita.nouns.graph import Graph, Operator, Parameter, Tensor


def reached(experts: int, tokens: int, chosen: int) -> float:
    """Expected number of experts that some token is sent to, if each token picks ``chosen`` different ones evenly."""
    return experts * (1.0 - (1.0 - min(1.0, chosen / experts)) ** tokens)


def with_expected_experts(graph: Graph) -> Graph:
    """The graph with grouped products that read the experts they are expected to reach, and a note that says so."""
    routed = [v for v, op in enumerate(graph.operators) if "grouped_mm" in op.target and op.product is not None]
    if not routed:
        return graph
    inputs: dict[int, list[Tensor]] = {}
    stored: dict[int, list[Parameter]] = {}
    for tensor in graph.tensors:
        for v in tensor.consumers:
            inputs.setdefault(v, []).append(tensor)
    for parameter in graph.parameters:
        for v in parameter.users:
            stored.setdefault(v, []).append(parameter)
    operators = list(graph.operators)
    said: dict[str, None] = {}
    per_token: dict[int, int] = {}
    for v in routed:
        op = operators[v]
        rows = _rows(op, inputs.get(v, []))
        if rows is None:
            continue
        tokens = _tokens(rows, inputs)
        if tokens is not None and rows.shape[0] % tokens == 0:
            per_token.setdefault(rows.shape[0], rows.shape[0] // tokens)
        chosen = per_token.get(rows.shape[0], 1)
        experts = op.product[0] if op.product is not None else 0
        count = reached(experts, rows.shape[0] // chosen, chosen)
        operators[v] = _reading(op, count, [p for p in stored.get(v, ()) if p.shape[:1] == (experts,)])
        if op.phase == "forward":
            mean = max(1, round(rows.shape[0] / count))
            said[f"{mean:,} of each of {count:.3g} of {experts} experts"] = None
    note = (
        "Every token goes through its top experts: the experts of a layer are grouped products over all tokens, which "
        "count each token's chosen experts only and read the weights of the experts that are expected to get a token. "
        f"Tokens are presumed to be spread evenly{': ' + ', '.join(said) if said else ''}."
    )
    return graph.replace(operators=tuple(operators), notes=(*graph.notes, note))


def _rows(op: Operator, inputs: list[Tensor]) -> Tensor | None:
    """The tensor whose rows are shared out among the experts: that with the product's inner dimension."""
    assert op.product is not None
    return next((t for t in inputs if len(t.shape) == 2 and t.shape[1] == op.product[3]), None)


def _tokens(rows: Tensor, inputs: dict[int, list[Tensor]]) -> int | None:
    """How many tokens the rows were picked from; None where they are not picked by what makes them."""
    if rows.producer is None:
        return None
    wide = [t for t in inputs.get(rows.producer, []) if t.shape[-1:] == rows.shape[-1:] and t.shape[-1:] != (1,)]
    counts = [math.prod(t.shape[:-1]) for t in wide]
    return min((count for count in counts if 0 < count <= rows.shape[0]), default=None)


def _reading(op: Operator, count: float, weights: list[Parameter]) -> Operator:
    """A grouped product that reaches so many experts."""
    assert op.product is not None
    unread = sum(weight.bytes for weight in weights) * (1.0 - count / op.product[0])
    return msgspec.structs.replace(op, bytes_read=max(0, round(op.bytes_read - unread)))
