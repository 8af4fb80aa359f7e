"""Which layers are alike: built of the same operators in the same way, and run in the same way at every degree."""

from __future__ import annotations

import msgspec

from partita.costs.menus.modes import Modes
from partita.costs.menus.pricing import LayerPricer


def first_alike(pricer: LayerPricer, modes: dict[int, Modes]) -> list[int]:
    """For every layer the first that costs the same; itself where no earlier one does."""
    known: dict[object, int] = {}
    layers = range(len(pricer.splits.names))
    return [known.setdefault(_signature(pricer, layer, modes), layer) for layer in layers]


def _signature(pricer: LayerPricer, layer: int, modes: dict[int, Modes]) -> object:
    """All that a layer's prices depend on, with operators and tensors numbered as they appear."""
    view = pricer.splits.view
    graph = view.graph
    operators = {v: index for index, v in enumerate(pricer.splits.members[layer])}
    tensors: dict[int, int] = {}
    parameters: dict[int, int] = {}
    parts: list[object] = []
    for v in operators:
        op = msgspec.structs.replace(graph.operators[v], name="", module="", colocation=None)
        ways = tuple((found.mode[v], found.share[v]) for found in modes.values())
        parts.append((op, pricer.times[v], operators.get(view.roots[v]), ways))
        for place in (*view.inputs[v], *view.outputs[v]):
            parts.append(tensors.setdefault(place, len(tensors)))
        for place in view.parameters[v]:
            parts.append(parameters.setdefault(place, len(parameters)))
    for place in tensors:
        tensor = graph.tensors[place]
        inside = tuple(operators[v] for v in tensor.consumers if v in operators)
        saved = tuple(operators[v] for v in view.saved.get(place, ()) if v in operators)
        late = tensor.producer is not None and view.backward[tensor.producer]
        held = () if late else tuple(found.holding(place) for found in modes.values())
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
