"""Problems with less choice, whose plans are plans of the original ones as well."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem

Configurations = dict[int, tuple[Configuration, ...]]


def with_configurations(problem: HybridProblem, change: Callable[[Configurations], Configurations]) -> HybridProblem:
    """The problem with other configurations in every layer."""
    # Layers of a model share their spaces; sharing the changed ones keeps large problems small.
    known: dict[int, Configurations] = {}

    def changed(layer: Layer) -> Layer:
        key = id(layer.configurations)
        if key not in known:
            known[key] = change(layer.configurations)
        # What machines synchronise is a property of the layer, whichever degrees are left.
        whole = layer.weight_bytes if problem.hierarchy is None else layer.whole_weight_bytes
        return msgspec.structs.replace(layer, configurations=known[key], weight_bytes=whole)

    return problem.with_layers(changed)


def fastest_only(problem: HybridProblem) -> HybridProblem:
    """Of every layer and degree only the fastest configuration, of equally fast ones the smallest: no memory saved."""

    def worth(choice: Configuration) -> tuple[float, ...]:
        return choice.time, choice.memory_per_microbatch_bytes, choice.held_bytes(0, 1), choice.weight_bytes

    return with_configurations(
        problem, lambda row: {degree: tuple(sorted(choices, key=worth)[:1]) for degree, choices in row.items()}
    )
