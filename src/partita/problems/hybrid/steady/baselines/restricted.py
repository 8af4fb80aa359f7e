"""Plans that do without one of the means, each the best of its kind: the ablations of the Piper paper.

Source: Tarnawski, Narayanan and Phanishayee, "Piper" (NeurIPS 2021), §5, "Baselines".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Baseline, HybridOptions, Outcome
from partita.problems.hybrid.restrictions import Configurations, fastest_only, with_configurations
from partita.problems.hybrid.steady.solvers.exact import HybridExact


@dataclass(frozen=True)
class Restricted(Baseline):
    """The exact solver's plan for a problem with less choice, which is a plan of the original one as well."""

    #: The problem with less choice; a sentence if there is none left.
    restrict: Callable[[HybridProblem], HybridProblem | str]
    replicas: bool = True  #: Whether data-parallel degrees above 1 are an answer.

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        restricted = self.restrict(problem)
        if isinstance(restricted, str):
            return Outcome(None, reason=restricted)
        # What is reported of the problem with less choice, bounds above all, does not hold for the original one.
        outcome = HybridExact().solve(
            restricted, HybridOptions(seed=options.seed, threads=options.threads), monitor.part()
        )
        if outcome.plan is None and not outcome.infeasible:
            return Outcome(None, reason="no plan was found in the time given")
        if outcome.plan is None or (not self.replicas and any(s.data_parallel > 1 for s in outcome.plan.stages)):
            return Outcome(None, reason="no plan of this kind fits")
        return Outcome(outcome.plan)


def without_tensor(problem: HybridProblem) -> HybridProblem | str:
    """Only configurations of tensor-parallel degree 1; a sentence if some layer has none."""
    for layer in problem.layers:
        if not layer.configurations.get(1):
            return f"{layer.label} has no configuration of tensor-parallel degree 1"
    return with_configurations(problem, lambda row: {1: row[1]})


def without_replicas(problem: HybridProblem) -> HybridProblem:
    """Weights so heavy that any plan with a data-parallel degree above 1 is slower than every plan without.

    Weights count only where replicas synchronise them, and a plan without replicas never takes longer than all layers
    and all transfers in a row.
    """
    links = [problem.bandwidth_bytes_per_unit]
    if problem.hierarchy is not None:
        links.append(problem.hierarchy.machine_bandwidth_bytes_per_unit)
    longest, moved = 0.0, sum(edge.bytes for edge in problem.edges)
    for layer in problem.layers:
        choices = [choice for row in layer.configurations.values() for choice in row]
        longest += max(choice.time for choice in choices)
        moved += max(sum(choice.sync_in_bytes.values()) + sum(choice.sync_out_bytes.values()) for choice in choices)
    longest += 4.0 * moved / min(links)
    # Of d replicas each moves 4·(d − 1)/d of the weights for every d microbatches, or once per batch.
    heavy = (longest * max(links) or 1.0) * max(problem.devices, problem.microbatches)
    return change_weights(problem, lambda weight: heavy)


def single_devices(problem: HybridProblem) -> HybridProblem | str:
    """Neither replicas nor split layers."""
    single = without_tensor(problem)
    return single if isinstance(single, str) else without_replicas(single)


def change_weights(problem: HybridProblem, change: Callable[[float], float]) -> HybridProblem:
    """The problem with other weights, both those that replicas synchronise and those that machines do."""

    def weigh(row: Configurations) -> Configurations:
        return {
            degree: tuple(msgspec.structs.replace(c, weight_bytes=change(c.weight_bytes)) for c in choices)
            for degree, choices in row.items()
        }

    changed = with_configurations(problem, weigh)
    if problem.hierarchy is None:
        return changed
    layers = (msgspec.structs.replace(new, weight_bytes=change(new.whole_weight_bytes)) for new in changed.layers)
    return changed.replace(layers=tuple(layers))


PURE_PIPELINE = Restricted("pure pipeline", "the best stages of one device each", single_devices, replicas=False)
NO_DATA_PARALLEL = Restricted(
    "no data parallelism", "the best plan without replicas (Piper's no DP)", without_replicas, replicas=False
)
NO_TENSOR_PARALLEL = Restricted(
    "no tensor parallelism", "the best plan without split layers (Piper's no TP)", without_tensor
)
NO_RECOMPUTATION = Restricted(
    "no recomputation", "the best plan that saves no memory in any layer (Piper's no AR)", fastest_only
)
