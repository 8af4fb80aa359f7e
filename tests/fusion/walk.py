"""Algorithm 1 of Moirai (2023) as it is printed: pairs bound along a depth-first walk, parts of rules released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["walk"]

Rules = Sequence[tuple[str, ...]]


@dataclass(eq=False)
class Group:
    types: tuple[str, ...]
    members: tuple[int, ...]
    parts: tuple[Group, ...] = ()
    bound: bool = False
    seen: bool = field(default=False)


def walk(types: Sequence[str], edges: Sequence[tuple[int, int]], rules: Rules) -> list[tuple[int, ...]]:
    """Members of every operator that is left, those alone included, each in the order of the data flow."""
    graph = _Walk(types, edges, rules)
    inner = {v for _, v in edges}
    for v in range(len(types)):
        if v not in inner:
            graph.dfs(graph.home[v])
    groups = {id(g): g for g in graph.home}
    return sorted(m for g in groups.values() for m in _released(g))


class _Walk:
    def __init__(self, types: Sequence[str], edges: Sequence[tuple[int, int]], rules: Rules) -> None:
        self.home = [Group((kind,), (v,)) for v, kind in enumerate(types)]
        self.edges, self.rules = edges, rules

    def out(self, group: Group) -> list[Group]:
        found = {id(self.home[v]): self.home[v] for u, v in self.edges if u in group.members}
        return [other for other in found.values() if other is not group]

    def is_rule(self, row: tuple[str, ...]) -> bool:
        return row in self.rules

    def is_sub_rule(self, row: tuple[str, ...]) -> bool:
        size = len(row)
        return any(
            size < len(rule) and row == rule[i : i + size] for rule in self.rules for i in range(len(rule) - size + 1)
        )

    def is_valid_conn(self, pred: Group, succ: Group) -> bool:
        """Direct or multi-input, and into the first operator of what follows: rules are ordered."""
        readers = {v for u, v in self.edges if u in pred.members and v not in pred.members}
        return readers == {succ.members[0]}

    def fuse(self, pred: Group, succ: Group, bound: bool) -> Group:
        made = Group(pred.types + succ.types, pred.members + succ.members, (pred, succ), bound)
        for v in made.members:
            self.home[v] = made
        return made

    def dfs(self, pred: Group) -> None:
        if pred.seen:
            return
        pred.seen = True
        for succ in self.out(pred):
            # An earlier branch may have fused it.
            succ = self.home[succ.members[0]]
            pred = self.home[pred.members[0]]
            row = pred.types + succ.types
            valid = succ is not pred and self.is_valid_conn(pred, succ)
            if valid and self.is_rule(row):
                self.dfs(self.fuse(pred, succ, False))
            elif valid and self.is_sub_rule(row):
                self.dfs(self.fuse(pred, succ, True))
            else:
                self.dfs(succ)


def _released(group: Group) -> list[tuple[int, ...]]:
    return [m for part in group.parts for m in _released(part)] if group.bound else [group.members]
