"""Steps that do without one of the means, each the best of its kind: the ablations of the Piper paper, of a step.

Source: Tarnawski, Narayanan and Phanishayee, "Piper" (NeurIPS 2021), §5, "Baselines".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Baseline, Options, Outcome
from partita.problems.hybrid.restrictions import fastest_only
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.uniform import UniformMesh


@dataclass(frozen=True)
class RestrictedStep(Baseline):
    """The best uniform mesh with less choice: of meshes that it ``admits``, of a problem that it restricts."""

    admits: Callable[[DeviceMesh], bool] | None = None
    restrict: Callable[[HybridProblem], HybridProblem] | None = None

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        return "it is for devices of one kind" if problem.others else None

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        restricted = problem if self.restrict is None else self.restrict(problem)
        usual = Options(seed=options.seed, threads=options.threads)
        outcome = UniformMesh(self.admits).solve(restricted, usual, monitor.part())
        if outcome.plan is not None:
            return Outcome(outcome.plan)
        return Outcome(
            None, reason="no plan of this kind fits" if outcome.infeasible else "no plan was found in the time given"
        )


NO_DATA_PARALLEL = RestrictedStep(
    "no data parallelism", "the best plan without replicas (Piper's no DP)", admits=lambda mesh: mesh.data == 1
)
NO_TENSOR_PARALLEL = RestrictedStep(
    "no tensor parallelism", "the best plan without split layers (Piper's no TP)", admits=lambda mesh: mesh.tensor == 1
)
NO_RECOMPUTATION = RestrictedStep(
    "no recomputation", "the best plan that saves no memory in any layer (Piper's no AR)", restrict=fastest_only
)
