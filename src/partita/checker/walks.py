"""Walks through what waits for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node")


def in_order(after: Mapping[Node, Iterable[Node]]) -> list[Node]:
    """The nodes, each behind those that lead to it; those of a circle, and what is behind them, are left out."""
    waits = dict.fromkeys(after, 0)
    for others in after.values():
        for v in others:
            waits[v] += 1
    row = [v for v, count in waits.items() if not count]
    for v in row:
        for w in after[v]:
            waits[w] -= 1
            if not waits[w]:
                row.append(w)
    return row


def reached(after: Mapping[Node, Iterable[Node]], start: Node) -> set[Node]:
    """All that paths lead to from a node; that itself only if it is in a circle."""
    found: set[Node] = set()
    pending = [start]
    while pending:
        new = set(after[pending.pop()]) - found
        found |= new
        pending.extend(new)
    return found
