"""How plans are written and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

__all__ = ["Files", "PlainFiles", "PlanWriter"]

ContraP = TypeVar("ContraP", contravariant=True)
L = TypeVar("L", bound=Any)
ContraE = TypeVar("ContraE", contravariant=True)


@dataclass(frozen=True)
class PlanWriter:
    """Another file format that plans of a problem are written in, with its command-line flag.

    Attributes
    ----------
    flag, metavar, help
        On the command line: ``--split-output``.
    write
        Called with path, problem, plan and evaluation.
    """

    flag: str
    metavar: str
    help: str
    write: Callable[[str, Any, Any, Any], None]


class Files(Protocol[ContraP, L, ContraE]):
    """How plans are written and read."""

    @property
    def writers(self) -> Sequence[PlanWriter]:
        """Formats beside the result file."""
        ...

    def plan_document(self, problem: ContraP, plan: L, evaluation: ContraE) -> dict[str, Any]:
        """The ``plan`` of a result file."""
        ...

    def read_plan(self, path: str | Path, problem: ContraP) -> L:
        """The plan of a result file, or of another format that plans of the problem are written in.

        Raises
        ------
        FormatError
            If the file is none of these.
        InputError
            If it is not a plan of this problem.
        """
        ...


class PlainFiles:
    """Plans written field by field."""

    writers: Sequence[PlanWriter] = ()

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def plan_document(self, problem: Any, plan: Any, evaluation: Any) -> dict[str, Any]:
        """The plan's fields."""
        document: dict[str, Any] = msgspec.to_builtins(plan, str_keys=True)
        return document

    def read_plan(self, path: str | Path, problem: Any) -> Any:
        """The plan of a result file."""
        from partita.documents.document import decode
        from partita.documents.result_file import read_plan_bytes

        return decode(read_plan_bytes(path), self.kind.plan, f"{path}: plan")
