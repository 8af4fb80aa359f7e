"""What a notebook shows of an answer: a few lines, one picture and one table, static, without any program.

It needs no extra: nothing of it is drawn by a library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.report.pages.markup import Markup, joined, of_rich, rich_tables, share, table, tag, time
from partita.report.pages.preview import picture
from partita.report.pages.simulation import device_rows
from partita.report.pages.simulation import headline as simulation_headline
from partita.report.pages.subject import Subject
from partita.report.pages.sweep import axes_of
from partita.report.pages.sweep import headline as sweep_headline
from partita.report.pages.sweep import shown as shown_value
from partita.report.pages.verdict import STATUS, batch_of, headline
from partita.simulator.timeline import Timeline

#: Rows of the table.
_TABLE = 24
#: Characters of a table: modules of a stage may have long names.
_LARGEST = 60_000
#: Steps times microbatches of a run that a cell has the time for.
_LONGEST = 200_000

_STYLE = (
    ".partita{font:14px/1.45 system-ui,sans-serif;max-width:60rem}.partita p{margin:.3em 0}"
    ".partita .says{font-size:1.15em;font-weight:600}.partita table{border-collapse:collapse;font-size:.92em}"
    ".partita th,.partita td{text-align:left;padding:.15em .7em;border-bottom:1px solid #8884}"
    ".partita .n{text-align:right;white-space:nowrap}.partita caption{text-align:left;font-weight:600}"
    ".partita .marked>*{font-weight:700}.partita .soft{opacity:.75}.partita svg{max-width:100%;height:auto}"
)


def cell_of(subject: Subject) -> str:
    """A result in a cell."""
    document, unit = subject.document, subject.unit
    step = batch_of(document)
    said: list[Any] = [STATUS.get(str(document.get("status")), ""), ". Gap ", share(document.get("gap"), 4)]
    if step is not None:
        said += [f". {step['microbatches']} microbatches take ", time(step["time"], unit), ", devices wait for "]
        said += [share(step["bubble"]), " of that"]
    parts = [tag("p", headline(subject), class_="says"), tag("p", joined(said), ".", class_="soft")]
    line = _line(subject)
    if line is not None:
        parts.append(picture(line))
    if subject.planned is not None and subject.report is not None:
        shown = subject.report.tables(subject.planned.problem, subject.planned.plan, subject.evaluation)
        tables = rich_tables(shown)
        found = of_rich(tables[0]) if tables and tables[0].row_count <= _TABLE else Markup("")
        parts += [found] if len(found) <= _LARGEST else []
    return framed(subject.name, parts)


def sweep_cell(document: Mapping[str, Any]) -> str:
    """A sweep in a cell: its sentence and its rows."""
    rows, unit = document["rows"], str(document.get("unit", "s"))
    keys = [*axes_of(rows), *(key for key in ("objective", "bound", "gap", "status", "baseline_objective") if rows)]
    shown = [[shown_value(key, row.get(key), unit) for key in keys] for row in rows[:_TABLE]]
    title = "Points" if len(rows) <= _TABLE else f"The first {_TABLE} of {len(rows)} points"
    found = table(title, [key.removesuffix("_bytes").replace("_", " ") for key in keys], shown, words=("status",))
    name = str((document.get("problem") or {}).get("name") or "sweep")
    return framed(name, [tag("p", sweep_headline(document), class_="says"), found])


def simulation_cell(document: Mapping[str, Any]) -> str:
    """A simulation in a cell: its sentence and the use of its devices."""
    unit = str(document.get("unit", "s"))
    rows = [
        (row.name, time(row.busy, unit), time(row.exposed, unit), time(row.idle, unit))
        for row in device_rows(document)[:_TABLE]
    ]
    found = table("Devices", ("device", "works", "moves data, exposed", "waits"), rows)
    name = str(document.get("name") or "simulation")
    return framed(name, [tag("p", simulation_headline(document), class_="says"), found])


def framed(title: str, parts: Sequence[Markup]) -> str:
    """Pieces of a cell with their style."""
    return str(
        tag("div", tag("style", Markup(_STYLE)), tag("p", tag("strong", title)), *parts, class_="partita", lang="en")
    )


def _line(subject: Subject) -> Timeline | None:
    """How the plan runs; None where that takes longer than a cell may."""
    planned = subject.planned
    if planned is None:
        return None
    split = planned.split
    many = 0 if split is None else len(split.stages) * split.microbatches
    if many > _LONGEST or len(subject.operators) > _LONGEST:
        return None
    return None if subject.simulated is None else subject.simulated.simulation.timeline
