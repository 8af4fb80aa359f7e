"""What happens when a schedule runs: every device and every link does what it was given, in the order of its starts.

Nothing waits for its planned start: where a schedule leaves time unused, the time line is shorter.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from partita.problems.facets.timeline import RunRequest, TimeLine, one_sample, refuse_schedules
from partita.problems.makespan.evaluate import MakespanEvaluation
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.simulator.program import Order, Place, Program, Step
from partita.simulator.timeline import OPERATOR, TRANSFER


class MakespanTimeLine(TimeLine[MakespanProblem, Schedule, MakespanEvaluation]):
    """One sample, with the devices and the orders of the plan."""

    def program(
        self, problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation, request: RunRequest
    ) -> Program:
        refuse_schedules(problem.name, "a makespan plan is itself the schedule of one sample", request)
        names = device_names(problem)
        count = len(names)
        places = [
            Place(
                name=name,
                replicas=((name,),),
                parallel=not problem.serial_operators,
                memory={"operators": held} if problem.memory_unit == "bytes" else {},
                limit=device.memory if problem.memory_unit == "bytes" else None,
            )
            for name, device, held in zip(names, problem.devices, evaluation.memory, strict=True)
        ]
        places += [Place(name=f"out of {name}", parallel=not problem.sender_congestion) for name in names]
        place_of = {op.id: number for number, op in enumerate(problem.operators)}
        steps = [
            Step(at.device, -1, "F", OPERATOR, op.times[at.device] or 0.0, name=op.label)
            for op in problem.operators
            for at in (plan.operators[op.id],)
        ]
        edges = [(place_of[a], place_of[b]) for a, b in problem.precedence]
        labels = problem.flow_labels()
        leaving: dict[int, list[tuple[float, float, int, int]]] = {}
        entering: dict[int, list[tuple[float, float, int, int]]] = {}
        rank, rank_of_flow = problem.ranks()
        for flow in problem.flows:
            source, target = place_of[flow.source], place_of[flow.target]
            sent = plan.flows.get(flow.id)
            if sent is None:
                edges.append((source, target))
                continue
            label = f"{labels[flow.id]}, {names[sent.source]} → {names[sent.target]}"
            time = flow.times[sent.source][sent.target]
            edges += [(source, len(steps)), (len(steps), target)]
            entry = (sent.start, sent.end, rank_of_flow[flow.id], len(steps))
            leaving.setdefault(sent.source, []).append(entry)
            entering.setdefault(sent.target, []).append(entry)
            steps.append(Step(count + sent.source, -1, "=", TRANSFER, time, outward=True, name=label))
        if problem.sender_congestion:
            edges += _in_a_row(leaving)
        if problem.receiver_congestion:
            edges += _in_a_row(entering)
        orders = []
        for device in range(count if problem.serial_operators else 0):
            numbers = ((at, place_of[identity]) for identity, at in plan.operators.items() if at.device == device)
            mine = sorted((at.start, at.end, rank[number], number) for at, number in numbers)
            row = np.array([number for *_, number in mine], dtype=np.int64)
            orders.append(Order(device, 0, row, np.zeros(len(row), dtype=np.int64)))
        return one_sample(problem.name, problem.unit, places, steps, sorted(set(edges)), orders)

    def expected(
        self, problem: MakespanProblem, plan: Schedule, evaluation: MakespanEvaluation, program: Program
    ) -> Mapping[str, float]:
        return {"the makespan": evaluation.objective}

    def holdings(
        self, problem: MakespanProblem, plan: Schedule, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Operators with what they take of the device."""
        return [(op.label, op.memory, False) for op in problem.operators if plan.operators[op.id].device == place]


def device_names(problem: MakespanProblem) -> list[str]:
    """A name for each device that is no other one's."""
    names = [device.name for device in problem.devices]
    return [name if names.count(name) == 1 else f"{name}:{number}" for number, name in enumerate(names)]


def _in_a_row(rows: Mapping[int, list[tuple[float, float, int, int]]]) -> list[tuple[int, int]]:
    """Pairs of steps of which the second has to wait for the first, by what they share."""
    return [(a, b) for row in rows.values() for (*_, a), (*_, b) in itertools.pairwise(sorted(row))]
