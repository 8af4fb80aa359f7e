"""Proven optimal schedules: a shortest path over separators and their devices, its arcs solved as they are needed.

The makespan of a chain of blocks (``partita.problems.makespan.separators``) is the length of a path: one node for each
device of each separator, an arc as long as the best makespan of the block between two nodes. Arcs are known from below
(chains and work inside the block, then CP-SAT) and from above (annealing, then CP-SAT). The shortest path by the lower
ends bounds the problem; arcs on it are solved until its lower and upper lengths agree, and each only as far as it could
still be part of a better path. So most arcs are never solved.

Where memory or classes couple the blocks so that no path that short keeps them, the path stays a bound, and one model
of the whole problem is left to find and prove the rest. Without separators that is all there is.
"""

from __future__ import annotations

import math

from partita.mip.schedule import schedule_refusal
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.local_search import search
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.separators import chain_of
from partita.problems.makespan.solvers.outcome import outcome_of
from partita.problems.makespan.solvers.path import ShortestPath
from partita.problems.makespan.solvers.program import prove_by_program
from partita.problems.makespan.solvers.protocol import Options, Outcome, Solver
from partita.run.background import run_in_background
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

#: Rounds of annealing of the whole problem at the start: as many as this many operators leave one, within limits.
_OPERATORS, _FEWEST, _MOST = 2500, 4, 16


class MakespanExact(Solver):
    """Exact where separators leave small blocks, or the problem is small; otherwise plan and bound so far."""

    name = "exact"
    summary = "plans with proof: separators cut the problem into blocks, CP-SAT solves those that matter"

    def supports(self, problem: MakespanProblem, options: Options) -> str | None:
        return schedule_refusal()

    def solve(self, problem: MakespanProblem, options: Options, monitor: Monitor) -> Outcome:
        run = _Exact(problem, options, monitor)
        run_in_background(run.best, monitor, run.work)
        return outcome_of(run.best)


class _Exact:
    """One run; ``work`` runs in a worker thread."""

    def __init__(self, problem: MakespanProblem, options: Options, monitor: Monitor) -> None:
        self.problem, self.options, self.monitor = problem, options, monitor
        self.best: Incumbent[Schedule] = Incumbent()

    def work(self) -> None:
        best, options = self.best, self.options
        instance = build_instance(self.problem)
        value = simple_bound(instance)
        if math.isinf(value):
            best.refute("devices of classes")
            return
        best.prove(value, "simple bounds")
        rounds = min(_MOST, max(_FEWEST, _OPERATORS // instance.count))
        search(instance, best, seed=options.seed, rounds=rounds)
        if best.done:
            return
        chain = chain_of(instance)
        best.counters |= {"separators": len(chain.separators), "blocks": sum(bool(b.members) for b in chain.blocks)}
        if chain.helps:
            ShortestPath(chain, best, options, self.monitor).close()
        if not best.done:
            left = self.monitor.remaining_s
            time_s = None if math.isinf(left) else left
            prove_by_program(instance, best, lambda: best.done, time_s=time_s, options=options)
