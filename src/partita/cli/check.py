"""partita check: does the plan of a result file hold, and does its certificate prove its bound?"""

from __future__ import annotations

from collections.abc import Iterator

import click

from partita.checker.verdict import Verdict
from partita.cli import EXIT_NOT_SHOWN
from partita.cli.common import emit_json, show
from partita.cli.flags import GroupedCommand, json_option, problem_option


def command() -> click.Command:
    """The command."""

    @click.command("check", cls=GroupedCommand)
    @click.argument("result", type=click.Path(), metavar="R.json")
    @problem_option
    @json_option
    def check(result: str, problem_file: str | None, as_json: bool) -> int:
        """Verify plan and proof of a result file R.json without the solvers.

        Exit status: 0 verified, 1 something is wrong, 4 nothing is wrong and there is nothing to verify the bound by.
        """
        import msgspec

        from partita.conductor.check import check

        found = check(result, problem_file)
        if as_json:
            emit_json(msgspec.to_builtins(found))
        else:
            show(_lines(found))
        return 0 if found.verified else 1 if found.refuted else EXIT_NOT_SHOWN

    return check


def _lines(found: Verdict) -> Iterator[str]:
    """The verdict in sentences."""
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
