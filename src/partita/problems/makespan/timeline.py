"""What happens when a schedule runs: every device and every link does what it was given, in the order of its starts.

Nothing waits for its planned start: where a schedule leaves time unused, the time line is shorter. What is shown of a
schedule by itself (``schedule_timeline``) keeps its starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from partita.problems.facets.timeline import RunRequest, TimeLine, one_sample, refuse_schedules
from partita.problems.makespan.evaluate import MakespanEvaluation
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem, device_labels
from partita.simulator.fixed import Span, fixed_timeline
from partita.simulator.program import Order, Place, Program, Step
from partita.simulator.timeline import OPERATOR, TRANSFER, Lane, Timeline


class MakespanTimeLine(TimeLine[MakespanProblem, MakespanPlan, MakespanEvaluation]):
    """One sample, with the devices and the orders of the plan."""

    def program(
        self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation, request: RunRequest
    ) -> Program:
        refuse_schedules(problem.name, "a makespan plan is itself the schedule of one sample", request)
        names = device_labels([device.name for device in problem.devices])
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
        moved: dict[int, int] = {}
        for flow in problem.flows:
            source, target = place_of[flow.source], place_of[flow.target]
            sent = plan.flows.get(flow.id)
            if sent is None:
                edges.append((source, target))
                continue
            label = f"{labels[flow.id]}, {names[sent.source]} → {names[sent.target]}"
            time = flow.times[sent.source][sent.target]
            edges += [(source, len(steps)), (len(steps), target)]
            moved[flow.id] = len(steps)
            steps.append(Step(count + sent.source, -1, "=", TRANSFER, time, outward=True, name=label))
        turns = turns_of(problem, plan, moved)
        edges += [pair for (kind, _), row in turns.items() if kind for pair in itertools.pairwise(row)]
        rows = [np.array(turns.get((0, device), ()), dtype=np.int64) for device in range(count)]
        orders = [
            Order(device, 0, row, np.zeros(len(row), dtype=np.int64))
            for device, row in enumerate(rows if problem.serial_operators else ())
        ]
        return one_sample(problem.name, problem.unit, places, steps, sorted(set(edges)), orders)

    def expected(
        self, problem: MakespanProblem, plan: MakespanPlan, evaluation: MakespanEvaluation, program: Program
    ) -> Mapping[str, float]:
        return {"the makespan": evaluation.objective}

    def holdings(
        self, problem: MakespanProblem, plan: MakespanPlan, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Operators with what they take of the device."""
        return [(op.label, op.memory, False) for op in problem.operators if plan.operators[op.id].device == place]


def turns_of(
    problem: MakespanProblem, plan: MakespanPlan, moved: Mapping[int, int]
) -> dict[tuple[int, int], list[int]]:
    """By row and device what takes turns there, in order: operators (0), flows that leave it (1) and enter it (2).

    Operators are called by their places, flows by the numbers that ``moved`` has by id. Rows whose entries do not
    exclude each other are left out.
    """
    serial = problem.serial_operators, problem.sender_congestion, problem.receiver_congestion
    rank, rank_of_flow = problem.ranks()
    placed = [plan.operators[op.id] for op in problem.operators]
    uses = [(0, at.device, at.start, at.end, rank[v], v) for v, at in enumerate(placed)]
    for identity, number in moved.items():
        sent = plan.flows[identity]
        for row, device in ((1, sent.source), (2, sent.target)):
            uses.append((row, device, sent.start, sent.end, rank_of_flow[identity], number))
    found: dict[tuple[int, int], list[int]] = {}
    for row, device, *_, number in sorted(use for use in uses if serial[use[0]]):
        found.setdefault((row, device), []).append(number)
    return found


def schedule_timeline(problem: MakespanProblem, plan: MakespanPlan) -> Timeline:
    """A schedule as it is: operators on their devices, flows on the outgoing side of their senders.

    A slice's cause is the operator, transfer or neighbour on its device or link that it waited for.
    Operators come first, as in the problem, then the flows that are moved.
    """
    names = [device.name for device in problem.devices]
    sides = (("compute", problem.serial_operators), ("out", problem.sender_congestion))
    lanes = [Lane(d, name, side, shared=not alone) for d, name in enumerate(names) for side, alone in sides]
    place = {op.id: number for number, op in enumerate(problem.operators)}
    moved = {flow.id: len(place) + k for k, flow in enumerate(f for f in problem.flows if f.id in plan.flows)}
    before: list[set[int]] = [set() for _ in range(len(place) + len(moved))]
    reads: list[set[int]] = [set() for _ in before]
    for source, target in problem.precedence:
        before[place[target]].add(place[source])
    for flow in problem.flows:
        u, v = place[flow.source], place[flow.target]
        if flow.id not in moved:
            before[v].add(u)
            continue
        for source, target in ((u, moved[flow.id]), (moved[flow.id], v)):
            before[target].add(source)
            reads[target].add(source)
    for row in turns_of(problem, plan, moved).values():
        for earlier, later in itertools.pairwise(row):
            before[later].add(earlier)
    links = [(tuple(sorted(waits)), tuple(sorted(read))) for waits, read in zip(before, reads, strict=True)]
    spans = []
    for number, op in enumerate(problem.operators):
        at = plan.operators[op.id]
        spans.append(Span(2 * at.device, OPERATOR, at.start, at.end, op.label, *links[number]))
    labels = problem.flow_labels()
    for identity, number in moved.items():
        sent = plan.flows[identity]
        label = f"{labels[identity]}, {names[sent.source]} → {names[sent.target]}"
        spans.append(Span(2 * sent.source + 1, TRANSFER, sent.start, sent.end, label, *links[number]))
    return fixed_timeline(problem.name, problem.unit, names, lanes, spans)
