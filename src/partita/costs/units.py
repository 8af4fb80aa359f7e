"""What a plan may not cut through: operators that are one unit to whoever moves modules between devices."""

from __future__ import annotations

import itertools

from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.nouns.catalogue.runtimes import Cuts
from partita.nouns.graph import Graph


def cut_units(graph: Graph, cuts: Cuts) -> list[int]:
    """For every forward operator the first one of its unit; backward operators stay with themselves.

    A unit of ``layer`` is a repeated block, or what comes before or behind the blocks. A unit of ``module`` is one
    module that a block calls, such as its attention; what a block does by itself stays apart.
    """
    units = list(range(len(graph.operators)))
    if cuts == "operator":
        return units
    layer, names = assign_layers(GraphView(graph))
    first: dict[tuple[int, str], int] = {}
    for v, op in enumerate(graph.operators):
        if op.phase == "backward":
            continue
        name = ""
        if cuts == "module":
            block = names[layer[v]]
            # Input and output parts are made of the model's own modules, at the blocks' depth.
            depth = block.count(".") + 1 if f"{op.module}.".startswith(f"{block}.") else max(0, block.count(".") - 1)
            path = op.module.split(".") if op.module else []
            if len(path) <= depth:
                continue
            name = ".".join(path[: depth + 1])
        units[v] = first.setdefault((layer[v], name), v)
    return units


def called_together(graph: Graph, units: list[int]) -> list[tuple[int, int]]:
    """Pairs of operators on one device, where tensors move between devices only as modules are called.

    What a module over several units computes by itself reads tensors of one device, and a module that has a weight
    itself is whole. ``units`` is what ``cut_units`` returns.
    """
    view = GraphView(graph)
    inside: dict[str, list[int]] = {}
    for v in view.forward:
        module = graph.operators[v].module
        while module:
            inside.setdefault(module, []).append(v)
            module = module.rpartition(".")[0]
        inside.setdefault("", []).append(v)
    spread = {module for module, members in inside.items() if len({units[v] for v in members}) > 1}
    pairs: list[tuple[int, int]] = []
    for v in view.forward:
        if graph.operators[v].module in spread:
            makers = [maker for place in view.inputs[v] if (maker := view.maker(place)) is not None]
            pairs += itertools.pairwise(makers)
    for parameter in graph.parameters:
        owners = [name.rpartition(".")[0] for name in (parameter.name, *parameter.aliases)]
        called = [owner for owner in owners if owner in inside]
        if parameter.users and called and spread.issuperset(called):
            pairs += itertools.pairwise(inside[called[0]])
    return pairs


def weights_alone(graph: Graph) -> dict[int, list[int]]:
    """Operators that depend on weights and constants alone, such as the conversion of a weight, with their readers.

    There are none in a model without inputs, all of which would be one.
    """
    if all(tensor.producer is not None for tensor in graph.tensors):
        return {}
    read = [False] * len(graph.operators)
    readers: list[set[int]] = [set() for _ in graph.operators]
    for tensor in graph.tensors:
        for reader in tensor.consumers:
            read[reader] |= tensor.producer is None
            if tensor.producer is not None:
                readers[tensor.producer].add(reader)
    weighty = {user for parameter in graph.parameters for user in parameter.users}
    alone = [v in weighty and not read[v] for v in range(len(read))]
    for v, after in enumerate(readers):
        # Producers come first, so that whether this one depends on weights alone is settled.
        for reader in after:
            read[reader] |= not alone[v]
            alone[reader] = not read[reader]
    return {v: sorted(after) for v, after in enumerate(readers) if alone[v] and after}
