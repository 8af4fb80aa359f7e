"""Tables and sentences for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from partita.run.result import Result, Row

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.problems.facets.model import Answer

__all__ = ["PlainReport", "Report"]

P = TypeVar("P", bound=Any)
L = TypeVar("L", bound=Any)
E = TypeVar("E", bound=Any)


class Report(Protocol[P, L, E]):
    """Tables and sentences for people, and the figures beside the objective."""

    @property
    def doing(self) -> str:
        """What a run does, for the line of progress: ``splitting``."""
        ...

    @property
    def per(self) -> str:
        """What the objective is a time of: `` per sample``; empty for nothing."""
        ...

    def scope(self, scope: str) -> str:
        """A scope in words: ``acyclic splits``."""
        ...

    def sentences(self, problem: P, plan: L, evaluation: E) -> Sequence[str]:
        """What is said of a plan beside its objective."""
        ...

    def verdict(self, evaluation: E) -> dict[str, Any]:
        """What an evaluation says beside objective and feasibility, as plain values."""
        ...

    def tables(self, problem: P, plan: L, evaluation: E) -> Sequence[RenderableType]:
        """A plan as tables."""
        ...

    def figures(self, problem: P, plan: L, evaluation: E) -> Mapping[str, str]:
        """Further columns of a comparison, by title."""
        ...

    def why(self, result: Result[P, L, E], row: Row) -> str:
        """What makes a feasible row worse than the plan, or what it does."""
        ...

    def row_document(self, result: Result[P, L, E], row: Row) -> dict[str, Any]:
        """What a row of a comparison says beyond name, objective and feasibility, as plain values."""
        ...

    def result_document(self, result: Result[P, L, E]) -> dict[str, Any]:
        """Further top-level keys of a result document."""
        ...

    def answer_document(self, answer: Answer[P], document: dict[str, Any]) -> None:
        """Add to a model's result document what only its plan has."""
        ...

    def answer_tables(self, answer: Answer[P]) -> Sequence[RenderableType]:
        """A model's plan for people, without the comparison: tables and paragraphs."""
        ...


class PlainReport:
    """Objective, bound and gap, and the plan as it is."""

    doing = "solving"
    per = ""

    def scope(self, scope: str) -> str:
        """The word itself."""
        return f"{scope} plan".strip()

    def sentences(self, problem: Any, plan: Any, evaluation: Any) -> Sequence[str]:
        """Nothing more."""
        return ()

    def verdict(self, evaluation: Any) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def tables(self, problem: Any, plan: Any, evaluation: Any) -> Sequence[RenderableType]:
        """The plan's fields."""
        return [f"{name}: {value}" for name, value in msgspec.to_builtins(plan, str_keys=True).items()]

    def figures(self, problem: Any, plan: Any, evaluation: Any) -> Mapping[str, str]:
        """Nothing more."""
        return {}

    def why(self, result: Any, row: Row) -> str:
        """What it does."""
        return row.summary

    def row_document(self, result: Any, row: Row) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def result_document(self, result: Any) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def answer_document(self, answer: Any, document: dict[str, Any]) -> None:
        """Nothing more."""

    def answer_tables(self, answer: Any) -> Sequence[RenderableType]:
        """The plan's fields."""
        result = answer.result
        return [] if result.plan is None else self.tables(result.problem, result.plan, result.evaluation)
