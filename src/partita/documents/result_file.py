"""What result files have in common, whatever kind of plan they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import document_keys, read_bytes, sha256, tagged
from partita.errors import FormatError, InputError
from partita.run.result import Result

RESULT_FORMAT = "partita.result"
RESULT_VERSION = 1


def read_plan_bytes(path: str | Path) -> bytes:
    """The plan of a result file, undecoded.

    Raises
    ------
    FormatError
        If the file is not a result file of this version.
    InputError
        If it holds no plan.
    """
    keys = document_keys(read_bytes(path), path)
    if "format" not in keys or msgspec.json.decode(keys["format"]) != RESULT_FORMAT:
        raise FormatError(f"{path} is not a {RESULT_FORMAT} file")
    number = msgspec.json.decode(keys.get("version", msgspec.Raw(b"null")))
    if number != RESULT_VERSION:
        raise FormatError(f"{path}: version {number!r} of {RESULT_FORMAT} is not known here; expected {RESULT_VERSION}")
    plan = bytes(keys.get("plan", msgspec.Raw(b"null")))
    if plan == b"null":
        raise InputError(f"{path} holds no plan")
    return plan


def problem_digest(problem: Any) -> str:
    """What tells a problem from others, in the files of its plans."""
    return sha256(tagged(problem, problem.format, problem.version))


def with_problem(document: dict[str, Any], problem: Any) -> dict[str, Any]:
    """A result document that holds the problem itself, so that whoever gets it needs no other file."""
    stated = tagged(problem, problem.format, problem.version)
    return {**document, "problem": {**document["problem"], "stated": stated}}


def result_document(result: Result[Any, Any, Any], plan: dict[str, Any] | None, **extra: Any) -> dict[str, Any]:
    """A ``partita.result`` document.

    Parameters
    ----------
    result
        What a run answered.
    plan
        The plan's document, None without a plan.
    extra
        Further top-level keys.
    """
    problem = result.problem
    return {
        "format": RESULT_FORMAT,
        "version": RESULT_VERSION,
        "objective": result.objective,
        "bound": None if result.bound is None else result.bound.value,
        "gap": result.gap,
        "status": str(result.status),
        "stop_reason": str(result.stop_reason),
        "unit": problem.unit,
        "runtime_s": result.runtime_s,
        "solver": result.solver,
        "seed": result.seed,
        "reason": result.reason or None,
        "problem": {"name": problem.name, "sha256": problem_digest(problem)},
        "plan": plan,
        "bound_method": None if result.bound is None else result.bound.method,
        "notes": list(problem.notes),
        "statistics": result.statistics.to_dict(),
        **extra,
    }
