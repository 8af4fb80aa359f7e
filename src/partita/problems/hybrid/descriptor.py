"""The hybrid problem, as the rest of the package sees it: one name and file format for two objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.nouns.pipeline import Plan
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.descriptor import STEADY
from partita.problems.hybrid.step.descriptor import STEP
from partita.problems.kind import lazy

if TYPE_CHECKING:
    from partita.problems.hybrid.evaluation import HybridEvaluation


class Hybrid(HybridKind):
    """The time per sample of an endless row of microbatches, or the time of one optimizer step."""

    parts = (STEADY, STEP)
    model = lazy("partita.problems.hybrid.from_model:HybridFromModel")
    solvers = lazy("partita.problems.hybrid.lists:SOLVERS")
    baselines = lazy("partita.problems.hybrid.lists:BASELINES")
    replicas = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    samples = lazy("partita.problems.hybrid.samples:SAMPLES")

    def of(self, problem: HybridProblem) -> HybridKind:
        return STEADY if problem.training is None else STEP

    def evaluate(self, problem: HybridProblem, plan: Plan) -> HybridEvaluation:
        return self.of(problem).evaluate(problem, plan)


HYBRID = Hybrid()
