"""What all bounds by programs share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from partita.engines.mip.solve import available, missing
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.programs.minmax_program import ProgramRun, granularity, pool_bound, round_up
from partita.problems.throughput.bounds.programs.order_tables import MOST_ITEMS
from partita.problems.throughput.bounds.protocol import HierarchyBound, simple_bound
from partita.problems.throughput.problem import ThroughputProblem


class ProgramMember(HierarchyBound):
    """A bound by programs: needs HiGHS, and problems small enough for it. It says which ``programs`` to run."""

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, a backend, and not too many operators."""
        reason = super().supports(problem) or missing("highs")
        if reason is None and len(problem.operators) > MOST_ITEMS:
            return f"it is for at most {MOST_ITEMS} operators, and there are {len(problem.operators)}; use `charge`"
        return reason

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """The simple bound rounded up, then programs where that leaves them something to do."""
        uniform = knowledge.uniform
        run = ProgramRun(self.name, knowledge, granularity(uniform), left_s)
        run.prove(round_up(simple_bound(uniform), run.grain))
        usable = available("highs") and pool_bound(uniform) > 0 and uniform.items <= MOST_ITEMS and uniform.devices > 1
        if usable and not knowledge.done:
            self.programs(run)

    @abstractmethod
    def programs(self, run: ProgramRun) -> None:
        """Raise the bound by programs."""
