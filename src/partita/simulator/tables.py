"""A simulation for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partita.documents.tables.text import new_table, paragraphs
from partita.ground.rounding import up_to
from partita.ground.units import format_bytes, format_time
from partita.simulator.critical import critical_summary
from partita.simulator.sensitivity import Change
from partita.simulator.simulate import Simulation

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: Rows of a table of devices; those in the middle are left out beyond.
_ROWS = 32


def device_table(simulation: Simulation) -> Table:
    """One row for each replica: how its devices spend the step, and the most that each holds."""
    program, step = simulation.program, simulation.step_time
    memory = ("peak memory", "at") if simulation.timeline.memory else ()
    columns = ("works", "moves data", "hidden", "waits", *memory)
    table = new_table("Devices: shares of the step", ("place",), "devices", columns)
    shown = list(enumerate(simulation.uses))
    left_out = len(shown) - _ROWS
    if left_out > 0:
        shown = [*shown[: _ROWS // 2], *shown[-_ROWS // 2 :]]
    for row, (number, use) in enumerate(shown):
        if left_out > 0 and row == _ROWS // 2:
            table.add_row("…", f"{left_out} more", *["…"] * len(columns))
        times = (use.busy, use.communication_exposed, use.communication_hidden, use.idle)
        cells = [f"{time / step:.1%}" if step > 0 else "–" for time in times]
        if memory:
            limit = simulation.timeline.memory[number].limit
            assert use.peak_memory_bytes is not None
            assert use.peak_time is not None
            share = f" ({use.peak_memory_bytes / limit:.0%})" if limit else ""
            cells += [format_bytes(use.peak_memory_bytes) + share, format_time(use.peak_time, program.unit)]
        table.add_row(program.places[use.place].name, simulation.timeline.devices[number], *cells)
    return table


def simulation_tables(
    simulation: Simulation, sensitivities: Sequence[Change] = (), expected: Mapping[str, float] | None = None
) -> list[RenderableType]:
    """Everything but the picture: devices, the step in words, the critical path, what would change it."""
    found: list[RenderableType] = [device_table(simulation)]
    found.append(paragraphs("The step", step_sentences(simulation, expected or {})))
    found.append(paragraphs("The critical path", critical_sentences(simulation)))
    if sensitivities:
        table = new_table("What would change the step", (), "change", ("step", "saved"))
        for change in sorted(sensitivities, key=lambda change: -change.saved):
            table.add_row(change.what, format_time(change.step_time, simulation.program.unit), f"{change.saved:+.2%}")
        found.append(table)
    found.append(paragraphs("Notes", simulation.program.notes))
    return found


def step_sentences(simulation: Simulation, expected: Mapping[str, float]) -> list[str]:
    """How long the step takes, what of, and what formulas say of the same."""
    program = simulation.program
    unit = program.unit
    first, last = simulation.latencies[0], simulation.latencies[-1]
    what = "one sample takes" if program.microbatches == 1 else f"{program.microbatches} {program.pieces[1]} take"
    found = [
        f"{what} {format_time(simulation.step_time, unit)}, schedule {program.schedule}; devices wait for "
        f"{simulation.bubble_fraction:.1%} of that"
    ]
    if program.microbatches > 1:
        found.append(
            f"the first {program.pieces[0]} takes {format_time(float(first), unit)} from its start to its end, "
            f"the last one {format_time(float(last), unit)}"
        )
    if simulation.period is not None:
        found.append(f"in the steady state a {program.pieces[0]} takes {format_time(simulation.period, unit)}")
    found += [f"the formula for {name} says {format_time(value, unit)}" for name, value in expected.items()]
    over = [
        simulation.timeline.devices[number]
        for number, curve in enumerate(simulation.timeline.memory)
        if curve.limit is not None and curve.peak_bytes > up_to(curve.limit)
    ]
    if over:
        found.append(f"memory does not suffice on {', '.join(over[:4])}{' …' if len(over) > 4 else ''}")
    return found


def critical_sentences(simulation: Simulation) -> list[str]:
    """What the length of the step is made of."""
    line, path = simulation.timeline, simulation.critical()
    if not path:
        return []
    summary = critical_summary(line, path)
    unit = simulation.program.unit
    parts = sorted(summary.by_sort.items(), key=lambda entry: -entry[1])
    shares = ", ".join(f"{name} {format_time(time, unit)}" for name, time in parts if time > 0)
    labels = [line.label(place) for place in path]
    shown = labels if len(labels) <= 8 else [*labels[:4], "…", *labels[-4:]]
    return [f"{len(path)} slices: {shares}; waiting {format_time(summary.waiting, unit)}", " → ".join(shown)]
