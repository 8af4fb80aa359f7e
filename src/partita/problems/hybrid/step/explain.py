"""What there is not enough of where there is no plan of a step."""

from __future__ import annotations

import math

from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.solvers.candidates import at_degrees
from partita.problems.hybrid.training import LayerState


def least_memory(problem: HybridProblem, layer: Layer) -> float:
    """Memory of a stage with one layer, one microbatch and as many replicas as there can be: no stage needs less.

    Infinite if it has no degree that the devices allow where they share out sequences or experts.
    """
    needs = (
        choice.memory_per_microbatch_bytes + choice.memory_bytes + _least_state(there, other, degree, context)
        for (context, _), there in at_degrees(problem).items()
        for other in there.layers
        if other.id == layer.id
        for degree, choices in other.configurations.items()
        if degree <= problem.devices_per_machine
        for choice in choices
    )
    return min(needs, default=math.inf)


def _least_state(problem: HybridProblem, layer: Layer, degree: int, context: int) -> float:
    """Weights, gradients and states of a layer with as many replicas as there can be."""
    state = layer.states.get(degree, LayerState())
    most = max(1, min(problem.devices // degree, problem.microbatches * context))
    shares = [most if max(problem.step.zero) >= stage else 1 for stage in (3, 2, 1)]
    return sum(
        size / share
        for part in (state, state.experts or LayerState())
        for size, share in zip((part.parameter_bytes, part.gradient_bytes, part.optimizer_bytes), shares, strict=True)
    )
