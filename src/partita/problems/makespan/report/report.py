"""A schedule for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partita.problems.facets.report import Report
from partita.problems.makespan.evaluate import MakespanEvaluation
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.report.timeline import schedule_timeline
from partita.run.result import Result
from partita.simulator.critical import critical_path, critical_summary
from partita.simulator.gantt_text import gantt_lines
from partita.simulator.timeline import OPERATOR, SORTS, TRANSFER
from partita.tables.text import new_table
from partita.units import format_bytes, format_time

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: Names of a critical path that are written out, at its start and its end together.
_NAMES = 8


def memory_text(value: float, unit: str) -> str:
    """Memory for people: bytes in binary units, what else as it is."""
    return format_bytes(value) if unit == "bytes" else f"{value:.4g} {unit}"


class MakespanReport(Report[MakespanProblem, Schedule, MakespanEvaluation]):
    """Devices with what they run and move, a Gantt chart in text, and the critical path."""

    doing = "scheduling"

    def sentences(self, problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation) -> Sequence[str]:
        timeline = schedule_timeline(problem, plan)
        path = critical_path(timeline)
        spent = critical_summary(timeline, path)
        names = [timeline.label(place) for place in path]
        if len(names) > _NAMES:
            left_out = len(names) - _NAMES
            names = [*names[: _NAMES // 2], f"… {left_out} more …", *names[-_NAMES // 2 :]]

        def part(sort: int) -> str:
            return format_time(spent.by_sort.get(SORTS[sort].name, 0.0), problem.unit)

        return [
            f"the critical path takes {format_time(spent.finish, problem.unit)}: {part(OPERATOR)} of operators, "
            f"{part(TRANSFER)} of transfers, {format_time(spent.waiting, problem.unit)} of waiting",
            f"it is {' → '.join(names)}",
        ]

    def tables(
        self, problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation
    ) -> Sequence[RenderableType]:
        from rich.text import Text

        gantt = "\n".join(gantt_lines(schedule_timeline(problem, plan), streams=True))
        return [
            _devices(problem, plan, evaluation),
            Text(gantt + "\n", no_wrap=True),
        ]

    def figures(self, problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation) -> Mapping[str, str]:
        used = len({placed.device for placed in plan.operators.values()})
        return {"devices": str(used), "flows moved": str(len(plan.flows))}

    def step(self, problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation) -> float | None:
        """One sample is the batch."""
        return float(evaluation.objective)

    def verdict(self, evaluation: MakespanEvaluation) -> dict[str, Any]:
        return {"memory": list(evaluation.memory), "busy": list(evaluation.busy)}

    def result_document(self, result: Result[MakespanProblem, Schedule, MakespanEvaluation]) -> dict[str, Any]:
        if result.plan is None:
            return {"critical_path": None}
        timeline = schedule_timeline(result.problem, result.plan)
        path = critical_path(timeline)
        spent = critical_summary(timeline, path)
        return {
            "critical_path": {
                "slices": [timeline.label(place) for place in path],
                "operators": spent.by_sort.get(SORTS[OPERATOR].name, 0.0),
                "transfers": spent.by_sort.get(SORTS[TRANSFER].name, 0.0),
                "waiting": spent.waiting,
            }
        }


def _devices(problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation) -> Table:
    """One row per device: operators, how long it works, sends and receives, and what it holds."""
    table = new_table("Devices", ("#", "operators", "busy", "of makespan", "sends", "receives", "memory"), "device")
    for place, device in enumerate(problem.devices):
        count = sum(placed.device == place for placed in plan.operators.values())
        sends = sum(sent.end - sent.start for sent in plan.flows.values() if sent.source == place)
        receives = sum(sent.end - sent.start for sent in plan.flows.values() if sent.target == place)
        share = evaluation.busy[place] / evaluation.objective if evaluation.objective > 0 else 0.0
        held = memory_text(evaluation.memory[place], problem.memory_unit)
        if device.memory:
            held += f" ({evaluation.memory[place] / device.memory:.0%})"
        times = (format_time(time, problem.unit) for time in (evaluation.busy[place], sends, receives))
        busy, out, into = times
        table.add_row(str(place), str(count), busy, f"{share:.0%}", out, into, held, device.name)
    return table
