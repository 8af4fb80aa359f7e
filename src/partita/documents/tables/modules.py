"""A part of a model, such as what a stage or a device runs, in terms of its modules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partita.documents.tables.text import NUMBERED, module_ranges


@dataclass(frozen=True)
class PartModules:
    """Modules of one part in execution order.

    ``complete`` are the outermost ones all of whose forward operators are in it, ``partial`` the innermost that it
    shares.
    """

    complete: tuple[str, ...]
    partial: tuple[str, ...]


def part_modules(operators: Iterable[tuple[int, str]], parts: int) -> list[PartModules]:
    """Modules of every part, from the part and module of each forward operator; empty where there are no names."""
    forward = [(part, module, paths_of(module)) for part, module in operators]
    holders: dict[str, set[int]] = {}
    for part, _, paths in forward:
        for path in paths:
            holders.setdefault(path, set()).add(part)
    # Names in the order in which they come up, each once.
    complete: list[dict[str, None]] = [{} for _ in range(parts)]
    partial: list[dict[str, None]] = [{} for _ in range(parts)]
    for part, module, paths in forward if holders else ():
        outermost = next((path for path in paths if len(holders[path]) == 1), None)
        if outermost is None:
            partial[part][module or "(root)"] = None
        else:
            complete[part][outermost] = None
    return [PartModules(tuple(whole), tuple(shared)) for whole, shared in zip(complete, partial, strict=True)]


def paths_of(module: str) -> list[str]:
    """A module and those around it, the outermost first."""
    return list(itertools.accumulate(module.split("."), "{}.{}".format)) if module else []


def shortened(entry: PartModules) -> list[str]:
    """A part's modules for a table: runs of numbered siblings, and one entry for each layer cut through.

    A layer that the part shares is shown with the first and last of its modules here: ``h.12 (attn … mlp.c_fc)``.
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
    """Whether a cut layer comes before the part's complete numbered siblings."""
    match = NUMBERED.match(layer)
    numbers = [m for m in map(NUMBERED.match, whole) if m and match and m[1] == match[1]]
    return bool(match and numbers and int(match[2]) < int(numbers[0][2]))
