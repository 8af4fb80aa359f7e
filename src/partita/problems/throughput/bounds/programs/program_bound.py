"""What all bounds by programs share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from partita.mip.solve import available, missing
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.programs.implied_by_target import Facts, facts_at
from partita.problems.throughput.bounds.programs.minmax_program import below, granularity, pool_bound, round_up
from partita.problems.throughput.bounds.programs.order_tables import MOST_ITEMS
from partita.problems.throughput.bounds.protocol import HierarchyBound
from partita.problems.throughput.bounds.simple import simple_bound
from partita.problems.throughput.problem import ThroughputProblem


class ProgramMember(HierarchyBound):
    """A bound by programs: needs HiGHS, and problems small enough for it. It says how to ``run`` them."""

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, a backend, and not too many operators."""
        reason = super().supports(problem) or missing("highs")
        if reason is None and len(problem.operators) > MOST_ITEMS:
            return f"it is for at most {MOST_ITEMS} operators, and there are {len(problem.operators)}; use `charge`"
        return reason

    def improve(self, knowledge: Knowledge, deadline_s: float | None) -> None:
        """The simple bound, then programs where it leaves them something to do."""
        began = time.monotonic()
        uniform, grain = knowledge.uniform, granularity(knowledge.uniform)
        knowledge.prove(round_up(simple_bound(uniform), grain), self.name)
        usable = available("highs") and pool_bound(uniform) > 0 and uniform.items <= MOST_ITEMS and uniform.devices > 1
        if usable and not knowledge.done:
            left = math.inf if deadline_s is None else deadline_s
            self.run(knowledge, grain, lambda: left - (time.monotonic() - began))

    def run(self, knowledge: Knowledge, grain: float, left_s: Callable[[], float]) -> None:
        """Raise the bound by programs.

        Parameters
        ----------
        knowledge
            What is known.
        grain
            ``granularity`` of the loads.
        left_s
            Seconds left; infinite without a deadline.
        """
        raise NotImplementedError

    def cutoff(self, knowledge: Knowledge, grain: float) -> float:
        """Just below the best value; what no load exceeds if there is none."""
        return below(knowledge.value, grain) if math.isfinite(knowledge.value) else pool_bound(knowledge.uniform)

    def prove(self, knowledge: Knowledge) -> Callable[[float], None]:
        """What reports bounds proven by this method."""
        return lambda bound: knowledge.prove(bound, self.name)

    def facts(self, knowledge: Knowledge, target: float, grain: float, left_s: Callable[[], float]) -> Facts | None:
        """The facts at a target; None if they refute it, which counts."""
        found = facts_at(knowledge.uniform, target, lambda: knowledge.stop() or left_s() <= 0)
        if found is None:
            knowledge.refute(target, self.name)
            knowledge.prove(round_up(target, grain), self.name)
        return found
