"""A plan made for throughput, judged by its latency: contiguous pieces along an order, the most loaded one least."""

from __future__ import annotations

import math

from partita.problems.latency.groups import contracted
from partita.problems.latency.plan import on_accelerators, readers_of
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver
from partita.rounding import up_to
from partita.run.monitor import Monitor


class MaxLoad(Solver):
    """Source: NeurIPS 2020 (device placement), Appendix F, the second baseline.

    The paper takes the best split over all ideals; this takes the best along one topological order (the paper's
    linearisation, §5.1.2). Several splits reach the same largest load, with latencies up to 12 % apart.
    """

    name = "max-load split"
    summary = "pieces along one order with the least largest load, as for throughput; ignores what waits for what"

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        rows = contracted(problem)
        most, groups = problem.accelerators, len(rows)
        of = {v: g for g, row in enumerate(rows) for v in row}
        before, after = readers_of(problem)
        operators, limit = problem.operators, up_to(problem.limit_bytes)
        last = [max((of[w] for w in after[v]), default=-1) for v in range(len(operators))]
        inf = math.inf
        best = [[inf] * (groups + 1) for _ in range(most + 1)]
        came = [[-2] * (groups + 1) for _ in range(most + 1)]
        best[0][0] = 0.0
        for left in range(groups):
            if monitor.stopping:
                return Outcome(None, reason="it was stopped before it had a plan")
            alone = max((operators[v].accelerator_time is None for v in rows[left]), default=False)
            # One CPU takes what no accelerator runs, whatever its load.
            for j in range(most + 1 if alone else 0):
                if best[j][left] < best[j][left + 1]:
                    best[j][left + 1], came[j][left + 1] = best[j][left], -1
            work = held = out = into = 0.0
            inside: set[int] = set()
            outside: set[int] = set()
            for right in range(left, groups):
                for v in rows[right]:
                    op = operators[v]
                    work += inf if op.accelerator_time is None else op.accelerator_time
                    held += op.memory_bytes
                    inside.add(v)
                if work == inf or held > limit:
                    break
                for v in rows[right]:
                    op = operators[v]
                    if last[v] > right:
                        out += op.transfer_time
                    for u in before[v]:
                        if u not in inside and u not in outside:
                            outside.add(u)
                            into += operators[u].transfer_time
                out -= sum(
                    operators[u].transfer_time
                    for u in {u for v in rows[right] for u in before[v]}
                    if u in inside and of[u] < right and last[u] == right
                )
                load = work + out + into
                for j in range(most):
                    value = max(best[j][left], load)
                    if value < best[j + 1][right + 1]:
                        best[j + 1][right + 1], came[j + 1][right + 1] = value, left
        j = min(range(most + 1), key=lambda i: best[i][groups])
        if best[j][groups] == inf:
            return Outcome(None, reason="no split along its order keeps every limit")
        sets: list[list[int]] = []
        at = groups
        while at > 0:
            left = came[j][at]
            if left == -1:
                at -= 1
                continue
            sets.append([operators[v].id for row in rows[left:at] for v in row])
            j, at = j - 1, left
        return Outcome(on_accelerators(sets[::-1]))
