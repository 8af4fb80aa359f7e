"""The search over stages and replicas for a model: what competes, and its answer for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.cli.common import SearchArguments
from partita.cli.source import ModelSource
from partita.documents.tables.text import new_table, paragraphs
from partita.ground.units import format_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.conductor.search import Searched
    from partita.engines.processes.pool import Pool
    from partita.engines.search.result import Progress
    from partita.problems.facets.model import ModelPlan

#: Rows that are shown.
_SHOWN = 12


def search_model(
    found: ModelSource, options: Any, search: SearchArguments, pool: Pool, progress: Progress
) -> tuple[ModelPlan[Any], Searched]:
    """The best stages, replicas and placement of a model, with the plans of all objectives competing."""
    from partita.conductor.search_model import search_model as run
    from partita.engines.search.result import Event

    def line(text: str) -> None:
        progress(Event(0.0, None, None, text))

    return run(
        found.kind,
        found.graph,
        found.cluster,
        found.topology(),
        found.price(),
        options,
        time_limit_s=search.time_limit,
        pool=pool,
        progress=line,
    )


def search_document(found: Searched) -> dict[str, Any]:
    """A search as plain values: the ``search`` of a result document."""
    return {
        "finished": found.finished,
        "lost_workers": found.lost,
        "best": found.best.name,
        "explored": [
            {
                "name": one.name,
                "stages": None if one.shape is None else one.shape.stages,
                "replicas": None if one.shape is None else one.shape.replicas,
                "group": None if one.shape is None else one.shape.group,
                "zero": None if one.shape is None else one.shape.zero,
                "schedule": None if one.shape is None else one.shape.schedule,
                "recompute": None if one.shape is None else one.shape.recompute,
                "bound": one.bound,
                "split_bound": one.split_bound,
                "outcome": one.outcome,
                "step_time": one.step,
                "planned_step_time": one.planned_step,
                "in_order_step_time": _in_order(one),
            }
            for one in found.explored
        ],
    }


def _in_order(one: Any) -> float | None:
    order = None if one.placed is None else one.placed.in_order
    return None if order is None or order.step is None else float(order.step.time)


def search_tables(found: Searched) -> list[RenderableType]:
    """The best shapes, and how many were not worth a look."""
    table = new_table("Stages × replicas", ("step", "in order", "as planned", "no less than"), "plan", ("outcome",))
    placed = sorted((one for one in found.explored if one.step is not None), key=lambda one: one.step or 0.0)
    for one in placed[:_SHOWN]:
        order = _in_order(one)
        table.add_row(
            format_time(one.step or 0.0),
            "" if order is None else format_time(order),
            "" if one.planned_step is None else format_time(one.planned_step),
            "" if one.bound is None else format_time(one.bound),
            one.name + (" ◀" if one is found.best else ""),
            one.outcome,
        )
    counts: dict[str, int] = {}
    for one in found.explored:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    says = [f"{len(found.explored)} looked at: {text}"]
    if not found.finished:
        says.append("the time limit, or that of a split, came before the end of the search")
    return [table, paragraphs("The search", says)]
