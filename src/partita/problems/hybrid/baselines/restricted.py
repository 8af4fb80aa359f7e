"""Plans that do without one of the means, each the best of its kind: the ablations of the Piper paper.

Source: Tarnawski, Narayanan and Phanishayee, "Piper" (NeurIPS 2021), §5, "Baselines".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.problem import Configuration, HybridProblem, Layer
from partita.problems.hybrid.solvers.candidates import Candidate
from partita.problems.hybrid.solvers.exact import HybridExact
from partita.problems.hybrid.solvers.protocol import AnyProblem, Options, Outcome
from partita.problems.hybrid.solvers.uniform import UniformMesh

Configurations = dict[int, tuple[Configuration, ...]]


@dataclass(frozen=True)
class Restricted(AnyProblem):
    """The exact solver's plan for a problem with less choice, which is a plan of the original one as well.

    Attributes
    ----------
    name, summary
        As of every solver.
    restrict
        The problem with less choice; a sentence if there is none left.
    replicas
        Whether data-parallel degrees above 1 are an answer.
    admits
        Of a step, which meshes have less choice, whatever layers have; None to restrict layers.
    """

    name: str
    summary: str
    restrict: Callable[[HybridProblem], HybridProblem | str]
    replicas: bool = True
    admits: Callable[[Candidate], bool] | None = None

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        return "it is for devices of one kind" if problem.others else None

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        if problem.training is not None and self.admits is not None:
            return self._step(problem, UniformMesh(self.admits), options, monitor)
        restricted = self.restrict(problem)
        if isinstance(restricted, str):
            return Outcome(None, reason=restricted)
        if problem.training is not None:
            return self._step(restricted, UniformMesh(), options, monitor)
        # What is reported of the problem with less choice, bounds above all, does not hold for the original one.
        outcome = HybridExact().solve(restricted, Options(seed=options.seed, threads=options.threads), monitor.part())
        if outcome.plan is None and not outcome.infeasible:
            return Outcome(None, reason="no plan was found in the time given")
        if outcome.plan is None or (not self.replicas and any(s.data_parallel > 1 for s in outcome.plan.stages)):
            return Outcome(None, reason="no plan of this kind fits")
        return Outcome(outcome.plan)

    def _step(self, problem: HybridProblem, solver: UniformMesh, options: Options, monitor: Monitor) -> Outcome:
        """The best step of a problem with less choice."""
        outcome = solver.solve(problem, Options(seed=options.seed, threads=options.threads), monitor.part())
        if outcome.plan is not None:
            return Outcome(outcome.plan)
        return Outcome(
            None, reason="no plan of this kind fits" if outcome.infeasible else "no plan was found in the time given"
        )


def without_tensor(problem: HybridProblem) -> HybridProblem | str:
    """Only configurations of tensor-parallel degree 1; a sentence if some layer has none."""
    for layer in problem.layers:
        if not layer.configurations.get(1):
            return f"{layer.label} has no configuration of tensor-parallel degree 1"
    return _with_layers(problem, lambda row: {1: row[1]})


def fastest_only(problem: HybridProblem) -> HybridProblem:
    """Of every layer and degree only the fastest configuration, of equally fast ones the smallest: no memory saved."""

    def worth(choice: Configuration) -> tuple[float, ...]:
        return choice.time, choice.memory_per_microbatch_bytes, choice.held_bytes(0, 1), choice.weight_bytes

    return _with_layers(
        problem, lambda row: {degree: tuple(sorted(choices, key=worth)[:1]) for degree, choices in row.items()}
    )


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

    changed = _with_layers(problem, weigh)
    if problem.hierarchy is None:
        return changed
    layers = (msgspec.structs.replace(new, weight_bytes=change(new.whole_weight_bytes)) for new in changed.layers)
    return changed.replace(layers=tuple(layers))


def _with_layers(problem: HybridProblem, change: Callable[[Configurations], Configurations]) -> HybridProblem:
    """The problem with other configurations in every layer."""
    # Layers of a model share their menus; sharing the changed ones keeps large problems small.
    known: dict[int, Configurations] = {}

    def changed(layer: Layer) -> Layer:
        key = id(layer.configurations)
        if key not in known:
            known[key] = change(layer.configurations)
        # What machines synchronise is a property of the layer, whichever degrees are left.
        whole = layer.weight_bytes if problem.hierarchy is None else layer.whole_weight_bytes
        return msgspec.structs.replace(layer, configurations=known[key], weight_bytes=whole)

    return problem.with_layers(changed)


PURE_PIPELINE = Restricted("pure pipeline", "the best stages of one device each", single_devices, replicas=False)
NO_DATA_PARALLEL = Restricted(
    "no data parallelism",
    "the best plan without replicas (Piper's no DP)",
    without_replicas,
    replicas=False,
    admits=lambda mesh: mesh.data == 1,
)
NO_TENSOR_PARALLEL = Restricted(
    "no tensor parallelism",
    "the best plan without split layers (Piper's no TP)",
    without_tensor,
    admits=lambda mesh: mesh.tensor == 1,
)
NO_RECOMPUTATION = Restricted(
    "no recomputation", "the best plan that saves no memory in any layer (Piper's no AR)", fastest_only
)
