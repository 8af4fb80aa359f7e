"""Where the stages of a plan go, and the search for stages and replicas: for people, and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.documents.tables.text import new_table, paragraphs
from partita.ground.units import format_time
from partita.problems import kind_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.conductor.place import PlacedPlan
    from partita.conductor.search import Explored, Searched

#: What a document says of a shape.
_OF_SHAPES = ("stages", "replicas", "group", "zero", "schedule", "recompute")

#: Replicas of a stage that are written out, devices of each of them, and shapes of a search.
_LISTED, _TOGETHER, _SHOWN = 8, 4, 12


def placement_tables(found: PlacedPlan) -> list[RenderableType]:
    """Devices of every stage, the critical link, and what other orders are worth."""
    topology, staged, chosen = found.topology, found.staged, found.chosen
    table = new_table(f"Placement on {topology.name}", ("#", "replicas", "devices each"), "stage", ("machines",))
    table.add_column("devices", overflow="fold", ratio=2)
    for rank, (stage, row) in enumerate(zip(staged.ranks, chosen.layout, strict=True)):
        machines = sorted({topology.machine_of[device] for group in row for device in group})
        named = [_named([topology.names[device] for device in group]) for group in row[:_LISTED]]
        more = f" … {len(row) - _LISTED} more" if len(row) > _LISTED else ""
        where = ", ".join(map(str, machines[:_LISTED])) + (" …" if len(machines) > _LISTED else "")
        table.add_row(
            str(staged.number(rank)),
            str(stage.data_parallel),
            str(stage.group),
            stage.name,
            where,
            ", ".join(named) + more,
        )
    return [table, paragraphs("Where it runs", placement_sentences(found))]


def _named(names: list[str]) -> str:
    """The devices of a replica; of many the first and the last, since they are neighbours."""
    return "+".join(names) if len(names) <= _TOGETHER else f"{names[0]} … {names[-1]}"


def placement_sentences(found: PlacedPlan) -> list[str]:
    """What the placement is worth."""
    result, chosen = found.result, found.chosen
    problem = result.problem
    gap = "" if result.gap is None else f", within {result.gap:.1%} of a proven bound"
    says = [] if result.plan is None else kind_of(problem).report.sentences(problem, result.plan, result.evaluation)
    worth = "" if chosen.objective is None else f"{format_time(chosen.objective)} of a batch{gap}; "
    sentences = [f"busiest replica: {worth}{'; '.join(says)}"]
    if chosen.step is not None:
        text = (
            f"placed so ({chosen.name}), {found.staged.microbatches} microbatches take {format_time(chosen.step.time)}"
        )
        order = found.in_order
        if order is not None and order.step is not None and order is not chosen:
            text += (
                f"; in the order of the plan {format_time(order.step.time)} ({order.step.time / chosen.step.time:.2f}×)"
            )
        sentences.append(f"{text} (simulated)")
    if found.as_good:
        names = ", ".join(one.name for one in found.as_good)
        sentences.append(f"as good within 1 %: {names}")
    return sentences


def search_document(found: Searched) -> dict[str, Any]:
    """A search as plain values: the ``search`` of a result document."""
    return {
        "finished": found.finished,
        "lost_workers": found.lost,
        "best": found.best.name,
        "explored": [
            {
                "name": one.name,
                **{name: getattr(one.shape, name, None) for name in _OF_SHAPES},
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


def _in_order(one: Explored) -> float | None:
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
