"""A stage in terms of the model's modules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.tables.text import module_ranges


@dataclass(frozen=True)
class StageModules:
    """Modules of one stage in execution order.

    Attributes
    ----------
    complete
        Outermost modules all of whose forward operators are on the stage.
    partial
        Innermost modules that the stage shares with another one.
    """

    complete: tuple[str, ...]
    partial: tuple[str, ...]


@dataclass
class _Node:
    path: str
    children: dict[str, _Node] = field(default_factory=dict)
    own: list[int] = field(default_factory=list)
    all: list[int] = field(default_factory=list)


def stage_modules(problem: ThroughputProblem, plan: Plan) -> list[StageModules]:
    """Modules of every stage; empty where the problem has no module names."""
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    root = _Node("")
    order: list[int] = []
    for op in problem.operators:
        if op.backward:
            continue
        place = len(order)
        order.append(stage_of[op.id])
        node = root
        node.all.append(place)
        for part in op.module.split(".") if op.module else ():
            node = node.children.setdefault(part, _Node(f"{node.path}.{part}" if node.path else part))
            node.all.append(place)
        node.own.append(place)
    if not root.children:
        return [StageModules((), ()) for _ in plan.stages]
    found: list[tuple[list[tuple[int, str]], list[tuple[int, str]]]] = [([], []) for _ in plan.stages]
    _walk(root, order, found)
    return [
        StageModules(tuple(name for _, name in sorted(complete)), tuple(name for _, name in sorted(partial)))
        for complete, partial in found
    ]


def _walk(node: _Node, order: Sequence[int], found: list[tuple[list[tuple[int, str]], list[tuple[int, str]]]]) -> None:
    stages = {order[place] for place in node.all}
    if len(stages) == 1 and node.path:
        found[stages.pop()][0].append((node.all[0], node.path))
        return
    first: dict[int, int] = {}
    for place in node.own:
        first.setdefault(order[place], place)
    for stage, place in first.items():
        found[stage][1].append((place, node.path or "(root)"))
    for child in node.children.values():
        _walk(child, order, found)


_TAIL = re.compile(r"^(.*?)(\d+)$")


def shortened(entry: StageModules) -> list[str]:
    """A stage's modules for a table: runs of numbered siblings, and one entry for each layer cut through.

    A layer that the stage shares is shown with the first and last of its modules here: ``h.12 (attn … mlp.c_fc)``.
    """
    parts: dict[str, list[str]] = {}
    for name in entry.complete:
        layer = _cut_layer(name)
        if layer is not None:
            parts.setdefault(layer, []).append(name.removeprefix(layer + "."))
    for name in entry.partial:
        layer = _layer(name)
        if layer is not None:
            parts.setdefault(layer, [])
    whole = [name for name in entry.complete if _cut_layer(name) is None and _layer(name) not in parts]
    inside = [
        f"{layer} ({names[0] if len(names) == 1 else f'{names[0]} … {names[-1]}'})" if names else f"part of {layer}"
        for layer, names in parts.items()
    ]
    first = [text for text, layer in zip(inside, parts, strict=True) if _before(layer, whole)]
    return [*first, *module_ranges(whole), *(text for text in inside if text not in first)]


_LAYER = re.compile(r"^(.*?\.)?\d+(?=\.|$)")


def _layer(name: str) -> str | None:
    match = _LAYER.match(name)
    return match[0] if match else None


def _cut_layer(name: str) -> str | None:
    """The numbered layer that holds a complete module without being complete itself."""
    layer = _layer(name)
    return layer if layer is not None and layer != name else None


def _before(layer: str, whole: Sequence[str]) -> bool:
    """Whether a cut layer comes before the stage's complete numbered siblings."""
    match = _TAIL.match(layer)
    numbers = [m for m in map(_TAIL.match, whole) if m and match and m[1] == match[1]]
    return bool(match and numbers and int(match[2]) < int(numbers[0][2]))
