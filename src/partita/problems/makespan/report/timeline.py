"""A schedule as a time line: operators on their devices, flows on the outgoing side of their senders."""

from __future__ import annotations

import itertools

from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.simulator.fixed import Span, fixed_timeline
from partita.simulator.timeline import OPERATOR, TRANSFER, Lane, Timeline


def schedule_timeline(problem: MakespanProblem, plan: Schedule) -> Timeline:
    """What runs when; a slice's cause is the operator, transfer or neighbour on its device or link that it waited for.

    Operators come first, as in the problem, then the flows that are moved.
    """
    names = [device.name for device in problem.devices]
    lanes: list[Lane] = []
    for d, name in enumerate(names):
        lanes.append(Lane(d, name, "compute", shared=not problem.serial_operators))
        lanes.append(Lane(d, name, "out", shared=not problem.sender_congestion))
    place = {op.id: number for number, op in enumerate(problem.operators)}
    moved = {flow.id: len(place) + k for k, flow in enumerate(f for f in problem.flows if f.id in plan.flows)}
    before: list[set[int]] = [set() for _ in range(len(place) + len(moved))]
    reads: list[set[int]] = [set() for _ in before]
    for source, target in problem.precedence:
        before[place[target]].add(place[source])
    for flow in problem.flows:
        u, v = place[flow.source], place[flow.target]
        if flow.id in moved:
            f = moved[flow.id]
            before[f].add(u)
            before[v].add(f)
            reads[f].add(u)
            reads[v].add(f)
        else:
            before[v].add(u)
    rows: dict[tuple[str, int], list[tuple[float, float, int, int]]] = {}
    rank, rank_of_flow = problem.ranks()
    for number, op in enumerate(problem.operators):
        at = plan.operators[op.id]
        if problem.serial_operators:
            rows.setdefault(("runs", at.device), []).append((at.start, at.end, rank[number], number))
    for identity, number in moved.items():
        sent = plan.flows[identity]
        entry = (sent.start, sent.end, rank_of_flow[identity], number)
        if problem.sender_congestion:
            rows.setdefault(("leaves", sent.source), []).append(entry)
        if problem.receiver_congestion:
            rows.setdefault(("enters", sent.target), []).append(entry)
    for row in rows.values():
        row.sort()
        for (*_, earlier), (*_, later) in itertools.pairwise(row):
            before[later].add(earlier)
    spans = [
        Span(
            2 * plan.operators[op.id].device,
            OPERATOR,
            plan.operators[op.id].start,
            plan.operators[op.id].end,
            op.label,
            tuple(sorted(before[number])),
            tuple(sorted(reads[number])),
        )
        for number, op in enumerate(problem.operators)
    ]
    labels = problem.flow_labels()
    for identity, number in moved.items():
        sent = plan.flows[identity]
        label = f"{labels[identity]}, {names[sent.source]} → {names[sent.target]}"
        waits, read = tuple(sorted(before[number])), tuple(sorted(reads[number]))
        spans.append(Span(2 * sent.source + 1, TRANSFER, sent.start, sent.end, label, waits, read))
    return fixed_timeline(problem.name, problem.unit, names, lanes, spans)
