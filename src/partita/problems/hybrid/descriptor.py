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
    from collections.abc import Sequence

    from partita.nouns.pipeline import Plan
    from partita.problems.hybrid.from_model import HybridFromModel
    from partita.problems.hybrid.step.replicas import StepReplicas
    from partita.problems.kind import Solvers


class Hybrid(HybridKind):
    """The time per sample of an endless row of microbatches, or the time of one optimizer step."""

    parts = (STEADY, STEP)
    model: lazy[HybridFromModel] = lazy("partita.problems.hybrid.from_model:HybridFromModel")
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.lists:SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.lists:BASELINES")
    replicas: lazy[StepReplicas] = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    samples: lazy[Sequence[Sequence[HybridProblem]]] = lazy("partita.problems.hybrid.samples:SAMPLES")

    def of(self, problem: HybridProblem) -> HybridKind:
        return STEADY if problem.training is None else STEP


HYBRID = Hybrid()
