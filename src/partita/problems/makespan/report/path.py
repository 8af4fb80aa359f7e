"""The critical path of a schedule in parts that a reader can act on: runs of operators, transfers, waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from partita.documents.tables.modules import part_modules, shortened
from partita.documents.tables.text import new_table
from partita.ground.rounding import TOLERANCE
from partita.ground.units import format_time
from partita.problems.makespan.plan import MakespanPlan
from partita.problems.makespan.problem import MakespanProblem
from partita.simulator.critical import critical_path
from partita.simulator.timeline import Timeline

if TYPE_CHECKING:
    from rich.table import Table

#: Parts of a path that are shown.
_MOST = 20


@dataclass
class PathPart:
    """A part of a critical path."""

    what: str  #: ``operators``, ``transfer`` or ``waiting``.
    #: In the problem's unit.
    start: float
    end: float
    device: str = ""  #: Where operators run, and where a transfer comes from.
    operators: list[int] = field(default_factory=list)  #: Their ids; of a transfer that of its producer.
    to: str = ""  #: Where a transfer goes.
    modules: tuple[str, ...] = ()  #: Those of the operators.

    def document(self) -> dict[str, Any]:
        """As plain values, without what does not apply."""
        values = {"what": self.what, "start": self.start, "end": self.end, "device": self.device, "to": self.to}
        found = {name: value for name, value in values.items() if value != ""}
        if self.operators:
            found |= {"operators": self.operators, "modules": list(self.modules)}
        return found


def path_parts(
    problem: MakespanProblem, plan: MakespanPlan, timeline: Timeline, modules: dict[int, str]
) -> list[PathPart]:
    """The parts of the critical path of a schedule's time line, in order; what takes no time is left out.

    ``modules`` has the module of every operator of the model, by id.
    """
    count, names = len(problem.operators), [device.name for device in problem.devices]
    moved = [flow for flow in problem.flows if flow.id in plan.flows]
    found: list[PathPart] = []
    reached = 0.0
    for place in critical_path(timeline):
        start, end = float(timeline.start[place]), float(timeline.end[place])
        if start - reached > TOLERANCE * timeline.finish:
            found.append(PathPart("waiting", reached, start))
        reached = max(reached, end)
        if end <= start:
            continue
        if place >= count:
            flow = moved[place - count]
            sent = plan.flows[flow.id]
            found.append(PathPart("transfer", start, end, names[sent.source], [flow.source], names[sent.target]))
            continue
        op = problem.operators[place]
        device = names[plan.operators[op.id].device]
        if found and found[-1].what == "operators" and found[-1].device == device:
            found[-1].end = end
            found[-1].operators.append(op.id)
        else:
            found.append(PathPart("operators", start, end, device, [op.id]))
    runs = [part for part in found if part.what == "operators"]
    part_of = {identity: number for number, run in enumerate(runs) for identity in run.operators}
    # What is not on the path is a part of its own, so that modules that are only partly on it are said to be.
    rest = ((part_of.get(identity, len(runs)), module) for identity, module in modules.items())
    for run, own in zip(runs, part_modules(rest, len(runs) + 1)[:-1], strict=True):
        run.modules = tuple(shortened(own))
    return found


def path_table(problem: MakespanProblem, parts: Sequence[PathPart]) -> Table:
    """One row a part, the longest ones of long paths."""
    chosen = sorted(sorted(range(len(parts)), key=lambda k: parts[k].start - parts[k].end)[:_MOST])
    title = "Critical path"
    if len(chosen) < len(parts):
        title += f": the longest {len(chosen)} of {len(parts)} parts"
    table = new_table(title, ("from", "until", "time"), "what")
    names = {op.id: op.name or op.label for op in problem.operators}
    for number in chosen:
        part = parts[number]
        if part.what == "operators":
            where = f" of {', '.join(part.modules)}" if part.modules else ""
            plural = "s" if len(part.operators) > 1 else ""
            what = f"{part.device}: {len(part.operators)} operator{plural}{where}"
        elif part.what == "transfer":
            what = f"{part.device} → {part.to}: {names[part.operators[0]]}"
        else:
            what = "waiting"
        times = (part.start, part.end, part.end - part.start)
        table.add_row(*(format_time(time, problem.unit) for time in times), what)
    return table
