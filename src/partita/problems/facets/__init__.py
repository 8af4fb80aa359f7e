"""What problems differ in beyond solving: one base class each, whose methods are the usual answers."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from partita.engines.search.result import PlanEvaluation

P = TypeVar("P", bound=Any)
L = TypeVar("L", bound=Any)
E = TypeVar("E", bound=PlanEvaluation)


class Descriptor(Protocol):
    """What facets ask of the problem that they are of (``partita.problems.kind.Kind``, which is above them)."""

    @property
    def name(self) -> str:
        """In listings."""

    @property
    def plan(self) -> type[Any]:
        """The type of its plans."""

    @property
    def changes(self) -> type[msgspec.Struct]:
        """What may be changed of a problem: a declaration of settings."""

    def change(self, problem: Any, changes: Any) -> Any:
        """The problem with changes."""


class Facet:
    """Made with the problem's descriptor, ``kind``, when it is asked for."""

    def __init__(self, kind: Descriptor) -> None:
        self.kind = kind
