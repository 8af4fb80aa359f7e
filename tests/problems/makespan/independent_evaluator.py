"""A second judge of schedules, written from the definition alone: every pair is compared with every other."""

from __future__ import annotations

import itertools

from partita.problems.makespan.problem import MakespanPlan, MakespanProblem

__all__ = ["judge"]

CLOSE = 1e-7


def judge(problem: MakespanProblem, plan: MakespanPlan) -> tuple[float, bool]:
    """The end of the last operator, and whether anything is broken."""
    operators = {op.id: op for op in problem.operators}
    size = max([1.0, *(placed.end for placed in plan.operators.values())]) * CLOSE

    def apart(a: tuple[float, float], b: tuple[float, float]) -> bool:
        return a[1] <= b[0] + size or b[1] <= a[0] + size

    broken = False
    for identity, placed in plan.operators.items():
        time = operators[identity].times[placed.device]
        broken |= time is None or placed.start < 0 or abs(placed.start + time - placed.end) > size
    for d, device in enumerate(problem.devices):
        here = [(p.start, p.end) for p in plan.operators.values() if p.device == d]
        out = [(s.start, s.end) for s in plan.flows.values() if s.source == d]
        into = [(s.start, s.end) for s in plan.flows.values() if s.target == d]
        switches = (problem.serial_operators, problem.sender_congestion, problem.receiver_congestion)
        for row, asked in zip((here, out, into), switches, strict=True):
            broken |= asked and any(not apart(a, b) for a, b in itertools.combinations(row, 2))
        held = sum(operators[v].memory for v, p in plan.operators.items() if p.device == d)
        broken |= device.memory is not None and held > device.memory * (1 + CLOSE)
    for before, after in problem.precedence:
        broken |= plan.operators[before].end > plan.operators[after].start + size
    for flow in problem.flows:
        source, target = plan.operators[flow.source], plan.operators[flow.target]
        sent = plan.flows.get(flow.id)
        if source.device == target.device:
            broken |= sent is not None or source.end > target.start + size
            continue
        if sent is None:
            broken = True
            continue
        broken |= (sent.source, sent.target) != (source.device, target.device)
        broken |= abs(sent.start + flow.times[source.device][target.device] - sent.end) > size
        broken |= source.end > sent.start + size or sent.end > target.start + size
    for a, b in itertools.combinations(problem.operators, 2):
        if a.colocation is not None and a.colocation == b.colocation:
            broken |= plan.operators[a.id].device != plan.operators[b.id].device
    return max(placed.end for placed in plan.operators.values()), bool(broken)
