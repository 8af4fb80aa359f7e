"""What a plan may not cut through: operators that are one unit to whoever moves modules between devices."""

from __future__ import annotations

import itertools

from partita.catalogue.runtimes import Cuts
from partita.costs.menus.forward import GraphView
from partita.costs.menus.layers import assign_layers
from partita.graph import Graph


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
        owner = parameter.name.rpartition(".")[0]
        if parameter.users and owner in spread:
            pairs += itertools.pairwise(inside[owner])
    return pairs
