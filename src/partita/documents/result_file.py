"""What result files have in common, whatever kind of plan they hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import document_keys, read_bytes, sha256, tagged
from partita.engines.search.result import Result
from partita.ground.errors import FormatError, InputError

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
    return plan_bytes(document_keys(read_bytes(path), path), path)


def plan_bytes(keys: Mapping[str, msgspec.Raw], path: str | Path) -> bytes:
    """``read_plan_bytes`` of a file that is read already, given as its keys."""
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
    """What tells a problem from others, in the files of its plans; that of a problem is that of its file, read."""
    read: Any = msgspec.json.decode(msgspec.json.encode(problem), type=type(problem))
    return sha256(tagged(read, problem.format, problem.version))


def with_problem(document: dict[str, Any], problem: Any) -> dict[str, Any]:
    """A result document that holds the problem itself, so that whoever gets it needs no other file."""
    stated = tagged(problem, problem.format, problem.version)
    return {**document, "problem": {**document["problem"], "stated": stated}}


def proof_document(result: Result[Any, Any, Any]) -> dict[str, Any] | None:
    """By whom and how what a result claims is proven, and its certificate; None if nothing is."""
    if result.bound is None:
        if not result.argument:
            return None
        return {"method": result.solver, "scope": "", "argument": result.argument, "certificate": None}
    bound = result.bound
    return {
        "method": bound.method,
        "scope": bound.scope,
        "argument": bound.argument,
        "certificate": bound.certificate,
    }


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
        "proof": proof_document(result),
        "notes": list(problem.notes),
        "statistics": result.statistics.to_dict(),
        **extra,
    }
