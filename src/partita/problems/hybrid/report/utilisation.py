"""How much of the devices' peak a model's plan uses, and which modules its layers are."""

from __future__ import annotations

from typing import Any

from partita.cluster import Cluster
from partita.graph import Graph
from partita.problems.facets.model import Answer
from partita.problems.hybrid.pricing import LayerMenus


def utilisation(answer: Answer[Any], time_per_sample: float) -> float:
    """Model FLOPs utilisation: useful operations over what all devices could do in that time.

    Products, convolutions and attention are counted, recomputation is not (Chowdhery et al., "PaLM", 2022, Appendix B).
    """
    if time_per_sample <= 0:
        return 0.0
    return float(answer.graph.flops) / (time_per_sample * peak_flops(answer.graph, answer.cluster))


def peak_flops(graph: Graph, cluster: Cluster) -> float:
    """Peak FLOP/s of all accelerators at the number format with the most operations."""
    flops: dict[str, float] = {}
    for op in graph.operators:
        flops[op.dtype] = flops.get(op.dtype, 0.0) + op.flops
    dtype = max(flops, key=lambda name: flops[name])
    return sum(group.spec.peak(dtype) * len(group.indices) for group in cluster.workers())


def layer_modules(graph: Graph, menus: LayerMenus) -> dict[int, tuple[str, ...]]:
    """The modules of every layer; a layer that is no module of its own lists the modules whose operators it holds."""
    from partita.costs.menus.forward import GraphView
    from partita.costs.menus.layers import assign_layers

    view = GraphView(graph)
    held: list[dict[str, None]] = [{} for _ in menus.layers]
    paths = {op.module for op in graph.operators}
    for place, number in enumerate(assign_layers(view)[0]):
        module = graph.operators[place].module
        if module and not view.backward[place]:
            held[number].setdefault(module)
    found = {}
    for menu, modules in zip(menus.layers, held, strict=True):
        whole = any(path == menu.name or path.startswith(f"{menu.name}.") for path in paths)
        found[menu.id] = (menu.name,) if whole else tuple(modules)
    return found
