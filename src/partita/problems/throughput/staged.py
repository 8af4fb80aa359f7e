"""What a throughput plan asks of physical devices."""

from __future__ import annotations

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Staging
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.lowered import lowered
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.running import Run
from partita.simulator.pipeline import Pipeline


class ThroughputStages(Staging[ThroughputProblem, Plan, Evaluation]):
    """Work of every stage, and tensors, each once for every stage that reads it."""

    def staged(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Pipeline:
        # Where sizes of tensors are times, moving one unit takes one.
        times = any(kind.transfer_time_per_unit == 1.0 for kind in problem.kinds if kind.accelerator)
        if problem.unit != "s" or times:
            raise InputError(
                f"problem {problem.name!r} gives times of transfers, not bytes of tensors, so that links of a topology "
                "mean nothing to it; only plans of models can be placed"
            )
        return lowered(Run(problem, plan, evaluation))
