"""What result files have in common, whatever kind of plan they hold: the result, and the split of a model.

What is malformed, or of another version, raises ``FormatError``; a file without a plan, or with a split that is not as
it was written, ``InputError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, document_keys, read_bytes, sha256, tagged
from partita.engines.search.result import Result
from partita.ground.errors import FormatError, InputError
from partita.nouns.split import Split

RESULT_FORMAT = "partita.result"
RESULT_VERSION = 1

#: Key of a split's digest, beside its fields: it says whether the split was changed by hand.
_DIGEST = "sha256"


def read_plan_bytes(path: str | Path) -> bytes:
    """The plan of a result file, undecoded."""
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
    """A ``partita.result`` document with the plan's document, None without a plan, and further top-level keys."""
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


def split_document(split: Split) -> dict[str, Any]:
    """A split as it stands in a result file."""
    found: dict[str, Any] = msgspec.to_builtins(split)
    return {**found, _DIGEST: sha256(found)}


def decode_split(data: bytes, path: str | Path) -> Split:
    """The split of a result file; one without a digest, of an earlier version, is taken as it is."""
    fields = decode(data, dict[str, Any], f"{path}: split")
    stated = fields.pop(_DIGEST, None)
    split = decode(msgspec.json.encode(fields), Split, f"{path}: split")
    if stated is not None and stated != sha256(fields):
        raise InputError(
            f"{path}: split was changed after it was written; it follows from the model and the plan, so plan again "
            "(--layout prices a plan of your own)"
        )
    return split
