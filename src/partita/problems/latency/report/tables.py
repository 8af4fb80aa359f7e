"""Tables of a latency plan, made with rich."""

from __future__ import annotations

from rich.table import Table

from partita.documents.tables.text import new_table
from partita.ground.units import format_bytes, format_time
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem

#: Most names of operators in a row, and most rows of operators on the CPU.
NAMES, ROWS = 4, 40


def piece_table(problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Table:
    """One row per piece, those that start first on top; one for the CPU."""
    table = new_table("Pieces")
    table.add_column("device", no_wrap=True)
    for column in ("operators", "start", "in", "compute", "out", "end", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    unit = problem.unit
    on_path = {(step.device, step.piece) for step in evaluation.critical_path}
    rows = []
    for device, one in enumerate(evaluation.accelerators):
        for number, piece in enumerate(one.pieces):
            times = (piece.start, piece.transfer_in, piece.compute, piece.transfer_out, piece.end)
            name = f"accelerator:{device}" + (f", piece {number}" if len(one.pieces) > 1 else "")
            cells = [name, str(len(plan.accelerators[device][number])), *(format_time(time, unit) for time in times)]
            memory = "" if number else format_bytes(one.memory_bytes)
            rows.append((piece.start, device, number, [*cells, memory]))
    for _, device, number, cells in sorted(rows):
        table.add_row(*cells, style="bold" if (device, number) in on_path else None)
    placed = {v for row in plan.accelerators for piece in row for v in piece}
    rest = [op for op in problem.operators if op.id not in placed]
    if rest:
        work = format_time(sum(op.cpu_time for op in rest), unit)
        table.add_row("cpu", str(len(rest)), "", "", work, "", "", "")
    return table


def critical_table(problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Table:
    """What waits for what, until the last operator is done; a piece with the first names of its operators."""
    table = new_table("Critical path")
    table.add_column("device", no_wrap=True)
    table.add_column("operators", overflow="fold", ratio=1)
    for column in ("start", "takes", "end"):
        table.add_column(column, justify="right", no_wrap=True)
    names = {op.id: op.name or str(op.id) for op in problem.operators}
    steps = evaluation.critical_path
    for step in steps[:ROWS]:
        if step.device is None or step.piece is None:
            device, inside = "cpu", [names[step.operator]] if step.operator is not None else []
        else:
            device = f"accelerator:{step.device}"
            inside = [names[v] for v in plan.accelerators[step.device][step.piece]]
        text = ", ".join(inside[:NAMES]) + (f", … ({len(inside)})" if len(inside) > NAMES else "")
        times = (format_time(time, problem.unit) for time in (step.start, step.end - step.start, step.end))
        table.add_row(device, text, *times)
    if len(steps) > ROWS:
        table.add_row("…", f"{len(steps) - ROWS} steps more", "", "", "")
    return table
