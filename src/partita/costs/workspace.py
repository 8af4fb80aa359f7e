"""Memory an operator needs only while it runs, as one number per operator.

A stage runs its operators in the graph's order. It holds a tensor from the first of its operators that touches it
(makes it, or reads it: what comes from elsewhere arrives just before) to the last. Whatever the stage, that span lies
inside the tensor's life in the whole graph; so the bytes alive in the whole graph while an operator runs are at least
what its stage holds then, and the largest of them over a stage's operators is at least what the stage needs. It counts
too much where a tensor passes a stage by without being touched there. docs/cost-model.md works an example.
"""

from __future__ import annotations

import numpy as np

from partita.costs.gradients import parameter_gradients
from partita.engines.kernels.arrays import Longs
from partita.nouns.graph import Graph


def colocation_roots(graph: Graph) -> list[int]:
    """For each operator the first operator of its chain of colocations; itself without one."""
    roots: list[int] = []
    for index, op in enumerate(graph.operators):
        # A graph guarantees that the operator it shares a device with comes earlier.
        roots.append(index if op.colocation is None else roots[op.colocation])
    return roots


def saved_readers(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Tensors kept from forward to backward: place among the graph's tensors to the backward operators that read it."""
    backward = [op.phase == "backward" for op in graph.operators]
    result: dict[int, tuple[int, ...]] = {}
    for place, tensor in enumerate(graph.tensors):
        if tensor.producer is None or not backward[tensor.producer]:
            readers = tuple(v for v in tensor.consumers if backward[v])
            if readers:
                result[place] = readers
    return result


def lives(
    graph: Graph, roots: list[int], saved: dict[int, tuple[int, ...]], *, accumulates: bool
) -> list[tuple[int, int, int]]:
    """First operator, last operator and bytes of every tensor while it is held for the running microbatch only.

    Not counted are parameters and their gradients, which are held for good, and saved tensors wherever a stage that
    touches them also has one of their backward readers, because it holds them from then on for every microbatch in
    flight. A stage that touches a saved tensor but has none of its backward readers holds it like any other: that is
    the span of the forward operators that share no device with a reader.

    Where it ``accumulates``, summing gradients over several microbatches, that of one exists beside the sum while it is
    added. ``roots`` and ``saved`` are what ``colocation_roots`` and ``saved_readers`` give.
    """
    gradients = parameter_gradients(graph)
    result = []
    for place, tensor in enumerate(graph.tensors):
        if tensor.stored is not None:
            # Its memory is that of the array.
            continue
        if tensor.name in gradients:
            if accumulates and tensor.producer is not None:
                result.append((tensor.producer, tensor.producer, tensor.bytes))
            continue
        pins = tensor.consumers if tensor.producer is None else (tensor.producer, *tensor.consumers)
        readers = saved.get(place)
        if readers is not None:
            classes, late = {roots[v] for v in readers}, set(readers)
            pins = tuple(v for v in pins if v not in late and roots[v] not in classes)
        if pins:
            result.append((pins[0], pins[-1], tensor.bytes))
    return result


def workspace_bytes(graph: Graph, spans: list[tuple[int, int, int]]) -> Longs:
    """For each operator its scratch memory and the bytes of all tensors alive while it runs, given ``lives``."""
    change = np.zeros(len(graph.operators) + 1, dtype=np.int64)
    if spans:
        table = np.array(spans, dtype=np.int64)
        np.add.at(change, table[:, 0], table[:, 2])
        np.subtract.at(change, table[:, 1] + 1, table[:, 2])
    scratch = np.array([op.workspace_bytes for op in graph.operators], dtype=np.int64)
    return np.cumsum(change[:-1]) + scratch


def own_bytes(graph: Graph) -> Longs:
    """For each operator its scratch memory, the graph's inputs that it reads, and what it makes for nobody.

    These are no tensors between operators. An input that several operators read counts while each of them runs, not
    between them.
    """
    own = np.array([op.workspace_bytes for op in graph.operators], dtype=np.int64)
    for tensor in graph.tensors:
        if tensor.producer is None:
            for reader in tensor.consumers:
                own[reader] += tensor.bytes
        elif not tensor.consumers:
            own[tensor.producer] += tensor.bytes
    return own
