"""What a plan may not cut through: operators that are one unit to whoever moves modules between devices."""

from __future__ import annotations

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
