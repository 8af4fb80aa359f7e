"""The best makespan by trying every device of every operator and every order of what runs and what is moved."""

from __future__ import annotations

import itertools
import math

from partita.ground.rounding import leq
from partita.problems.makespan.problem import MakespanProblem

__all__ = ["best_makespan"]


def best_makespan(problem: MakespanProblem) -> float | None:
    """None if no way to place the operators keeps the limits."""
    best, found = math.inf, False
    devices = range(len(problem.devices))
    for homes in itertools.product(devices, repeat=len(problem.operators)):
        home = {op.id: d for op, d in zip(problem.operators, homes, strict=True)}
        if not _allowed(problem, home):
            continue
        found = True
        best = min(best, _Orders(problem, home, best).run())
    return best if found else None


def _allowed(problem: MakespanProblem, home: dict[int, int]) -> bool:
    classes: dict[int, int] = {}
    held = [0.0] * len(problem.devices)
    for op in problem.operators:
        if op.times[home[op.id]] is None:
            return False
        if op.colocation is not None and classes.setdefault(op.colocation, home[op.id]) != home[op.id]:
            return False
        held[home[op.id]] += op.memory
    return all(d.memory is None or leq(h, d.memory) for d, h in zip(problem.devices, held, strict=True))


class _Orders:
    """Every order of tasks by their starts, each as early as what went before it allows.

    A best schedule whose tasks are all as early as its order allows is met: taken by their starts, tasks start never
    before the one before.
    """

    def __init__(self, problem: MakespanProblem, home: dict[int, int], best: float) -> None:
        self.best = best
        self.length: dict[object, float] = {op.id: op.times[home[op.id]] or 0.0 for op in problem.operators}
        self.uses: dict[object, list[object]] = {
            op.id: [("runs", home[op.id])] if problem.serial_operators else [] for op in problem.operators
        }
        self.before: dict[object, list[object]] = {op.id: [] for op in problem.operators}
        for source, target in problem.precedence:
            self.before[target].append(source)
        for flow in problem.flows:
            a, b = home[flow.source], home[flow.target]
            if a == b:
                self.before[flow.target].append(flow.source)
                continue
            task = ("flow", flow.id)
            self.length[task] = flow.times[a][b]
            self.uses[task] = [("out", a)] * problem.sender_congestion + [("in", b)] * problem.receiver_congestion
            self.before[task] = [flow.source]
            self.before[flow.target].append(task)
        self.rest: dict[object, float] = {}
        for task in self.length:
            self._rest(task)

    def _rest(self, task: object) -> float:
        """The longest chain from the start of a task to the end."""
        if task not in self.rest:
            after = [self._rest(other) for other, before in self.before.items() if task in before]
            self.rest[task] = self.length[task] + max(after, default=0.0)
        return self.rest[task]

    def run(self) -> float:
        self._extend({}, {}, 0.0)
        return self.best

    def _extend(self, end: dict[object, float], free: dict[object, float], last: float) -> None:
        if len(end) == len(self.length):
            self.best = min(self.best, max(end.values()))
            return
        starts = {}
        for task, before in self.before.items():
            if task in end:
                continue
            at = max([0.0, *(end.get(b, 0.0) for b in before), *(free.get(use, 0.0) for use in self.uses[task])])
            if max(at, last) + self.rest[task] >= self.best:
                return
            if at >= last and all(b in end for b in before):
                starts[task] = at
        for task, at in starts.items():
            done = at + self.length[task]
            self._extend({**end, task: done}, {**free, **dict.fromkeys(self.uses[task], done)}, at)
