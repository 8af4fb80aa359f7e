"""Rules over operator types as one automaton: which rows of types are a rule, and which may still become one.

An element of a rule is a type or a category of types, by itself or with a suffix: ``?`` none or one, ``*`` any number,
``+`` at least one. The automaton is Glushkov's ("The abstract theory of automata", 1961): its states are the places of
the elements, so it reads a row without silent moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: The places of the automaton that a row of types may have reached.
State = frozenset[int]


class PatternAutomaton:
    """The automaton of some rules.

    Parameters
    ----------
    rules
        Elements in the order of the data flow.
    categories
        What a category of types holds.
    """

    def __init__(self, rules: Sequence[Sequence[str]], categories: Mapping[str, frozenset[str]]) -> None:
        self._types: list[frozenset[str]] = []
        self._next: list[list[int]] = []
        self._last: set[int] = set()
        self._first: list[int] = []
        for rule in rules:
            self._add(rule, categories)
        self._begun: dict[str, State] = {}
        self._moved: dict[tuple[State, str], State] = {}

    def _add(self, rule: Sequence[str], categories: Mapping[str, frozenset[str]]) -> None:
        base, count = len(self._types), len(rule)
        names = [element.rstrip("?*+") for element in rule]
        may_miss = [element.endswith(("?", "*")) for element in rule]
        for i, element in enumerate(rule):
            self._types.append(categories.get(names[i], frozenset()) | {names[i]})
            after = _reached(may_miss, i + 1)
            if after[-1] == count:
                self._last.add(base + i)
            again = [i] if element.endswith(("*", "+")) else []
            self._next.append([base + j for j in {*again, *after} if j < count])
        self._first += [base + j for j in _reached(may_miss, 0) if j < count]

    def begin(self, kind: str) -> State:
        """Where a row of one type is; empty if no rule begins so."""
        if kind not in self._begun:
            self._begun[kind] = frozenset(p for p in self._first if kind in self._types[p])
        return self._begun[kind]

    def move(self, state: State, kind: str) -> State:
        """Where a row is with one more type at its end; empty if no rule begins so."""
        key = state, kind
        if key not in self._moved:
            self._moved[key] = frozenset(q for p in state for q in self._next[p] if kind in self._types[q])
        return self._moved[key]

    def complete(self, state: State) -> bool:
        """Whether a row is a whole rule."""
        return not self._last.isdisjoint(state)


def _reached(may_miss: Sequence[bool], place: int) -> list[int]:
    """The elements that may come at a place, ascending; the number of elements stands for the end."""
    found = [place]
    while found[-1] < len(may_miss) and may_miss[found[-1]]:
        found.append(found[-1] + 1)
    return found
