"""Problems with less choice: what the exact solver finds for them is the best plan of a restricted kind."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import Configuration, HybridProblem, Layer
from partita.problems.hybrid.solvers.exact import HybridExact
from partita.problems.hybrid.solvers.protocol import Options, Outcome
from partita.run.monitor import Monitor

__all__ = ["fastest_only", "solve_restricted", "tensor_degree_only", "without_replicas"]


def tensor_degree_only(problem: HybridProblem, degree: int) -> HybridProblem | str:
    """Only configurations of one tensor-parallel degree; a sentence if some layer has none."""
    for layer in problem.layers:
        if not layer.configurations.get(degree):
            return f"{layer.label} has no configuration of tensor-parallel degree {degree}"
    return _with_layers(problem, lambda row: {degree: row[degree]})


def fastest_only(problem: HybridProblem) -> HybridProblem:
    """Of every layer and degree only the fastest configuration, of equally fast ones the smallest: no memory saved."""

    def fastest(choices: tuple[Configuration, ...]) -> tuple[Configuration, ...]:
        return tuple(
            sorted(choices, key=lambda c: (c.time, c.memory_per_microbatch_bytes, c.held_bytes(0, 1), c.weight_bytes))[
                :1
            ]
        )

    return _with_layers(problem, lambda row: {degree: fastest(choices) for degree, choices in row.items()})


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

    def weigh(choices: tuple[Configuration, ...]) -> tuple[Configuration, ...]:
        return tuple(msgspec.structs.replace(choice, weight_bytes=heavy) for choice in choices)

    changed = _with_layers(problem, lambda row: {degree: weigh(choices) for degree, choices in row.items()})
    if problem.hierarchy is None:
        return changed
    layers = tuple(msgspec.structs.replace(layer, weight_bytes=heavy) for layer in changed.layers)
    return changed.replace(layers=layers)


def _with_layers(
    problem: HybridProblem,
    change: Callable[[dict[int, tuple[Configuration, ...]]], dict[int, tuple[Configuration, ...]]],
) -> HybridProblem:
    layers: list[Layer] = []
    # Layers of a model share their menus; sharing the changed ones keeps large problems small.
    known: dict[int, dict[int, tuple[Configuration, ...]]] = {}
    for layer in problem.layers:
        key = id(layer.configurations)
        if key not in known:
            known[key] = change(layer.configurations)
        # What machines synchronise is a property of the layer, whichever degrees are left.
        whole = layer.weight_bytes if problem.hierarchy is None else layer.whole_weight_bytes
        layers.append(msgspec.structs.replace(layer, configurations=known[key], weight_bytes=whole))
    return problem.replace(layers=tuple(layers))


def solve_restricted(
    restricted: HybridProblem, options: Options, monitor: Monitor, *, replicas: bool = True
) -> Outcome:
    """The exact solver's plan for a restricted problem, which is a plan of the original one as well.

    Parameters
    ----------
    restricted
        The problem.
    options, monitor
        As the recipe got them.
    replicas
        False: a plan with data-parallel degrees above 1 is no answer.
    """
    outcome = HybridExact().solve(restricted, Options(seed=options.seed, threads=options.threads), monitor)
    plan: HybridPlan | None = outcome.plan
    if plan is not None and not replicas and any(stage.data_parallel > 1 for stage in plan.stages):
        plan = None
    if plan is not None:
        return Outcome(plan)
    if outcome.infeasible or outcome.plan is not None:
        return Outcome(None, reason="no plan of this kind fits")
    return Outcome(None, reason="no plan was found in the time given")
