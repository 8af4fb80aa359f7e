"""What problems differ in beyond solving: one base class each, whose methods are the usual answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from partita.problems.kind import AnyKind

P = TypeVar("P", bound=Any)
L = TypeVar("L", bound=Any)
E = TypeVar("E", bound=Any)


class Facet:
    """Made with the problem's descriptor, ``kind``, when it is asked for."""

    def __init__(self, kind: AnyKind) -> None:
        self.kind = kind
