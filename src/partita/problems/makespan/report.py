"""A schedule for people, and as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from partita.documents.tables.modules import PartModules, part_modules, shortened
from partita.documents.tables.text import new_table
from partita.engines.search.result import Result
from partita.ground.rounding import TOLERANCE
from partita.ground.units import format_bytes, format_time
from partita.problems.facets.records import OperatorPlace, StageSummary
from partita.problems.facets.report import Reporting, model_sentence, network_sentences
from partita.problems.makespan.evaluate import MakespanEvaluation
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem, device_labels
from partita.problems.makespan.timeline import schedule_timeline
from partita.simulator.critical import CriticalSummary, critical_path, critical_summary
from partita.simulator.gantt_text import gantt_lines
from partita.simulator.timeline import OPERATOR, SORTS, TRANSFER, Timeline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from partita.problems.facets.model import ModelPlan

#: How much longer a simpler plan may take to be worth a word.
_NEARLY = 0.05
#: Names of a critical path that are written out, at its start and its end together.
_NAMES = 8
#: Parts of a critical path that are shown.
_PARTS = 20


def memory_text(value: float, unit: str) -> str:
    """Memory for people: bytes in binary units, what else as it is."""
    return format_bytes(value) if unit == "bytes" else f"{value:.4g} {unit}"


class MakespanReport(Reporting[MakespanProblem, MakespanPlan, MakespanEvaluation]):
    """Devices with what they run and move, a Gantt chart in text, and the critical path."""

    doing = "scheduling"

    def sentences(self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation) -> Sequence[str]:
        names, spent = _critical(problem, plan)
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
        self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation
    ) -> Sequence[RenderableType]:
        return [_devices(problem, plan, evaluation), _gantt(schedule_timeline(problem, plan))]

    def stages(
        self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation
    ) -> Sequence[StageSummary]:
        """Every device that runs something."""
        on: dict[int, list[int]] = {}
        for identity, placed in plan.operators.items():
            on.setdefault(placed.device, []).append(identity)
        modules = _part_modules(problem, plan, {op.id: op.module for op in problem.operators if op.module})
        labels = device_labels([device.name for device in problem.devices])
        in_bytes = problem.memory_unit == "bytes"
        return [
            StageSummary(
                number=number,
                device=labels[number],
                operators=tuple(sorted(on[number])),
                modules=tuple(shortened(modules[number])),
                time=evaluation.busy[number],
                compute=evaluation.busy[number],
                memory_bytes=evaluation.memory[number] if in_bytes else None,
                memory_limit_bytes=problem.devices[number].memory if in_bytes else None,
            )
            for number in sorted(on)
        ]

    def operators(
        self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation
    ) -> Sequence[OperatorPlace]:
        """With the time at which each runs, and their memory if that is bytes."""
        labels = device_labels([device.name for device in problem.devices])
        found = []
        for op in problem.operators:
            placed = plan.operators[op.id]
            found.append(
                OperatorPlace(
                    id=op.id,
                    name=op.name or op.label,
                    module=op.module,
                    stage=placed.device,
                    device=labels[placed.device],
                    start=placed.start,
                    end=placed.end,
                    time=op.times[placed.device],
                    memory_bytes=op.memory if problem.memory_unit == "bytes" else None,
                )
            )
        return found

    def figures(
        self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation
    ) -> Mapping[str, str]:
        used = len({placed.device for placed in plan.operators.values()})
        return {"devices": str(used), "flows moved": str(len(plan.flows))}

    def step(self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation) -> float | None:
        """One sample is the batch."""
        return float(evaluation.objective)

    def verdict(self, problem: MakespanProblem, evaluation: MakespanEvaluation) -> dict[str, Any]:
        return {"memory": list(evaluation.memory), "busy": list(evaluation.busy)}

    def result_document(self, result: Result[MakespanProblem, MakespanPlan, MakespanEvaluation]) -> dict[str, Any]:
        if result.plan is None:
            return {"critical_path": None}
        names, spent = _critical(result.problem, result.plan)
        fused = {str(op.id): list(op.members) for op in result.problem.operators if op.members}
        return {
            "critical_path": {
                "slices": names,
                "operators": spent.by_sort.get(SORTS[OPERATOR].name, 0.0),
                "transfers": spent.by_sort.get(SORTS[TRANSFER].name, 0.0),
                "waiting": spent.waiting,
            },
            **({"fused": fused} if fused else {}),
        }

    def answer_document(self, answer: ModelPlan[MakespanProblem], document: dict[str, Any]) -> None:
        """What each device runs, and the critical path in parts."""
        problem, result = answer.problem, answer.result
        if result.plan is None or result.evaluation is None:
            return
        modules, cluster = _modules(answer), answer.cluster
        parts = _part_modules(problem, result.plan, modules)
        document["plan"]["devices"] = [
            {
                "name": device.name,
                "kind": "accelerator" if cluster.devices[spec].accelerator else "cpu",
                "operators": [v for v in modules if result.plan.operators[v].device == place],
                "modules": list(own.complete),
                "partial_modules": list(own.partial),
                "busy": result.evaluation.busy[place],
                "memory_bytes": result.evaluation.memory[place],
            }
            for place, (device, spec, own) in enumerate(
                zip(problem.devices, cluster.device_names(), parts, strict=True)
            )
        ]
        timeline = schedule_timeline(problem, result.plan)
        document["critical_path"]["parts"] = [
            part.document() for part in path_parts(problem, result.plan, timeline, modules)
        ]

    def answer_tables(self, answer: ModelPlan[MakespanProblem]) -> Sequence[RenderableType]:
        """The model, what each device runs, the Gantt chart, and the critical path."""
        problem, result = answer.problem, answer.result
        shown: list[RenderableType] = [model_sentence(answer.graph), *network_sentences(answer.cluster)]
        if result.plan is not None and result.evaluation is not None:
            modules, timeline = _modules(answer), schedule_timeline(problem, result.plan)
            parts = _part_modules(problem, result.plan, modules)
            shown += [
                _devices(problem, result.plan, result.evaluation, modules, parts),
                _gantt(timeline),
                path_table(problem, path_parts(problem, result.plan, timeline, modules)),
            ]
            simpler = _simpler(answer)
            if simpler is not None:
                shown.append(simpler + "\n")
        return shown


def _simpler(answer: ModelPlan[MakespanProblem]) -> str | None:
    """A baseline that takes little longer and moves far less, in words: times are estimates."""
    result = answer.result
    if result.plan is None or result.objective is None or not result.plan.flows:
        return None
    moved = len(result.plan.flows)
    near = [
        (len(row.plan.flows), row.evaluation.objective, row.name)
        for row in answer.baselines
        if row.evaluation is not None
        and row.evaluation.feasible
        and row.evaluation.objective <= (1 + _NEARLY) * result.objective
        and 2 * len(row.plan.flows) <= moved
    ]
    if not near:
        return None
    flows, time, name = min(near)
    more = time / result.objective - 1
    return f"Simpler: {name} takes {more:.1%} longer and moves {flows} tensors instead of {moved}."


def _critical(problem: MakespanProblem, plan: MakespanPlan) -> tuple[list[str], CriticalSummary]:
    """The slices of the critical path, and what it consists of."""
    timeline = schedule_timeline(problem, plan)
    path = critical_path(timeline)
    return [timeline.label(place) for place in path], critical_summary(timeline, path)


def _modules(answer: ModelPlan[MakespanProblem]) -> dict[int, str]:
    """The module of every operator of the model that is scheduled, by id."""
    operators = answer.graph.operators
    return {op.id: operators[op.id].module for op in answer.problem.operators if op.id < len(operators)}


def _part_modules(problem: MakespanProblem, plan: MakespanPlan, modules: Mapping[int, str]) -> list[PartModules]:
    """What every device runs, in modules."""
    return part_modules(((plan.operators[v].device, module) for v, module in modules.items()), len(problem.devices))


def _gantt(timeline: Timeline) -> RenderableType:
    from rich.text import Text

    return Text("\n".join(gantt_lines(timeline, streams=True)) + "\n", no_wrap=True)


def _devices(
    problem: MakespanProblem,
    plan: MakespanPlan,
    evaluation: MakespanEvaluation,
    counted: Collection[int] | None = None,
    modules: Sequence[PartModules] = (),
) -> Table:
    """One row per device: operators, how long it works, sends and receives, what it holds, and modules if given.

    Operators are counted, and of a model's plan only those that the model has.
    """
    table = new_table("Devices", ("#", "operators", "busy", "of makespan", "sends", "receives", "memory"), "device")
    if modules:
        table.columns[-1].no_wrap, table.columns[-1].ratio = True, None
        table.add_column("modules", overflow="fold", ratio=1)
    for place, device in enumerate(problem.devices):
        count = sum(
            placed.device == place and (counted is None or v in counted) for v, placed in plan.operators.items()
        )
        sends = sum(sent.end - sent.start for sent in plan.flows.values() if sent.source == place)
        receives = sum(sent.end - sent.start for sent in plan.flows.values() if sent.target == place)
        share = evaluation.busy[place] / evaluation.objective if evaluation.objective > 0 else 0.0
        held = memory_text(evaluation.memory[place], problem.memory_unit)
        if device.memory:
            held += f" ({evaluation.memory[place] / device.memory:.0%})"
        times = (format_time(time, problem.unit) for time in (evaluation.busy[place], sends, receives))
        busy, out, into = times
        names = [", ".join(shortened(modules[place]))] if modules else []
        table.add_row(str(place), str(count), busy, f"{share:.0%}", out, into, held, device.name, *names)
    return table


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
    chosen = sorted(sorted(range(len(parts)), key=lambda k: parts[k].start - parts[k].end)[:_PARTS])
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
