"""Load: a result file in, the answer that was saved there out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from partita.api.answer import Answer, AnyAnswer
from partita.documents.document import decode, read_bytes
from partita.documents.result_file import RESULT_FORMAT, RESULT_VERSION
from partita.engines.search.result import Bound, Event, Result, Statistics, Status, StopReason
from partita.ground.errors import FormatError, InputError
from partita.ground.rounding import TOLERANCE
from partita.problems import kind_of
from partita.problems.importers import given_problem, stated_problem
from partita.problems.kind import Stated
from partita.problems.planned import read_planned


def load(path: str | Path, problem: Stated | str | Path | None = None) -> AnyAnswer:
    """Read an answer from a result file.

    It has everything but what needs the traced model (``graph``, ``priced``, ``free``): objective, bound, stages,
    memory, baselines, tables and pages, and it can be simulated, exported, run and checked.

    Parameters
    ----------
    path
        Of a file that ``Answer.save`` or ``partita plan --output`` wrote.
    problem
        The problem, or the path of its file, if the result file does not hold it.

    Raises
    ------
    FormatError
        If it is no result file, or malformed.
    InputError
        If it cannot be read, contradicts itself, or nobody says what the problem is.
    """
    document = decode(read_bytes(path), dict[str, Any], path)
    if document.get("format") != RESULT_FORMAT:
        raise FormatError(f"{path} is not a {RESULT_FORMAT} file")
    if document.get("version") != RESULT_VERSION:
        found = document.get("version")
        raise FormatError(f"{path}: version {found!r} of {RESULT_FORMAT} is not known here; expected {RESULT_VERSION}")
    stated = _problem(document, path, problem)
    plan = evaluation = None
    if document.get("plan") is not None:
        plan = read_planned(path, stated).plan
        evaluation = kind_of(stated).evaluate(stated, plan)
        _check_objective(document, evaluation.objective, path, own=problem is None)
    try:
        result = _result(document, stated, plan, evaluation)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: it is no complete {RESULT_FORMAT} document: {error!r}") from None
    return Answer.of(result, saved=document)


def _problem(document: Mapping[str, Any], path: str | Path, given: Stated | str | Path | None) -> Any:
    if given is not None:
        return given_problem(given)
    entry = document.get("problem")
    stated = entry.get("stated") if isinstance(entry, dict) else None
    if stated is None:
        raise InputError(f"{path} does not hold the problem that its plan is of; give it as the second argument")
    return stated_problem(msgspec.json.encode(stated), f"{path}: problem.stated")


def _check_objective(document: Mapping[str, Any], worth: float, path: str | Path, *, own: bool) -> None:
    """Refuse a file whose objective is not that of its plan of its ``own`` problem."""
    objective = document.get("objective")
    if own and not (isinstance(objective, int | float) and math.isclose(objective, worth, rel_tol=TOLERANCE)):
        raise InputError(f"{path} contradicts itself: its objective is {objective!r}, and its plan is worth {worth!r}")


def _result(document: Mapping[str, Any], problem: Any, plan: Any, evaluation: Any) -> Result[Any, Any, Any]:
    proof = document.get("proof") or {}
    bound = None
    if document["bound"] is not None:
        bound = Bound(
            document["bound"],
            document["bound_method"] or "",
            proof.get("scope", ""),
            argument=proof.get("argument", ""),
        )
    known = document["statistics"]
    events = [Event(**event, unit=problem.unit) for event in known["events"]]
    return Result(
        problem=problem,
        plan=plan,
        evaluation=evaluation,
        bound=bound,
        status=Status(document["status"]),
        stop_reason=StopReason(document["stop_reason"]),
        solver=document["solver"],
        seed=document["seed"],
        runtime_s=document["runtime_s"],
        reason=document["reason"] or "",
        argument=proof.get("argument", "") if bound is None else "",
        statistics=Statistics(events, dict(known["counters"])),
    )
