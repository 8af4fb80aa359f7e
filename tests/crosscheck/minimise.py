"""Make an instance small on which something contradicts something, and keep what is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from crosscheck.claims import Contradiction, ask, compare
from crosscheck.parts import Part
from crosscheck.reductions import PASSES, measure
from partita.ground.errors import InputError
from partita.problems.kind import AnyKind

__all__ = ["minimise", "shown_again"]

P = TypeVar("P")

#: How often what depends on the clock is tried before it counts as not shown again.
TRIES = 3


def shown_again(
    kind: AnyKind, problem: Any, parts: list[Part], key: tuple[str, str], tries: int = 1
) -> Contradiction | None:
    """The contradiction of this kind by this component among some parts, None if it does not show."""
    for _ in range(tries):
        wrong, _ = compare(kind, [ask(kind, problem, part) for part in parts])
        for each in wrong:
            if each.key == key:
                return each
    return None


def minimise(
    problem: P,
    fails: Callable[[P], bool],
    seconds: float = 60.0,
    found: Callable[[P], None] = lambda problem: None,
) -> P:
    """A smaller problem of the same type that fails as well, by greedy steps until none is left or the time is over.

    Parameters
    ----------
    problem
        Fails.
    fails
        Whether one does, in the same way.
    seconds
        Wall time after which no other step is begun.
    found
        Called with every smaller one.
    """
    ends = time.perf_counter() + seconds
    best, progress = problem, True
    while progress:
        progress = False
        for smaller in PASSES:
            place = 0
            # What did not fail before a step will hardly fail after it: the next step is looked for from there on.
            while (step := _step(best, smaller, fails, place, ends)) is not None:
                best, place = step
                progress = True
                found(best)
    return best


def _step(
    problem: P, smaller: Callable[[Any], Iterator[Any]], fails: Callable[[P], bool], first: int, ends: float
) -> tuple[P, int] | None:
    """The first smaller problem from a place on that fails, and that place; None if there is none, or no time."""
    tree = _tree(problem)
    size = measure(tree)
    for place, candidate in enumerate(smaller(tree)):
        if time.perf_counter() > ends:
            return None
        if place < first:
            continue
        read = _problem(candidate, type(problem))
        # A field that is left out may come back as its default: that is no step.
        if read is not None and measure(_tree(read)) < size and fails(read):
            return read, place
    return None


def _tree(problem: Any) -> dict[str, Any]:
    """What its file says."""
    tree: dict[str, Any] = json.loads(msgspec.json.encode(problem))
    return tree


def _problem(tree: dict[str, Any], kind: type[P]) -> P | None:
    try:
        return msgspec.json.decode(json.dumps(tree).encode(), type=kind)
    except (msgspec.ValidationError, InputError, ArithmeticError, LookupError, ValueError):
        return None
