"""Plans that do without one of the means, each the best of its kind: the ablations of the Piper paper.

Source: Tarnawski, Narayanan and Phanishayee, "Piper" (NeurIPS 2021), §5, "Baselines".
"""

from __future__ import annotations

from typing import ClassVar

from partita.problems.hybrid.baselines.recipe import Recipe
from partita.problems.hybrid.baselines.restrict import (
    fastest_only,
    solve_restricted,
    tensor_degree_only,
    without_replicas,
)
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options, Outcome
from partita.run.monitor import Monitor

__all__ = ["NoDataParallel", "NoRecomputation", "NoTensorParallel", "PurePipeline"]


class NoDataParallel(Recipe):
    """The best plan with d = 1 in every stage."""

    name: ClassVar[str] = "no data parallelism"
    summary: ClassVar[str] = "the best plan without replicas (Piper's no DP)"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """Solve with weights too heavy to synchronise, then judge with the real ones."""
        return solve_restricted(without_replicas(problem), options, monitor, replicas=False)


class NoTensorParallel(Recipe):
    """The best plan with t = 1 in every stage."""

    name: ClassVar[str] = "no tensor parallelism"
    summary: ClassVar[str] = "the best plan without split layers (Piper's no TP)"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """Solve with the configurations of degree 1 only."""
        restricted = tensor_degree_only(problem, 1)
        if isinstance(restricted, str):
            return Outcome(None, reason=restricted)
        return solve_restricted(restricted, options, monitor)


class NoRecomputation(Recipe):
    """The best plan in which every layer runs in its fastest way."""

    name: ClassVar[str] = "no recomputation"
    summary: ClassVar[str] = "the best plan that saves no memory in any layer (Piper's no AR)"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """Solve with the fastest configuration of every layer and degree only."""
        return solve_restricted(fastest_only(problem), options, monitor)


class PurePipeline(Recipe):
    """The best row of stages of one device each."""

    name: ClassVar[str] = "pure pipeline"
    summary: ClassVar[str] = "the best stages of one device each"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """Solve without replicas and without split layers."""
        restricted = tensor_degree_only(problem, 1)
        if isinstance(restricted, str):
            return Outcome(None, reason=restricted)
        return solve_restricted(without_replicas(restricted), options, monitor, replicas=False)
