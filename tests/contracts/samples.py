"""What the contract suite has to know of a problem: how to draw one, what is best, and what nobody can do.

Every problem has a module with a ``SAMPLES``; a new one adds its line to ``WHERE``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

__all__ = ["WHERE", "Family", "Samples", "samples_of"]

#: By problem, the module of its samples.
WHERE = {
    "throughput": "problems.throughput.samples",
    "hybrid": "problems.hybrid.samples",
    "latency": "problems.latency.samples",
    "makespan": "problems.makespan.samples",
    "mapping": "problems.mapping.samples",
    "layer_placement": "problems.layer_placement.samples",
    "serving": "problems.serving.samples",
    "tasks": "toy.samples",
}


@dataclass(frozen=True)
class Family:
    """Small problems that have something in common.

    Attributes
    ----------
    name
        What.
    problems
        Any of them; small enough for ``Samples.optimum``.
    typical
        One of them, with a plan. A component that takes it on is tested on the family.
    """

    name: str
    problems: st.SearchStrategy[Any]
    typical: Any


@dataclass(frozen=True)
class Samples:
    """Problems of one kind, and what is known of them.

    Attributes
    ----------
    families
        Between them they show every feature; the first ones have none that a component may refuse.
    optimum
        The best objective for a problem and options by trying everything; None if there is no plan.
    check
        Called with problem, plan and options: what a plan of this kind has to look like, beyond what is evaluated.
    infeasible
        Problems without a plan; empty where every problem has one.
    floors
        Problems with a value that every bound proves which takes them on.
    large
        Problems that take a search longer than a moment.
    """

    families: tuple[Family, ...]
    optimum: Callable[[Any, Any], float | None]
    check: Callable[[Any, Any, Any], None]
    infeasible: tuple[Any, ...]
    floors: tuple[tuple[Any, float], ...]
    large: tuple[Any, ...]


def samples_of(name: str) -> Samples:
    """Those of a problem.

    Raises
    ------
    KeyError
        If there are none.
    """
    if name not in WHERE:
        raise KeyError(
            f"problem {name!r} has no samples for the contract suite; add a line to tests/contracts/samples.py"
        )
    return _known(name)


@cache
def _known(name: str) -> Samples:
    found: Samples = importlib.import_module(WHERE[name]).SAMPLES
    return replace(found, optimum=_once(found.optimum), check=_once(found.check))


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Asked again about the same problem, it need not try everything again."""
    known: dict[tuple[bytes, ...], Any] = {}

    def ask(*asked: Any) -> Any:
        key = tuple(map(msgspec.json.encode, asked))
        if key not in known:
            known[key] = function(*asked)
        return known[key]

    return ask
