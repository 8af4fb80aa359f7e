"""Problems with less choice: what the exact solver finds for them is the best plan of a restricted kind."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from partita.problems.hybrid.problem import Configuration, HybridProblem, Layer

Configurations = dict[int, tuple[Configuration, ...]]


def tensor_degree_only(problem: HybridProblem, degree: int) -> HybridProblem | str:
    """Only configurations of one tensor-parallel degree; a sentence if some layer has none."""
    for layer in problem.layers:
        if not layer.configurations.get(degree):
            return f"{layer.label} has no configuration of tensor-parallel degree {degree}"
    return _with_layers(problem, lambda row: {degree: row[degree]})


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
    layers: list[Layer] = []
    # Layers of a model share their menus; sharing the changed ones keeps large problems small.
    known: dict[int, Configurations] = {}
    for layer in problem.layers:
        key = id(layer.configurations)
        if key not in known:
            known[key] = change(layer.configurations)
        # What machines synchronise is a property of the layer, whichever degrees are left.
        whole = layer.weight_bytes if problem.hierarchy is None else layer.whole_weight_bytes
        layers.append(msgspec.structs.replace(layer, configurations=known[key], weight_bytes=whole))
    return problem.replace(layers=tuple(layers))
