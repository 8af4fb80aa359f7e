"""Plans in files: what is malformed raises ``FormatError``, a plan of another problem ``InputError``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import msgspec

from partita.documents.document import decode
from partita.documents.result_file import read_plan_bytes
from partita.nouns.split import Split
from partita.problems.facets import E, Facet, L, P


@dataclass(frozen=True)
class PlanWriter:
    """Another file format that plans of a problem are written in, with its command-line flag: ``--split-output``.

    ``write`` is called with path, problem, plan and evaluation.
    """

    flag: str
    metavar: str
    help: str
    write: Callable[[str, Any, Any, Any], None]


class Files(Facet, Generic[P, L, E]):
    """Plans in result files; by default written field by field."""

    writers: Sequence[PlanWriter] = ()  #: Formats beside the result file.

    def plan_document(self, problem: P, plan: L, evaluation: E) -> dict[str, Any]:
        """The ``plan`` of a result file."""
        document: dict[str, Any] = msgspec.to_builtins(plan, str_keys=True)
        return document

    def wrote(self, plan: dict[str, Any]) -> bool:
        """Whether the ``plan`` of a result file, which does not say so, looks like one of this problem's."""
        return False

    def contradictions(self, data: bytes, split: Split | None, path: str | Path) -> Iterator[str]:
        """What of a result file's ``plan``, given undecoded, and its split differs though it is the same plan.

        Each names two fields that differ. Nothing of plans that stand in a file once.
        """
        return iter(())

    def decode_plan(self, data: bytes, problem: P, path: str | Path) -> L:
        """The ``plan`` of a result file, given undecoded; ``path`` is what messages name."""
        plan: L = decode(data, self.kind.plan, f"{path}: plan")
        return plan

    def read_plan(self, path: str | Path, problem: P) -> L:
        """The plan of a result file, or of another format that plans of the problem are written in."""
        return self.decode_plan(read_plan_bytes(path), problem, path)
