"""The chain of units that a runtime with a chain of blocks divides among its stages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.ground.errors import UnsupportedError
from partita.nouns.catalogue.runtimes import Runtime
from partita.nouns.graph import Graph

#: Modules that share this much of their operators do the same.
_ALIKE = 0.8


@dataclass(frozen=True)
class BlockChain:
    """What stages are runs of."""

    #: For every operator the number of its unit, in the model's order; backward operators are with their forward ones.
    unit: tuple[int, ...]
    names: tuple[str, ...]  #: What each unit is, for people.
    #: Pairs of units: what the first hands to the second must not pass over a stage.
    handed: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()  #: What a reader should know about the chain, one sentence each.


def chain_of(graph: Graph, runtime: Runtime) -> BlockChain:
    """The chain of a model for a runtime whose stages are runs of whole blocks.

    A unit is a block, or what comes before or behind the blocks. Units that no plan of the runtime takes apart are one:
    those between two that read a weight that must not be on two stages; and, where every stage has a block, the
    model's ends and the blocks beside them.

    Raises ``UnsupportedError`` if the model has no blocks, or several chains of them.
    """
    view, limits = GraphView(graph), runtime.limits
    layer, layers = assign_layers(view)
    blocks = _row_of_blocks(view, runtime) if limits.one_list else dict.fromkeys(layers[1:-1])
    if not blocks:
        raise UnsupportedError(f"{runtime.name} runs a chain of layers, and {graph.name} has no layers")
    names: list[str] = []
    place: list[int] = []
    before = ""
    for number, name in enumerate(layers):
        block = next((parent for parent in blocks if f"{name}.".startswith(f"{parent}.")), "")
        # What lies between blocks belongs to the one before it.
        if not block and 0 < number < len(layers) - 1:
            block = before
        if not names or not block or block != before:
            names.append(block or name)
        place.append(len(names) - 1)
        before = block
    unit = [place[number] for number in layer]
    runs = set(range(len(names) - 1))
    if not limits.empty_stages:
        runs -= {number for number in runs if names[number] not in blocks or names[number + 1] not in blocks}
    notes = []
    # Constants alone are no stage.
    works = {unit[v] for v in view.forward if view.state[v]}
    runs -= {number - (number + 1 == len(names)) for number in range(len(names)) if number not in works}
    ends = {0, len(names) - 1} if limits.tied == "ends" else set()
    if limits.ties(graph.training) or (ends and graph.training):
        for parameter in graph.parameters:
            held = {unit[v] for v in parameter.users}
            if parameter.buffer or len(held) < 2 or held <= ends:
                continue
            cut = set(range(min(held), max(held)))
            if cut & runs:
                label = " = ".join((parameter.name, *parameter.aliases))
                notes.append(
                    f"{label} is read from {names[min(held)]} to {names[max(held)]}, and {runtime.name} does not keep "
                    "two copies of a weight equal: all that is between is on one stage."
                )
            runs -= cut
    return _merged(view, unit, names, runs, notes, skips=limits.skips)


def _merged(
    view: GraphView, unit: list[int], names: list[str], cuts: set[int], notes: list[str], *, skips: bool
) -> BlockChain:
    """The chain with cuts only behind the units in ``cuts``."""
    new = [sum(cut < number for cut in cuts) for number in range(len(names))]
    unit = [new[number] for number in unit]
    labels: dict[int, list[str]] = {}
    for number, name in enumerate(names):
        labels.setdefault(new[number], []).append(name)
    shown = tuple(" … ".join(dict.fromkeys((members[0], members[-1]))) for members in labels.values())
    farthest: dict[int, int] = {}
    for number, tensor in enumerate(view.graph.tensors):
        source = tensor.producer
        # Constants (masks, positions) are made on every stage.
        if skips or source is None or view.backward[source] or not view.state[source]:
            continue
        last = max((unit[v] for v in view.readers(number)), default=0)
        farthest[unit[source]] = max(farthest.get(unit[source], 0), last)
    handed = tuple((first, last) for first, last in sorted(farthest.items()) if last > first + 1)
    return BlockChain(tuple(unit), shown, handed, tuple(notes))


def _row_of_blocks(view: GraphView, runtime: Runtime) -> dict[str, None]:
    """Qualified names of the blocks: the numbered children of the one outermost list of like modules."""
    structure: dict[str, Counter[tuple[str, str]]] = {}
    for op in (view.graph.operators[v] for v in view.forward):
        path = op.module.split(".") if op.module else []
        for depth in range(1, len(path) + 1):
            if path[depth - 1].isdigit():
                inner = ".".join(path[depth:])
                structure.setdefault(".".join(path[:depth]), Counter())[inner, op.target] += 1
                break
    lists: dict[str, list[str]] = {}
    for name in structure:
        lists.setdefault(name.rpartition(".")[0], []).append(name)
    like = {parent: children for parent, children in lists.items() if _alike([structure[c] for c in children])}
    # Numbered layers without modules of their own are blocks only where nothing else is.
    deep = {
        parent: children
        for parent, children in like.items()
        if any(inner for child in children for inner, _ in structure[child])
    }
    found = deep or like
    if len(found) == 1:
        return dict.fromkeys(next(iter(found.values())))
    what = "no repeated blocks" if not found else f"{len(found)} chains of blocks ({', '.join(sorted(found))})"
    raise UnsupportedError(
        f"{runtime.name} runs a chain of repeated blocks, and {view.graph.name} has {what}; plan it for a runtime that "
        "cuts anywhere, such as torch, or without --runtime"
    )


def _alike(structures: list[Counter[tuple[str, str]]]) -> bool:
    """Whether more than half of some modules, and two at least, do much the same as one of them.

    First and last blocks often have an operator more or less.
    """
    most = max(
        sum((one & other).total() >= _ALIKE * max(one.total(), other.total()) for other in structures)
        for one in structures
    )
    return most > 1 and 2 * most > len(structures)
