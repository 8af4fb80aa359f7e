"""Result documents with one value changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["CLAIMS", "tampered"]

#: What a result claims; how it was found (runtime, seed, notes, statistics, the argument in words) is no claim.
CLAIMS = ("objective", "bound", "gap", "status", "unit", "bound_method", "problem", "plan", "proof")
_WORDS = {"argument"}


def tampered(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where a value was changed, and the document with that: every value of the claims, one at a time, in its ways."""
    for place in _places({key: document[key] for key in CLAIMS if key in document}, ()):
        for value in _others(_at(document, place)):
            changed = copy.deepcopy(document)
            _at(changed, place[:-1])[place[-1]] = value
            yield f"{'.'.join(map(str, place))} = {value!r}", changed


def _places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if place and place[-1] in _WORDS:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))
        return
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, (*place, number))
    if place and (not isinstance(value, list) or value):
        yield place


def _at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


def _others(value: Any) -> list[Any]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value * 1.001 + 0.001, value * 0.999 - 0.001]
    if isinstance(value, str):
        return [f"{value}x"]
    if isinstance(value, list):
        return [value[:-1], [*value, value[-1]]]
    return [1.0]
