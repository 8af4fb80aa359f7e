"""Layers: groups of operators that a plan keeps together.

Repeated modules (the children of a module list) are layers; what comes before and behind them are layers of their own.
Operators keep the order of their dependencies, so the layers form a directed acyclic graph whatever the modules say.
"""

from __future__ import annotations

import re

from partita.costs.strategies.modes import Splits
from partita.costs.strategies.regions import Region, find_regions
from partita.costs.strategies.view import GraphView
from partita.ground.dags import row_of_blocks

#: With fewer repeated modules than this the lists inside them are looked at instead.
_FEW = 8


def find_splits(view: GraphView) -> Splits:
    """The layers of a graph and what can be split in them; where its modules say nothing, layers are cut."""
    layer, names = assign_layers(view)
    if len(names) == 1:
        layer, names = _cut_layers(view, find_regions(view, layer))
    return Splits(view, layer, names, find_regions(view, layer))


def assign_layers(view: GraphView) -> tuple[list[int], list[str]]:
    """For every operator (backward ones with their forward operator) its layer, and the layers' names.

    Layers are numbered in an order of execution.
    """
    operators = view.graph.operators
    blocks = _blocks(view)
    makers: list[list[int]] = []
    for v in range(len(operators)):
        producers = [] if view.backward[v] else [view.maker(place) for place in view.inputs[v]]
        makers.append([p for p in producers if p is not None])
    of_operator = ["" if view.backward[v] else _block_of(op.module, blocks) for v, op in enumerate(operators)]
    row, found = row_of_blocks(of_operator, makers)
    if not found:
        return [0] * len(operators), [view.graph.name]
    place = [row[view.roots[v]] for v in range(len(operators))]
    names = ["input", *found, "output"]
    used = sorted(set(place))
    new = {old: index for index, old in enumerate(used)}
    return [new[p] for p in place], [names[old] for old in used]


def _cut_layers(view: GraphView, regions: list[Region]) -> tuple[list[int], list[str]]:
    """Layers of a graph whose modules say nothing: as many as there are places where one tensor alone goes on.

    A layer has a product at least, and all of every region.
    """
    operators, forward = view.graph.operators, view.forward
    rank = {v: index for index, v in enumerate(forward)}
    # Tensors that go on from each operator to a later one, counted where they begin and end.
    change = [0] * (len(forward) + 1)
    for number, tensor in enumerate(view.graph.tensors):
        readers = view.readers(number)
        if tensor.producer in rank and readers and view.state[tensor.producer]:
            change[rank[tensor.producer]] += 1
            change[rank[readers[-1]]] -= 1
    whole = set()
    for region in regions:
        spanned = sorted(rank[v] for v in (*region.columns, *region.rows, *region.operators))
        whole |= set(range(spanned[0], spanned[-1]))
    place = [0] * len(operators)
    layer, going, work = 0, 0, 0
    last = max((index for index, v in enumerate(forward) if operators[v].flops), default=0)
    for index, v in enumerate(forward):
        place[v] = layer
        going += change[index]
        work += operators[v].flops
        if going == 1 and work and index < last and index not in whole:
            layer, work = layer + 1, 0
    place = [place[root] for root in view.roots]
    first = {place[v]: operators[v].name for v in reversed(forward)}
    return place, [f"from {first[number]}" for number in range(layer + 1)]


def _block_of(module: str, blocks: frozenset[str]) -> str:
    """The block that a module is or lies in; empty for none."""
    while module:
        if module in blocks:
            return module
        module = module.rpartition(".")[0]
    return ""


def _blocks(view: GraphView) -> frozenset[str]:
    """Qualified names of the repeated modules."""
    work: dict[str, int] = {}
    for op in (view.graph.operators[v] for v in view.forward):
        prefix = op.module
        while prefix:
            work[prefix] = work.get(prefix, 0) + op.flops
            prefix = prefix.rpartition(".")[0]
    lists: dict[str, list[str]] = {}
    for prefix in work:
        parent, _, tail = prefix.rpartition(".")
        if re.fullmatch(r"\d+", tail):
            lists.setdefault(parent, []).append(prefix)
    lists = {parent: children for parent, children in lists.items() if len(children) > 1}
    chosen = [child for parent in _outermost(lists, "") for child in lists[parent]]
    while 0 < len(chosen) < _FEW:
        deeper: list[str] = []
        for block in chosen:
            inner = [child for parent in _outermost(lists, block) for child in lists[parent]]
            # Only lists that hold most of a block's arithmetic are its repeated part.
            holds = sum(work[child] for child in inner) * 2 > work[block]
            deeper += inner if inner and holds else [block]
        if len(deeper) == len(chosen):
            break
        chosen = deeper
    if not chosen:
        tops = {prefix for prefix in work if "." not in prefix}
        return frozenset(tops) if len(tops) > 1 else frozenset()
    return frozenset(chosen)


def _outermost(lists: dict[str, list[str]], inside: str) -> list[str]:
    """Module lists inside a module that lie in no element of another such list."""
    mine = [parent for parent in lists if not inside or parent == inside or parent.startswith(inside + ".")]
    elements = {child for parent in mine for child in lists[parent]}
    return [parent for parent in mine if not _block_of(parent, frozenset(elements))]
