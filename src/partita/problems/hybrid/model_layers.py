"""What of a model each layer of a hybrid problem has: modules, operators, and how it recomputes selectively."""

from __future__ import annotations

from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.view import GraphView
from partita.nouns.graph import Graph
from partita.problems.hybrid.spaces import StrategySpaces


def layer_modules(graph: Graph, spaces: StrategySpaces) -> dict[int, tuple[str, ...]]:
    """The modules of every layer; a layer that is no module of its own lists the modules whose operators it holds."""
    view = GraphView(graph)
    held: list[dict[str, None]] = [{} for _ in spaces.layers]
    paths = {op.module for op in graph.operators}
    for place, number in enumerate(find_splits(view).layer):
        module = graph.operators[place].module
        if module and not view.backward[place]:
            held[number].setdefault(module)
    found = {}
    for space, modules in zip(spaces.layers, held, strict=True):
        whole = any(path == space.name or path.startswith(f"{space.name}.") for path in paths)
        found[space.id] = (space.name,) if whole else tuple(modules)
    return found


def layer_operators(graph: Graph, spaces: StrategySpaces) -> dict[int, tuple[int, ...]]:
    """The operators of every layer, by its id."""
    members = find_splits(GraphView(graph)).members
    return {space.id: tuple(members[number]) for number, space in enumerate(spaces.layers)}


def selective_ways(graph: Graph, spaces: StrategySpaces) -> dict[int, str]:
    """What ``selective`` recomputation of each layer is, by its id, as ``nouns.split.RuntimeLayer`` calls it."""
    splits = find_splits(GraphView(graph))
    scores = {splits.layer[region.core[0]] for region in splits.regions if region.core}
    return {space.id: "attention" if number in scores else "operators" for number, space in enumerate(spaces.layers)}
