"""What a latency plan is worth, and the best one, written down once more: slowly, and apart from the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem

__all__ = ["best_latency", "judge", "latency_of"]


def latency_of(problem: LatencyProblem, rows: list[list[set[int]]]) -> float:
    """The latency of pieces per accelerator in the order in which they run; infinite if they wait in a circle.

    Ends are raised until nothing changes; with a circle they never stop rising, or rise without end.
    """
    ops = {op.id: op for op in problem.operators}
    piece_of = {v: (d, i) for d, row in enumerate(rows) for i, piece in enumerate(row) for v in piece}
    waits: dict[object, set[object]] = {}
    time: dict[object, float] = {}
    for v, op in ops.items():
        if v not in piece_of:
            waits[v] = {piece_of.get(u, u) for u, w in problem.edges if w == v}
            time[v] = op.cpu_time
    for d, row in enumerate(rows):
        for i, piece in enumerate(row):
            read = {u for u, v in problem.edges if v in piece and u not in piece}
            sent = {u for u, v in problem.edges if u in piece and v not in piece}
            waits[d, i] = {piece_of.get(u, u) for u in read} | ({(d, i - 1)} if i else set())
            time[d, i] = sum(ops[u].transfer_time for u in read | sent)
            time[d, i] += sum(math.inf if (t := ops[v].accelerator_time) is None else t for v in piece)
    end: dict[object, float] = {}
    while len(end) < len(waits):
        ready = [x for x in waits if x not in end and waits[x] <= end.keys()]
        if not ready:
            return math.inf
        for x in ready:
            end[x] = max([0.0, *(end[y] for y in waits[x])]) + time[x]
    return max(end.values())


def judge(problem: LatencyProblem, plan: LatencyPlan) -> tuple[float, bool]:
    """Latency of a plan whose pieces are cut, and whether it keeps every limit."""
    ops = {op.id: op for op in problem.operators}
    rows = [[set(piece) for piece in row] for row in plan.accelerators]
    limit = math.inf if problem.memory_bytes is None else problem.memory_bytes
    fine = sum(1 for row in rows if row) <= problem.accelerators and not any(rows[problem.accelerators :])
    for row in rows:
        fine &= sum(ops[v].memory_bytes for piece in row for v in piece) <= limit * (1 + 1e-9)
        for backward in (False, True):
            fine &= sum(any(ops[v].backward == backward for v in piece) for piece in row) <= problem.pieces
        fine &= all(len({ops[v].backward for v in piece}) == 1 for piece in row)
        fine &= all(ops[v].accelerator_time is not None for piece in row for v in piece)
    device = {v: d for d, row in enumerate(rows) for piece in row for v in piece}
    for a, b in itertools.combinations(problem.operators, 2):
        if a.colocation is not None and a.colocation == b.colocation:
            fine &= device.get(a.id) == device.get(b.id)
    value = latency_of(problem, rows)
    return value, bool(fine) and value < math.inf


def _placements(problem: LatencyProblem) -> Iterator[list[list[list[int]]]]:
    """Every way to put operators into numbered pieces of accelerators, up to the names of both."""
    ops = problem.operators
    rows: list[list[list[int]]] = []

    def place(number: int) -> Iterator[list[list[list[int]]]]:
        if number == len(ops):
            yield rows
            return
        op = ops[number]
        yield from place(number + 1)
        if op.accelerator_time is None:
            return
        for row in rows:
            for piece in row:
                if next(o for o in ops if o.id == piece[0]).backward == op.backward:
                    piece.append(op.id)
                    yield from place(number + 1)
                    piece.pop()
            alike = sum(next(o for o in ops if o.id == piece[0]).backward == op.backward for piece in row)
            if alike < problem.pieces:
                row.append([op.id])
                yield from place(number + 1)
                row.pop()
        if len(rows) < problem.accelerators:
            rows.append([[op.id]])
            yield from place(number + 1)
            rows.pop()

    yield from place(0)


def best_latency(problem: LatencyProblem) -> float:
    """By trying everything, with every order of the pieces on each accelerator."""
    ops = {op.id: op for op in problem.operators}
    limit = math.inf if problem.memory_bytes is None else problem.memory_bytes
    classes: dict[int, list[int]] = {}
    for op in problem.operators:
        if op.colocation is not None:
            classes.setdefault(op.colocation, []).append(op.id)
    best = math.inf
    for rows in _placements(problem):
        if any(sum(ops[v].memory_bytes for p in row for v in p) > limit * (1 + 1e-9) for row in rows):
            continue
        device = {v: d for d, row in enumerate(rows) for p in row for v in p}
        if any(len({device.get(v, -1) for v in members}) > 1 for members in classes.values()):
            continue
        for orders in itertools.product(*(itertools.permutations(row) for row in rows)):
            best = min(best, latency_of(problem, [[set(p) for p in row] for row in orders]))
    return best
