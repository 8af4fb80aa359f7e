"""What a hybrid plan asks of physical devices: tensor-parallel groups in lockstep, replicas that take turns."""

from __future__ import annotations

from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Staging
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.problem import HybridProblem
from partita.simulator.pipeline import Pipeline


class HybridStages(Staging[HybridProblem, Plan, HybridEvaluation]):
    """Work, weights and edges of every stage.

    What a stage moves inside its groups for tensors of other stages is part of its work, at the problem's bandwidth.
    """

    kind: HybridKind

    def staged(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Pipeline:
        if problem.unit != "s":
            raise InputError(
                f"problem {problem.name!r} counts time in {problem.unit}, not in seconds, so bandwidths of a topology "
                "mean nothing to it; only plans of models can be placed"
            )
        degrees = plan.stages[0]
        if degrees.context_parallel > 1 or degrees.expert_parallel > 1:
            raise InputError(
                f"{problem.name}: devices that share out a sequence or experts are neighbours, so the plan's ranks "
                "fill the machines in their order"
            )
        if problem.others:
            raise UnsupportedError(f"{problem.name}: plans for several kinds of devices are not placed on topologies")
        return self.kind.lowered(problem, plan, evaluation)
