"""Which tensors are gradients of parameters, and which are parts of one that will be summed."""

from __future__ import annotations

from partita.nouns.graph import GRADIENT_PREFIX, Graph


def parameter_gradients(graph: Graph) -> frozenset[str]:
    """Names of the tensors that are gradients of trainable parameters."""
    return frozenset(
        GRADIENT_PREFIX + name
        for parameter in graph.parameters
        if parameter.trainable
        for name in (parameter.name, *parameter.aliases)
    )


def partial_gradients(graph: Graph) -> frozenset[int]:
    """Places of the tensors that are added up to a parameter's gradient, one for each place that reads it.

    They are found backwards from the gradient through additions, among tensors of the gradient's shape that nothing
    else reads.
    """
    gradients = parameter_gradients(graph)
    sums = [t for t in graph.tensors if t.name in gradients and t.producer is not None and _adds(graph, t.producer)]
    if not sums:
        return frozenset()
    inputs: dict[int, list[int]] = {}
    for place, tensor in enumerate(graph.tensors):
        for reader in tensor.consumers:
            if _adds(graph, reader):
                inputs.setdefault(reader, []).append(place)
    found: set[int] = set()
    for total in sums:
        pending: list[int | None] = [total.producer]
        while pending:
            addition = pending.pop()
            for place in inputs.get(addition, ()) if addition is not None else ():
                part = graph.tensors[place]
                made_backward = part.producer is not None and graph.operators[part.producer].phase == "backward"
                if place in found or part.consumers != (addition,) or part.shape != total.shape or not made_backward:
                    continue
                found.add(place)
                pending.append(part.producer)
    return frozenset(found)


def _adds(graph: Graph, index: int) -> bool:
    op = graph.operators[index]
    return op.phase == "backward" and op.target.startswith("aten.add")
