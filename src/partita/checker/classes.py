"""Which operators share a device, as problems of several kinds say it in files, and whether they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.checker.certificate import Problem
from partita.checker.numbers import FailedCheckError


def classes(problem: Problem) -> list[list[Mapping[str, Any]]]:
    """Operators that share a device: those of one number, and every other one alone."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for op in problem["operators"]:
        tie = op.get("colocation")
        found.setdefault(("own", op["id"]) if tie is None else ("tie", tie), []).append(op)
    return list(found.values())


def check_together(problem: Problem, home: Mapping[int, Any]) -> None:
    """Refuse places of operators, by id, that part a class."""
    for members in classes(problem):
        if len({home[op["id"]] for op in members}) > 1:
            raise FailedCheckError(f"operators of colocation class {members[0]['colocation']} are on two devices")
