"""Check: a result in, whether its plan and its proof hold out; by ``partita.checker``, which trusts no solver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from partita.checker.certificate import as_in_file
from partita.checker.document import PlanVerdict, Verdict, check_document
from partita.conductor.documents import result_document
from partita.documents.document import decode, read_bytes, tagged
from partita.documents.result_file import RESULT_FORMAT, problem_digest, with_problem
from partita.engines.search.result import Result
from partita.ground.errors import FormatError, InputError, PartitaError
from partita.ground.rounding import TOLERANCE
from partita.problems import kind_of
from partita.problems.importers import given_problem, stated_problem
from partita.problems.kind import AnyResult


def check(result: Any, problem: Any = None) -> Verdict:
    """``check_result`` for a result, or the path of its file; FormatError if the file is no result file."""
    if isinstance(result, Result):
        return check_result(result, as_in_file(with_problem(result_document(result), result.problem)), problem)
    document = decode(read_bytes(result), dict[str, Any], result)
    if document.get("format") != RESULT_FORMAT:
        raise FormatError(f"{result} is not a {RESULT_FORMAT} file")
    return check_result(result, document, problem)


def check_result(result: AnyResult | str | Path, document: Mapping[str, Any], problem: Any = None) -> Verdict:
    """``check`` for a result, or the path of its file, whose document is at hand."""
    stated, found = _problem(document, result, problem)
    verdict = check_document(document, stated)
    wrong = [*verdict.wrong, *_of_another_problem(document, found)]
    plan = verdict.plan
    if document.get("plan") is not None and plan.verified is not False:
        plan, others = _by_the_package(document, result, found, plan)
        wrong += others
    return Verdict.of(plan, verdict.bound, tuple(wrong))


def _problem(document: Mapping[str, Any], source: Any, given: Any) -> tuple[dict[str, Any], Any]:
    """The problem as it stands in a file, and as a value."""
    if given is None:
        entry = document.get("problem")
        stated = entry.get("stated") if isinstance(entry, dict) else None
        if stated is None:
            raise InputError(f"{source} does not hold the problem that its plan is of; name the problem's file")
        if isinstance(source, Result):
            return stated, source.problem
        return stated, stated_problem(msgspec.json.encode(stated), f"{source}: problem.stated")
    found = given_problem(given)
    return as_in_file(tagged(found, found.format, found.version)), found


def _of_another_problem(document: Mapping[str, Any], problem: Any) -> list[str]:
    entry = document.get("problem")
    if not isinstance(entry, dict):
        return ["it does not say which problem it is of"]
    found = []
    if entry.get("sha256") != problem_digest(problem):
        found.append("it was made for another problem: the digests differ")
    if entry.get("name") != problem.name:
        found.append("it was made for a problem of another name")
    return found


def _by_the_package(
    document: Mapping[str, Any], source: Any, problem: Any, plan: PlanVerdict
) -> tuple[PlanVerdict, list[str]]:
    """The plan by the package's own evaluator, where the checker does not cover it; and all figures of the file."""
    kind = kind_of(problem)
    try:
        read = source.plan if isinstance(source, Result) else kind.files.read_plan(source, problem)
        evaluation = kind.evaluate(problem, read)
        again = as_in_file(kind.files.plan_document(problem, read, evaluation))
    except (PartitaError, msgspec.ValidationError) as error:
        return PlanVerdict(verified=False, by=plan.by, wrong=str(error)), []
    if plan.verified is None:
        wrong = evaluation.violations[0] if evaluation.violations else ""
        if not wrong and not _same(document.get("objective"), evaluation.objective):
            wrong = f"the plan is worth {evaluation.objective!r}, not {document.get('objective')!r}"
        plan = PlanVerdict(
            verified=not wrong, objective=evaluation.objective, by="the package's evaluator", wrong=wrong
        )
    return plan, [f"plan.{place} is not what the plan makes it" for place in _differences(document["plan"], again)]


def _differences(stated: Any, again: Any, place: str = "") -> list[str]:
    """Where a plan's figures are not those that the package writes; what a file has beside these is left alone."""
    if isinstance(again, dict) and isinstance(stated, dict):
        return [
            where
            for key, value in again.items()
            for where in (
                _differences(stated[key], value, f"{place}.{key}".lstrip(".")) if key in stated else [f"{place}.{key}"]
            )
        ]
    if isinstance(again, list) and isinstance(stated, list) and len(again) == len(stated):
        pairs = enumerate(zip(stated, again, strict=True))
        return [where for number, (a, b) in pairs for where in _differences(a, b, f"{place}[{number}]")]
    return [] if _same(stated, again) else [place]


def _same(stated: Any, again: Any) -> bool:
    numbers = (int, float)
    if isinstance(stated, numbers) and isinstance(again, numbers) and not isinstance(stated, bool):
        return math.isclose(stated, again, rel_tol=TOLERANCE)
    return type(stated) is type(again) and bool(stated == again)
