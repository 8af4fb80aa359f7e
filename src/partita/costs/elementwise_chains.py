"""Chains of elementwise operators as one pass over memory, as compilers run them.

A kernel made of several operators reads what enters it once and writes what others read; what goes from one of its
operators to the next stays on the chip. Elementwise operators are joined with those that read their results, and a
softmax, norm or reduction with what only it reads. Operators, tensors and what is kept for the backward pass stay as
they are; only traffic and the number of kernels change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from partita.costs.strategies.view import ELEMENTWISE, NORMS, REDUCTIONS, SOFTMAX, GraphView
from partita.nouns.graph import Graph, Operator


def fuse_pointwise(graph: Graph, layer: Sequence[int] | None = None) -> Graph:
    """The graph with elementwise operators joined to kernels, within one number of ``layer`` where that is given.

    Operators are the same, with the traffic that is left to them; those in the kernel of an earlier one are ``joined``.
    """
    view = GraphView(graph)
    kernel = _kernels(view, [0] * len(graph.operators) if layer is None else layer)
    members: dict[int, list[int]] = {}
    for v, number in enumerate(kernel):
        members.setdefault(number, []).append(v)
    operators = list(graph.operators)
    for found in members.values():
        if len(found) > 1:
            for v, operator in zip(found, _joined(view, found), strict=True):
                operators[v] = operator
    return graph.replace(operators=tuple(operators))


def _kernels(view: GraphView, layer: Sequence[int]) -> list[int]:
    """For every operator the first operator of its kernel."""
    operators = view.graph.operators
    kernel = list(range(len(operators)))
    closed: set[int] = set()
    for v, op in enumerate(operators):
        kind = _kind(view, v)
        if kind is None:
            continue
        makers = [(place, view.maker(place)) for place in view.inputs[v]]
        size = _size(view, v)
        best: int | None = None
        for place, maker in makers:
            if maker is None or _kind(view, maker) != "elementwise" or kernel[maker] in closed:
                continue
            first = kernel[maker]
            alike = operators[maker].phase == op.phase and layer[maker] == layer[v] and _size(view, maker) == size
            # A reduction goes over its source again where others want it, too: only what it alone reads stays inside.
            alone = kind == "elementwise" or view.graph.tensors[place].consumers == (v,)
            # Whatever else is read was there before the kernel began, or is made in it: there is no way out and back.
            ready = all(other is None or other < first or kernel[other] == first for _, other in makers)
            if alike and alone and ready and (best is None or first < best):
                best = first
        if best is not None:
            kernel[v] = best
            if kind == "ends":
                closed.add(best)
    return kernel


def _joined(view: GraphView, members: list[int]) -> list[Operator]:
    """The operators of a kernel with the traffic that is left to them."""
    inside, tensors, parameters = set(members), view.graph.tensors, view.graph.parameters
    seen: set[int] = set()
    held: set[int] = set()
    result = []
    for v in members:
        op = view.graph.operators[v]
        again = [place for place in view.inputs[v] if place in seen or view.maker(place) in inside]
        kept = [p for p in view.parameters[v] if p in held]
        stays = [
            place for place in view.outputs[v] if tensors[place].consumers and inside >= {*tensors[place].consumers}
        ]
        read = op.bytes_read - sum(tensors[t].bytes for t in again) - sum(parameters[p].bytes for p in kept)
        written = op.bytes_written - sum(tensors[t].bytes for t in stays)
        seen |= set(view.inputs[v])
        held |= set(view.parameters[v])
        result.append(
            msgspec.structs.replace(op, bytes_read=max(0, read), bytes_written=max(0, written), joined=v != members[0])
        )
    return result


def _kind(view: GraphView, v: int) -> str | None:
    """``elementwise``, ``ends`` for what ends a kernel, or None for what is one by itself."""
    op = view.graph.operators[v]
    if op.free or op.flops:
        return None
    name = view.names[v]
    if name == "_softmax_backward_data":
        return "ends"
    name = name.removesuffix("_backward")
    if name in ELEMENTWISE:
        return "elementwise"
    return "ends" if name in SOFTMAX | NORMS | REDUCTIONS else None


def _size(view: GraphView, v: int) -> int:
    """Elements of the largest tensor that an operator reads or writes."""
    shapes = [view.graph.tensors[place].shape for place in (*view.inputs[v], *view.outputs[v])]
    return max(map(math.prod, shapes), default=0)
