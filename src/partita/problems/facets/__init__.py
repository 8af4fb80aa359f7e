"""What problems differ in beyond solving: one base class each, whose methods are the usual answers."""

from __future__ import annotations

from typing import Any, TypeVar

from partita.engines.search.result import PlanEvaluation

P = TypeVar("P", bound=Any)
L = TypeVar("L", bound=Any)
E = TypeVar("E", bound=PlanEvaluation)


class Facet:
    """Made with the problem's descriptor (``partita.problems.kind.Kind``, which is above) when it is asked for."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
