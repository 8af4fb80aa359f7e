"""Plans that do without one of the means, each the best of its kind: the ablations of the Piper paper.

Source: Tarnawski, Narayanan and Phanishayee, "Piper" (NeurIPS 2021), §5, "Baselines".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from partita.problems.hybrid.baselines.restrict import fastest_only, tensor_degree_only, without_replicas
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.exact import HybridExact
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor


class _Restricted(Solver, ABC):
    """The exact solver's plan for a problem with less choice, which is a plan of the original one as well."""

    #: Whether data-parallel degrees above 1 are an answer.
    replicas: ClassVar[bool] = True

    @abstractmethod
    def restrict(self, problem: HybridProblem) -> HybridProblem | str:
        """The problem with less choice; a sentence if there is none left."""

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """Solve with less choice; the plan is judged with all of it."""
        restricted = self.restrict(problem)
        if isinstance(restricted, str):
            return Outcome(None, reason=restricted)
        # What is reported of the problem with less choice, bounds above all, does not hold for the original one.
        outcome = HybridExact().solve(restricted, Options(seed=options.seed, threads=options.threads), monitor.part())
        if outcome.plan is None and not outcome.infeasible:
            return Outcome(None, reason="no plan was found in the time given")
        if outcome.plan is None or (not self.replicas and any(s.data_parallel > 1 for s in outcome.plan.stages)):
            return Outcome(None, reason="no plan of this kind fits")
        return Outcome(outcome.plan)


class NoDataParallel(_Restricted):
    """The best plan with d = 1 in every stage."""

    name: ClassVar[str] = "no data parallelism"
    summary: ClassVar[str] = "the best plan without replicas (Piper's no DP)"
    replicas: ClassVar[bool] = False

    def restrict(self, problem: HybridProblem) -> HybridProblem:
        """Weights too heavy to synchronise."""
        return without_replicas(problem)


class NoTensorParallel(_Restricted):
    """The best plan with t = 1 in every stage."""

    name: ClassVar[str] = "no tensor parallelism"
    summary: ClassVar[str] = "the best plan without split layers (Piper's no TP)"

    def restrict(self, problem: HybridProblem) -> HybridProblem | str:
        """The configurations of degree 1 only."""
        return tensor_degree_only(problem, 1)


class NoRecomputation(_Restricted):
    """The best plan in which every layer runs in its fastest way."""

    name: ClassVar[str] = "no recomputation"
    summary: ClassVar[str] = "the best plan that saves no memory in any layer (Piper's no AR)"

    def restrict(self, problem: HybridProblem) -> HybridProblem:
        """The fastest configuration of every layer and degree only."""
        return fastest_only(problem)


class PurePipeline(_Restricted):
    """The best row of stages of one device each."""

    name: ClassVar[str] = "pure pipeline"
    summary: ClassVar[str] = "the best stages of one device each"
    replicas: ClassVar[bool] = False

    def restrict(self, problem: HybridProblem) -> HybridProblem | str:
        """Neither replicas nor split layers."""
        single = tensor_degree_only(problem, 1)
        return single if isinstance(single, str) else without_replicas(single)
