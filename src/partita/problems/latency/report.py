"""A latency plan for people: pieces, the critical path, and what it consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partita.documents.tables.text import new_table
from partita.ground.units import format_bytes, format_time
from partita.problems.facets.records import OperatorPlace, StageSummary
from partita.problems.facets.report import Reporting
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.plan import LatencyPlan, homes
from partita.problems.latency.problem import LatencyProblem

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: Most names of operators in a row, and most chains of operators on the CPU.
_NAMES, _ROWS = 4, 40


class LatencyReport(Reporting[LatencyProblem, LatencyPlan, LatencyEvaluation]):
    """Pieces with their times, the critical path, and what it consists of."""

    doing = "placing"

    def tables(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation
    ) -> Sequence[RenderableType]:
        return [_piece_table(problem, plan, evaluation), _critical_table(problem, plan, evaluation)]

    def sentences(self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Sequence[str]:
        """What the critical path consists of, and the fullest memory."""
        parts = critical_parts(evaluation)
        total = sum(parts.values())
        found = []
        if total > 0:
            shares = ", ".join(f"{value / total:.1%} {name}" for name, value in parts.items())
            found.append(f"the critical path is {shares}")
        if problem.memory_bytes and evaluation.accelerators:
            fullest = max(one.memory_bytes for one in evaluation.accelerators)
            share = fullest / problem.memory_bytes
            found.append(f"the fullest accelerator holds {format_bytes(fullest)}, {share:.0%} of its memory")
        return found

    def stages(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation
    ) -> Sequence[StageSummary]:
        """Every accelerator that has pieces, and the CPU for the rest."""
        found = [
            StageSummary(
                number=device,
                device=f"accelerator:{device}",
                operators=tuple(v for piece in row for v in piece),
                time=sum(piece.duration for piece in worth.pieces),
                compute=sum(piece.compute for piece in worth.pieces),
                communication=sum(piece.transfer_in + piece.transfer_out for piece in worth.pieces),
                memory_bytes=worth.memory_bytes,
                memory_limit_bytes=problem.memory_bytes,
            )
            for device, (row, worth) in enumerate(zip(plan.accelerators, evaluation.accelerators, strict=True))
        ]
        placed = {v for stage in found for v in stage.operators}
        rest = [op for op in problem.operators if op.id not in placed]
        if rest:
            work = sum(op.cpu_time for op in rest)
            ids = tuple(op.id for op in rest)
            found.append(StageSummary(number=len(found), device="cpu", operators=ids, time=work, compute=work))
        return found

    def operators(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation
    ) -> Sequence[OperatorPlace]:
        """With their time; the CPU is the place behind the accelerators."""
        home, cpu = homes(problem, plan), len(plan.accelerators)
        found = []
        for op in problem.operators:
            name = op.name or op.label
            if op.id not in home:
                found.append(OperatorPlace(id=op.id, name=name, stage=cpu, device="cpu", time=op.cpu_time))
                continue
            device, piece = home[op.id]
            found.append(
                OperatorPlace(
                    id=op.id,
                    name=name,
                    stage=device,
                    device=f"accelerator:{device}",
                    time=op.accelerator_time,
                    memory_bytes=op.memory_bytes,
                    note=f"piece {piece}" if len(plan.accelerators[device]) > 1 else "",
                )
            )
        return found

    def step(self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> float | None:
        """One sample is the batch."""
        return float(evaluation.objective)

    def figures(self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Mapping[str, str]:
        parts = critical_parts(evaluation)
        pieces = sum(len(one.pieces) for one in evaluation.accelerators)
        return {"pieces": str(pieces), "transfers": format_time(parts["transfers"], problem.unit)}


def critical_parts(evaluation: LatencyEvaluation) -> dict[str, float]:
    """Times on the critical path: transfers, work on accelerators, work on the CPU."""
    parts = {"transfers": 0.0, "work on accelerators": 0.0, "work on the CPU": 0.0}
    for step in evaluation.critical_path:
        if step.device is None or step.piece is None:
            parts["work on the CPU"] += step.end - step.start
        else:
            piece = evaluation.accelerators[step.device].pieces[step.piece]
            parts["transfers"] += piece.transfer_in + piece.transfer_out
            parts["work on accelerators"] += piece.compute
    return parts


def _piece_table(problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Table:
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


def _critical_table(problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Table:
    """What waits for what, until the last operator is done; a piece with the first names of its operators."""
    table = new_table("Critical path")
    table.add_column("device", no_wrap=True)
    table.add_column("operators", overflow="fold", ratio=1)
    for column in ("start", "takes", "end"):
        table.add_column(column, justify="right", no_wrap=True)
    names = {op.id: op.name or str(op.id) for op in problem.operators}
    steps = evaluation.critical_path
    for step in steps[:_ROWS]:
        if step.device is None or step.piece is None:
            device, inside = "cpu", [names[step.operator]] if step.operator is not None else []
        else:
            device = f"accelerator:{step.device}"
            inside = [names[v] for v in plan.accelerators[step.device][step.piece]]
        text = ", ".join(inside[:_NAMES]) + (f", … ({len(inside)})" if len(inside) > _NAMES else "")
        times = (format_time(time, problem.unit) for time in (step.start, step.end - step.start, step.end))
        table.add_row(device, text, *times)
    if len(steps) > _ROWS:
        table.add_row("…", f"{len(steps) - _ROWS} steps more", "", "", "")
    return table
