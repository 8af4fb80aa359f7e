"""The paper's greedy algorithm: accelerators filled one after the other along a topological order."""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.ground.rounding import up_to
from partita.problems.latency.groups import contracted
from partita.problems.latency.plan import on_accelerators
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver


class GreedyFill(Solver):
    """Source: NeurIPS 2020 (device placement), Appendix F, the first baseline; its result depends on the order."""

    name = "greedy fill"
    summary = "fills one accelerator after the other along a topological order; ignores times and transfers"

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        limit = up_to(problem.limit_bytes)
        sets: list[list[int]] = []
        held = 0.0
        for row in contracted(problem):
            ops = [problem.operators[v] for v in row]
            size = sum(op.memory_bytes for op in ops)
            if any(op.accelerator_time is None for op in ops):
                # The next operators may depend on this one: they are not in one piece with those before.
                if sets and sets[-1]:
                    sets.append([])
                    held = 0.0
                continue
            if size > limit:
                continue
            if not sets or held + size > limit:
                sets.append([])
                held = 0.0
            sets[-1] += [op.id for op in ops]
            held += size
        return Outcome(on_accelerators(sets[: problem.accelerators]))
