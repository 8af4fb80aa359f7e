"""Graphs of one device of a group that shares out tokens or experts: the same operators on less.

Nothing of the structure changes, so that what was found in the whole graph holds for its share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from partita.costs.strategies.view import GraphView
from partita.nouns.graph import Operator

Shape = tuple[int, int, int, int]


def shared_view(
    view: GraphView,
    tensors: Mapping[int, float],
    parameters: Mapping[int, float],
    work: Mapping[int, float],
    product: Callable[[int, Shape], Shape],
) -> GraphView:
    """A view of what one device has of a graph.

    By place are given the share of a tensor's bytes, of a parameter's first dimension, and of an operator's arithmetic
    and scratch memory; all of it where absent. Traffic follows what an operator reads and writes. ``product`` says the
    shape of the device's part of an operator's product; it is asked for operators with a share of ``work``.
    """
    graph = view.graph
    operators = list(graph.operators)
    touched = set(work)
    for place in tensors:
        touched |= set(graph.tensors[place].consumers)
        if (maker := view.maker(place)) is not None:
            touched.add(maker)
    for place in parameters:
        touched |= set(graph.parameters[place].users)
    for v in touched:
        op, share = operators[v], work.get(v, 1.0)
        reads = [(graph.tensors[t].bytes, tensors.get(t, 1.0)) for t in view.inputs[v]]
        reads += [(graph.parameters[p].bytes, parameters.get(p, 1.0)) for p in view.parameters[v]]
        writes = [(graph.tensors[t].bytes, tensors.get(t, 1.0)) for t in view.outputs[v]]
        shape = product(v, op.product) if op.product is not None and v in work else op.product
        unpacked = min((parameters.get(p, 1.0) for p in view.parameters[v]), default=1.0)
        operators[v] = part_of(op, share, reads, writes, shape, unpacked)
    held = [
        msgspec.structs.replace(tensor, bytes=math.ceil(tensor.bytes * tensors[place])) if place in tensors else tensor
        for place, tensor in enumerate(graph.tensors)
    ]
    stored = [
        msgspec.structs.replace(
            parameter,
            shape=(round(parameter.shape[0] * parameters[place]), *parameter.shape[1:]),
            bytes=round(parameter.bytes * parameters[place]),
        )
        if place in parameters
        else parameter
        for place, parameter in enumerate(graph.parameters)
    ]
    return view.priced_as(
        msgspec.structs.replace(graph, operators=tuple(operators), tensors=tuple(held), parameters=tuple(stored))
    )


def part_of(
    op: Operator,
    share: float,
    reads: list[tuple[int, float]],
    writes: list[tuple[int, float]],
    product: Shape | None,
    weights: float,
) -> Operator:
    """A device's share of an operator's work, with traffic by the bytes of what it reads and writes and its share.

    ``weights`` is the share of its weights that it unpacks, where these are packed.
    """
    return msgspec.structs.replace(
        op,
        flops=round(op.flops * share),
        bytes_read=round(op.bytes_read * _average(reads)),
        bytes_written=round(op.bytes_written * _average(writes)),
        workspace_bytes=math.ceil(op.workspace_bytes * (weights if op.unpacking_bytes else share)),
        product=product,
        unpacking_bytes=round(op.unpacking_bytes * weights),
    )


def _average(parts: list[tuple[int, float]]) -> float:
    """Mean share, weighted by bytes."""
    total = sum(size for size, _ in parts)
    return sum(size * share for size, share in parts) / total if total else 1.0
