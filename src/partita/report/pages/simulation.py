"""The page of a simulation alone: what ``partita simulate --json`` prints, with its time line where that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.ground.units import format_time
from partita.report.pages.again import again, notes
from partita.report.pages.assemble import assembled
from partita.report.pages.limits import limits_section
from partita.report.pages.markup import Markup, facts, joined, section, share, table, tag, time
from partita.report.pages.running import DeviceRow, devices_section, memory_section
from partita.report.pages.timeline import timeline_section
from partita.report.pages.verdict import tiles

#: What transfers do to each other, in words.
_CONTENTION = {
    "dedicated": "Transfers do not wait for each other.",
    "shared": "Transfers share links and copy engines.",
    "serial": "Transfers over a link go one at a time.",
}
#: Names of a critical path that are written out, at its start and its end.
_NAMES = 60


def simulation_page(document: Mapping[str, Any]) -> str:
    """A simulated batch."""
    unit, rows = str(document.get("unit", "s")), device_rows(document)
    changes = [(one["change"], one["step_time"], one["saved"]) for one in document.get("sensitivities", ())]
    line = document.get("time_line")
    lead = (
        f"{document['schedule']}, {document['microbatches']} {_pieces(document)[1]}, "
        f"{format_time(document['step_time'], unit)}."
    )
    sections = [
        _verdict(document, unit),
        memory_section(rows),
        devices_section(rows, unit, document["step_time"], document["bubble_fraction"]),
        timeline_section(line, lead) if isinstance(line, Mapping) else Markup(""),
        _critical(document, unit),
        limits_section((), changes, unit),
        _formulas(document, unit),
        notes(document),
        again(document),
    ]
    return assembled(str(document.get("name") or "simulation"), "Simulation", sections)


def device_rows(document: Mapping[str, Any]) -> list[DeviceRow]:
    """One for each device."""
    found = []
    for entry in document["devices"]:
        peak = entry.get("peak") or {}
        found.append(
            DeviceRow(
                entry["name"],
                entry["busy"],
                entry["communication_exposed"],
                entry["communication_hidden"],
                entry["idle"],
                peak.get("parts") or {},
                peak.get("limit_bytes"),
            )
        )
    return found


def headline(document: Mapping[str, Any]) -> Markup:
    """A simulation in one sentence."""
    unit = str(document.get("unit", "s"))
    return joined(
        [
            f"{document['microbatches']} {_pieces(document)[1]} take ",
            time(document["step_time"], unit),
            f" under schedule {document['schedule']}; devices wait for ",
            share(document["bubble_fraction"]),
            " of that.",
        ]
    )


def _pieces(document: Mapping[str, Any]) -> tuple[str, str]:
    """What passes through the program, one and many of it; documents made before that was said have microbatches."""
    one, many = document.get("pieces", ("microbatch", "microbatches"))
    return one, many


def _verdict(document: Mapping[str, Any], unit: str) -> Markup:
    one, many = _pieces(document)
    rate = document["microbatches"] / document["step_time"] if document["step_time"] else float("inf")
    pairs: list[tuple[str, Any]] = [
        ("Time of a batch", time(document["step_time"], unit)),
        ("Devices wait", share(document["bubble_fraction"])),
        (many.capitalize(), f"{rate:.4g} per {unit}"),
    ]
    if document.get("steady_period") is not None:
        pairs.append((f"Between two {many}", time(document["steady_period"], unit)))
    if document.get("objective") is not None:
        pairs.append(("Objective of the plan", time(document["objective"], document.get("objective_unit", unit))))
    first, last = document["first_microbatch"], document["last_microbatch"]
    return tag(
        "section",
        tag("h2", "Verdict", id_="verdict-title", class_="hidden"),
        tag("p", headline(document), class_="verdict"),
        tiles(iter(pairs)),
        tag(
            "p",
            f"The first {one} ends at ",
            time(first["ends"], unit),
            ", the last one takes ",
            time(last["takes"], unit),
            f" from its first step to its last. {_CONTENTION.get(document['contention'], '')}",
        ),
        id_="verdict",
        aria_labelledby="verdict-title",
    )


def _critical(document: Mapping[str, Any], unit: str) -> Markup:
    path, spent = document["critical_path"], document.get("critical_time") or {}
    whole = document["step_time"] or 1.0
    by_sort = {**spent.get("by_sort", {}), "waiting": spent.get("waiting", 0.0)}
    pairs = [
        (name.capitalize(), joined([time(value, unit), " (", share(value / whole), ")"]))
        for name, value in by_sort.items()
        if value > 0
    ]
    rows = [(name, time(value, unit)) for name, value in spent.get("by_device", {}).items()]
    found = table("Time of the critical path by device", ("device", "time"), rows) if rows else Markup("")
    names = list(path)
    if len(names) > _NAMES:
        names = [*names[: _NAMES // 2], f"… {len(names) - _NAMES} more …", *names[-_NAMES // 2 :]]
    shown = tag("details", tag("summary", f"Its {len(path)} slices"), tag("p", " → ".join(names))) if names else ""
    return section("critical-path", "Critical path", facts(pairs) if pairs else "", found, shown)


def _formulas(document: Mapping[str, Any], unit: str) -> Markup:
    found = document.get("formulas") or {}
    rows = [(name, time(value, unit), share(value / document["step_time"] - 1, 2)) for name, value in found.items()]
    if not rows or not document["step_time"]:
        return Markup("")
    columns = ("what", "by formula", "against the simulated batch")
    return section("formulas", "What formulas say", table("The same run by formula", columns, rows))
