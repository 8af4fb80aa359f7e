"""Frozen weights kept in four bits, which a kernel unpacks before every product that reads them (QLoRA).

NF4 has one of 16 values for each weight and one scale for each block of 64; scales are kept in eight bits, with one
float32 for each 256 of them: 4 + 8/64 + 32/(64·256) = 4.127 bits for a weight (Dettmers et al., "QLoRA", NeurIPS 2023,
§3, double quantisation). A product, forward and backward, reads a copy in its own number format that lives as long as
it runs: unpacking reads the four bits and writes that copy.
"""

from __future__ import annotations

import math
import re

import msgspec

from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.nouns.graph import Graph, Operator, Parameter

#: Bits of a weight in each format.
PACKED_BITS = {"nf4": 4 + 8 / 64 + 32 / (64 * 256)}

_REPEATED = re.compile(r"(^|\.)\d+(\.|$)")


def with_packed_weights(graph: Graph, weights: str | None) -> Graph:
    """The graph with the frozen weights of linear layers kept in a format of ``PACKED_BITS``; as it is for None.

    These are matrices that products alone read, in repeated modules: neither embeddings nor the output head, which
    bitsandbytes and torchtune leave as they are, too. In a model without repeated modules they are all such matrices.

    Raises ``InputError`` if there is none.
    """
    if weights is None:
        return graph
    matrices = [place for place, parameter in enumerate(graph.parameters) if _is_frozen_factor(graph, parameter)]
    chosen = {place for place in matrices if _REPEATED.search(graph.parameters[place].name)} or set(matrices)
    if not chosen:
        raise InputError(
            f"graph {graph.name!r} has no frozen linear layer whose weights could be kept in {weights}: what is "
            "trained is kept in its own format; train adapters with --lora 16, say, or leave --weights out"
        )
    operators, parameters = list(graph.operators), list(graph.parameters)
    before = after = 0
    for place in sorted(chosen):
        whole = parameters[place]
        size = math.ceil(math.prod(whole.shape) * PACKED_BITS[weights] / 8)
        parameters[place] = msgspec.structs.replace(whole, dtype=weights, bytes=size)
        before, after = before + whole.bytes, after + size
        for v in whole.users:
            operators[v] = _unpacking(operators[v], size, whole.bytes)
    note = (
        f"{len(chosen)} frozen weights are kept in {weights}, {format_bytes(after)} instead of {format_bytes(before)}; "
        "each product unpacks what it reads, forward and backward."
    )
    return graph.replace(operators=tuple(operators), parameters=tuple(parameters), notes=(*graph.notes, note))


def packed_format(graph: Graph) -> str:
    """The format that weights of a graph are kept in and unpacked from; empty if there are none."""
    return next((parameter.dtype for parameter in graph.parameters if parameter.dtype in PACKED_BITS), "")


def _is_frozen_factor(graph: Graph, parameter: Parameter) -> bool:
    """Whether it is a matrix that is not trained, and that products of two matrices alone read."""
    plain = not parameter.trainable and not parameter.buffer and len(parameter.shape) == 2
    readers = [graph.operators[v] for v in parameter.users]
    return plain and bool(readers) and all(op.product is not None for op in readers)


def _unpacking(op: Operator, packed: int, whole: int) -> Operator:
    """A product with a packed factor: unpacking reads and writes, and holds the copy beside what the product needs."""
    return msgspec.structs.replace(
        op, unpacking_bytes=op.unpacking_bytes + packed + whole, workspace_bytes=op.workspace_bytes + whole
    )
