"""Which layers are alike: built of the same operators in the same way, and run in the same way at every degree."""

from __future__ import annotations

from partita.costs.menus.modes import Modes, holding
from partita.costs.menus.pricing import LayerPricer


def signatures(pricer: LayerPricer, modes: dict[int, Modes]) -> list[int]:
    """A number for every layer; equal numbers cost the same."""
    known: dict[object, int] = {}
    return [
        known.setdefault(_signature(pricer, layer, modes), len(known)) for layer in range(len(pricer.splits.members))
    ]


def _signature(pricer: LayerPricer, layer: int, modes: dict[int, Modes]) -> object:
    """All that a layer's prices depend on, with operators and tensors numbered as they appear."""
    view, graph = pricer.view, pricer.view.graph
    operators = {v: index for index, v in enumerate(pricer.splits.members[layer])}
    tensors: dict[int, int] = {}
    parameters: dict[int, int] = {}
    parts: list[object] = []
    for v in operators:
        op = graph.operators[v]
        parts.append(
            (
                op.target,
                op.dtype,
                op.flops,
                op.bytes_read,
                op.bytes_written,
                op.workspace_bytes,
                pricer.times[v],
                operators.get(view.roots[v]),
                tuple(found.mode[v] for found in modes.values()),
                tuple(found.share[v] for found in modes.values()),
            )
        )
        for place in (*view.inputs[v], *view.outputs[v]):
            parts.append(tensors.setdefault(place, len(tensors)))
        for place in view.parameters[v]:
            parts.append(parameters.setdefault(place, len(parameters)))
    for place in tensors:
        tensor = graph.tensors[place]
        inside = tuple(operators[v] for v in tensor.consumers if v in operators)
        saved = tuple(operators[v] for v in view.saved.get(place, ()) if v in operators)
        held = () if _backward(pricer, place) else tuple(holding(view, place, found) for found in modes.values())
        trained = place in view.trained
        maker = None if tensor.producer is None else operators.get(tensor.producer, -1)
        weight = place in view.weight_gradients
        # A source of columns that anyone keeps is gathered once more.
        kept = place in view.saved and bool(inside)
        parts.append((tensor.shape, tensor.dtype, tensor.bytes, inside, saved, held, trained, maker, weight, kept))
    for place in parameters:
        parameter = graph.parameters[place]
        parts.append((parameter.shape, parameter.dtype, parameter.bytes, parameter.trainable, parameter.buffer))
    return tuple(parts)


def _backward(pricer: LayerPricer, place: int) -> bool:
    producer = pricer.view.graph.tensors[place].producer
    return producer is not None and pricer.view.backward[producer]
