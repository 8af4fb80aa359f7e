"""An answer that was read from a file: what can be shown of it without the traced model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partita.documents.tables.text import new_table, paragraphs
from partita.engines.search.result import PlanEvaluation, Rival
from partita.ground.units import format_bytes, format_count, format_time
from partita.problems import kind_of
from partita.problems.kind import AnyResult

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def saved_rows(document: Mapping[str, Any]) -> tuple[Rival, ...]:
    """The rows of a comparison: each with what it is worth, without its plan."""
    return tuple(
        Rival(
            name=row["name"],
            summary=row["summary"],
            evaluation=None if row["objective"] is None else PlanEvaluation(objective=row["objective"]),
            runtime_s=row["runtime_s"],
            note=row["reason"] or "",
        )
        for row in document.get("baselines") or ()
    )


def saved_tables(result: AnyResult, document: Mapping[str, Any]) -> list[RenderableType]:
    """What the command line prints of a plan, as far as the file says it."""
    shown: list[RenderableType] = []
    model = document.get("model")
    if model is not None:
        kind = "training (forward and backward)" if model["training"] else "inference"
        shown.append(
            f"{model['name']}: {model['operators']} operators, {format_count(model['parameters'])} parameters "
            f"({format_bytes(model['parameter_bytes'])}), {format_count(model['flops'])}FLOP per microbatch, {kind}"
        )
    if result.plan is not None:
        shown += kind_of(result.problem).report.tables(result.problem, result.plan, result.evaluation)
    for title, part in (("What limits the plan", "limits"), ("Where it runs", "placement"), ("Runtime", "runtime")):
        shown.append(paragraphs(title, (document.get(part) or {}).get("sentences", ())))
    rows = saved_rows(document)
    if rows:
        shown.append(_comparison(result, rows))
    return [*shown, paragraphs("Notes", document["notes"])] if model is not None else shown


def _comparison(result: AnyResult, rows: Sequence[Rival]) -> Table:
    unit, mine = result.problem.unit, result.objective
    less = kind_of(result.problem).report.less(result.problem)
    table = new_table("Compared with", ())
    table.add_column("plan", overflow="fold")
    for title in ("objective", "against the plan"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what it does", overflow="fold", ratio=1)
    if mine is not None:
        table.add_row("partita", format_time(mine, unit), "", "", style="bold")
    for row in rows:
        if row.evaluation is None:
            table.add_row(row.name, "—", "", row.note)
            continue
        worth = row.evaluation.objective
        ratio = f"{worth / mine - 1:+.1%} {less}" if mine else ""
        table.add_row(row.name, format_time(worth, unit), ratio, row.summary)
    return table
