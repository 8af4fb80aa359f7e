"""Which variants of the throughput problem one uses, so that every component can say what it takes on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from partita.throughput.problem import ThroughputProblem

__all__ = ["ALL_VARIANTS", "Variant", "refuse_variants", "variants_of"]

Variant = Literal["overlap", "duplex", "gpipe", "replicas", "groups", "streaming"]

_WORDS: dict[Variant, str] = {
    "overlap": "communication that overlaps with work (communication=overlap)",
    "duplex": "communication in both directions at once (communication=duplex)",
    "gpipe": "the GPipe objective (schedule gpipe on a training problem)",
    "replicas": "replicated stages (max_replicas above 1)",
    "groups": "groups of devices behind slower links",
    "streaming": "memory over the limit at a price (streaming)",
}

ALL_VARIANTS: frozenset[Variant] = frozenset(_WORDS)


def variants_of(problem: ThroughputProblem) -> tuple[Variant, ...]:
    """The variants that a problem uses; none for the plain one."""
    used: list[Variant] = []
    if problem.communication != "sum":
        used.append(problem.communication)
    if problem.gpipe:
        used.append("gpipe")
    if problem.max_replicas > 1:
        used.append("replicas")
    if problem.groups:
        used.append("groups")
    if problem.streaming:
        used.append("streaming")
    return tuple(used)


def refuse_variants(problem: ThroughputProblem, supported: Collection[Variant] = ()) -> str | None:
    """None if a component that supports these variants can take the problem on, otherwise what it does not know."""
    missing = [_WORDS[variant] for variant in variants_of(problem) if variant not in supported]
    if not missing:
        return None
    return f"it does not know {', nor '.join(missing)}; use the solver 'exact' with acyclic splits"
