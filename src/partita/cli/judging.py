"""partita evaluate, partita check and partita bound: what a plan is worth, and what is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from partita.cli import EXIT_NOT_SHOWN
from partita.cli.common import emit_json, show
from partita.cli.flags import json_option, option, problem_option, subcommand, time_limit_option
from partita.cli.options import file_options, settings_of_files
from partita.cli.source import read_file
from partita.ground.units import format_time

if TYPE_CHECKING:
    from rich.table import Table

    from partita.checker.document import Verdict
    from partita.engines.search.result import Bound
    from partita.problems.facets.report import Reporting


@subcommand(
    click.argument("file", type=click.Path()),
    click.argument("plan_file", metavar="PLAN", type=click.Path()),
    file_options,
    settings_of_files,
    json_option,
)
def evaluate(file: str, plan_file: str, as_json: bool, **parameters: Any) -> None:
    """Evaluate PLAN, a result file or another file that plans are written in, on the problem in FILE."""
    from partita.conductor.documents import evaluation_document
    from partita.problems.planned import read_plan
    from partita.report.results import verdict_lines

    stated = read_file(file, parameters)
    problem, report = stated.problem, stated.kind.report
    plan = read_plan(plan_file, problem)
    evaluation = stated.kind.evaluate(problem, plan)
    if as_json:
        emit_json(evaluation_document(problem, plan, evaluation))
    else:
        show([*report.tables(problem, plan, evaluation), *verdict_lines(report, problem, plan, evaluation)])


@subcommand(click.argument("result", type=click.Path(), metavar="R.json"), problem_option, json_option)
def check(result: str, problem_file: str | None, as_json: bool) -> int:
    """Verify plan and proof of a result file R.json without the solvers.

    Exit status: 0 verified, 1 something is wrong, 4 nothing is wrong and there is nothing to verify the bound by.
    """
    from partita.api.judging import check

    found = check(result, problem_file)
    if as_json:
        emit_json(msgspec.to_builtins(found))
    else:
        show(_lines(found))
    return 0 if found.verified else 1 if found.refuted else EXIT_NOT_SHOWN


def _lines(found: Verdict) -> Iterator[str]:
    plan, bound = found.plan, found.bound
    if plan.verified is None:
        yield f"plan: {plan.wrong or 'there is none'}"
    elif plan.verified:
        yield f"plan: verified, worth {plan.objective!r} (by {plan.by})"
    else:
        yield f"plan: NOT verified: {plan.wrong}"
    if bound.value is None:
        yield "bound: there is none" + (f"; by argument only: {bound.argument}" if bound.argument else "")
    elif bound.verified is None:
        yield f"bound: {bound.value!r} comes without a certificate; by argument only: {bound.argument or 'none'}"
    elif bound.verified:
        yield f"bound: {bound.value!r} verified: the certificate ({bound.certificate}) proves {bound.checked!r}"
        yield f"       {bound.says}"
    else:
        yield f"bound: {bound.value!r} NOT verified: {bound.wrong}"
    for line in found.wrong:
        yield f"file: {line}"
    yield "verified" if found.verified else "NOT verified" if found.refuted else "nothing to verify the bound by"


@subcommand(
    click.argument("file", type=click.Path()),
    file_options,
    settings_of_files,
    option("search", "--method", metavar="NAME", help="See `partita bounds`; all that fit if not given."),
    time_limit_option,
    json_option,
)
def bound(file: str, method: str | None, time_limit_s: float, as_json: bool, **parameters: Any) -> None:
    """Prove a lower bound on the best objective of the problem in FILE."""
    from partita.conductor.bound import proof

    stated = read_file(file, parameters)
    problem, report = stated.problem, stated.kind.report
    proven = proof(problem, method, time_limit_s=time_limit_s)
    found = proven.best
    if as_json:
        emit_json(
            {
                "objective": None,
                "bound": found.value,
                "gap": None,
                "status": "unknown",
                "stop_reason": "finished",
                "unit": problem.unit,
                "method": found.method,
                "valid_for": found.scope,
                "argument": found.argument,
                "certificate": found.certificate,
                "runtime_s": found.runtime_s,
                "methods": [
                    {"method": b.method, "bound": b.value, "valid_for": b.scope, "runtime_s": b.runtime_s}
                    for b in proven.methods
                ],
                "problem": {"name": problem.name},
            }
        )
        return
    value = format_time(found.value, problem.unit)
    line = f"no {report.scope(found.scope)} is better than {value} ({found.method}, {found.runtime_s:.2f} s)"
    show([_table(proven.methods, problem.unit, report), line] if len(proven.methods) > 1 else [line])


def _table(parts: Sequence[Bound], unit: str, report: Reporting[Any, Any, Any]) -> Table:
    """What was proven by the end of each method."""
    from partita.documents.tables.text import new_table

    table = new_table("Bounds")
    for title in ("method", "proven", "holds for", "time"):
        table.add_column(title, justify="right" if title in ("proven", "time") else "left")
    best = 0.0
    for part in parts:
        value = format_time(part.value, unit) if part.value > best else "no more"
        table.add_row(part.method, value, f"{report.scope(part.scope)}s", f"{part.runtime_s:.2f} s")
        best = max(best, part.value)
    return table
