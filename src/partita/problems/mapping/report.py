"""A mapping for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.documents.tables.text import new_table
from partita.ground.units import format_time
from partita.nouns.topology.counted import CountedLinks
from partita.nouns.topology.topology import Topology
from partita.problems.facets.records import OperatorPlace, StageSummary
from partita.problems.facets.report import Reporting
from partita.problems.mapping.evaluate import MappingEvaluation, ReplicaLoad, evaluate
from partita.problems.mapping.instance import MappingReplicas, bandwidths
from partita.problems.mapping.orders import chains, consecutive
from partita.problems.mapping.problem import MappingProblem, Placement
from partita.problems.mapping.timeline import simulated_step

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

#: Devices of a stage that are written out.
_LISTED = 16
#: What a replica takes, term by term.
_TERMS = ("compute", "point-to-point", "all-reduce")


class MappingReport(Reporting[MappingProblem, Placement, MappingEvaluation]):
    """Stages with their devices and their slowest replica, the critical link, and the orders that people take."""

    doing = "mapping"

    def sentences(self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> Sequence[str]:
        s, r = evaluation.critical
        own, moved, reduced = _times(evaluation.loads[s][r], problem.unit)
        found = [
            f"the slowest is replica {r} of stage {s} ({problem.stages[s].name}) on "
            f"{problem.device_name(plan.placement[s][r])}: {own} of its own, {moved} of transfers, {reduced} of "
            "all-reduce"
        ]
        link = critical_link(problem, plan, evaluation)
        if link is not None:
            found.append(
                f"its critical link leads to {problem.device_name(link['to'])} ({link['what']}): "
                f"{format_time(link['time'], problem.unit)} at {link['bandwidth_bytes_per_s'] / 1e9:.4g} GB/s"
            )
        return found

    def tables(
        self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation
    ) -> Sequence[RenderableType]:
        return [_stages(problem, plan, evaluation), _beside(problem, evaluation)]

    def stages(self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> Sequence[StageSummary]:
        """Every stage with the devices of its replicas, and what the slowest of these takes."""
        found = []
        for number, (row, loads) in enumerate(zip(plan.placement, evaluation.loads, strict=True)):
            worst = max(loads, key=lambda load: load.total)
            found.append(
                StageSummary(
                    number=number,
                    device=problem.stages[number].name,
                    devices=tuple(problem.device_name(device) for device in row),
                    device_count=len(row),
                    data_parallel=len(row),
                    time=worst.total,
                    compute=worst.compute,
                    communication=worst.total - worst.compute,
                )
            )
        return found

    def operators(
        self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation
    ) -> Sequence[OperatorPlace]:
        """Stages with their devices, and their own time on the first of them."""
        found = []
        for number, (stage, devices) in enumerate(zip(problem.stages, plan.placement, strict=True)):
            names = [problem.device_name(device) for device in devices]
            more = f" … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            found.append(
                OperatorPlace(
                    id=number,
                    name=stage.name,
                    stage=number,
                    device=", ".join(names[:_LISTED]) + more,
                    time=stage.time_s if stage.times_s is None else stage.times_s[devices[0]],
                )
            )
        return found

    def topology(self, problem: MappingProblem, plan: Placement) -> tuple[Topology, dict[int, str]]:
        """Devices by their bandwidths, in one machine where nothing is said of several."""
        count, links = problem.device_count, bandwidths(problem)
        found = Topology(
            name=problem.name,
            names=problem.devices or tuple(problem.device_name(device) for device in range(count)),
            bandwidth_bytes_per_s=links,
            machine_of=tuple(links.machine_of.tolist()) if isinstance(links, CountedLinks) else (0,) * count,
        )
        return found, {device: str(stage) for stage, row in enumerate(plan.placement) for device in row}

    def figures(self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> Mapping[str, str]:
        s, r = evaluation.critical
        return dict(zip(_TERMS, _times(evaluation.loads[s][r], problem.unit), strict=True))

    def step(self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> float | None:
        return simulated_step(problem, plan)

    def verdict(self, problem: MappingProblem, evaluation: MappingEvaluation) -> dict[str, Any]:
        s, r = evaluation.critical
        return {"critical": {"stage": s, "replica": r, **msgspec.structs.asdict(evaluation.loads[s][r])}}

    def result_document(self, result: Any) -> dict[str, Any]:
        if result.plan is None or result.evaluation is None:
            return {"critical": None}
        problem, plan, evaluation = result.problem, result.plan, result.evaluation
        critical = self.verdict(problem, evaluation)["critical"]
        s, r = evaluation.critical
        return {
            "critical": {
                **critical,
                "device": plan.placement[s][r],
                "device_name": problem.device_name(plan.placement[s][r]),
                "link": critical_link(problem, plan, evaluation),
            }
        }


def critical_link(problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> dict[str, Any] | None:
    """The link on which the slowest replica spends most time; None if it exchanges nothing."""
    s, r = evaluation.critical
    device, count = plan.placement[s][r], len(plan.placement[s])
    found: list[tuple[float, int, str]] = []
    for other, q, size in problem.exchanges()[s][r]:
        end = plan.placement[other][q]
        found.append((size / problem.link(device, end), end, f"transfers with stage {other}"))
    if count > 1 and problem.form != "point-to-point":
        beside = (plan.placement[s][(r + step) % count] for step in (1, -1))
        end = min(beside, key=lambda other: problem.link(device, other))
        found.append((evaluation.loads[s][r].all_reduce, end, "all-reduce"))
    spent: dict[tuple[int, str], float] = {}
    for time, end, what in found:
        spent[end, what] = spent.get((end, what), 0.0) + time
    if not spent or max(spent.values()) == 0:
        return None
    (end, what), time = max(spent.items(), key=lambda item: item[1])
    return {"to": end, "what": what, "time": time, "bandwidth_bytes_per_s": problem.link(device, end)}


def _times(load: ReplicaLoad, unit: str) -> list[str]:
    """The terms of a load in words."""
    return [format_time(time, unit) for time in msgspec.structs.astuple(load)]


def _stages(problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> Table:
    """One row per stage: its slowest replica, and the devices."""
    figures = ("#", "stage", "slowest", "of objective", *_TERMS)
    table = new_table("Stages", figures, "devices")
    for s, (stage, row) in enumerate(zip(problem.stages, evaluation.loads, strict=True)):
        worst = max(row, key=lambda load: load.total)
        slowest, parts = format_time(worst.total, problem.unit), _times(worst, problem.unit)
        share = worst.total / evaluation.objective if evaluation.objective > 0 else 0.0
        devices = plan.placement[s]
        named = [problem.device_name(d).removeprefix("device ") for d in devices[:_LISTED]]
        more = f" … {len(devices) - _LISTED} more" if len(devices) > _LISTED else ""
        table.add_row(str(s), stage.name, slowest, f"{share:.0%}", *parts, ", ".join(named) + more)
    return table


def _beside(problem: MappingProblem, evaluation: MappingEvaluation) -> Table:
    """What the orders that people take are worth."""
    instance = MappingReplicas(problem)
    table = new_table("Beside it", ("objective", "against the plan"), "mapping", _TERMS)
    rows = [("this plan", evaluation)]
    for name, order in (("consecutive", consecutive(instance)), ("point-to-point-first", chains(instance))):
        rows.append((name, evaluate(problem, instance.plan(order))))
    for name, found in rows:
        s, r = found.critical
        times = _times(found.loads[s][r], problem.unit)
        against = found.objective / evaluation.objective if evaluation.objective > 0 else 1.0
        table.add_row(format_time(found.objective, problem.unit), f"×{against:.3f}", name, *times)
    return table
