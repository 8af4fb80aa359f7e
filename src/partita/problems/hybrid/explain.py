"""Why a hybrid problem has no plan, and what would be enough."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.ground.rounding import leq
from partita.ground.units import format_bytes
from partita.problems.enough import smallest_count, smallest_memory
from partita.problems.hybrid.downsets import all_suffix_sets
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.problem import HybridProblem, Layer
from partita.problems.hybrid.solvers.candidates import spreads_of
from partita.problems.hybrid.solvers.decision import Family
from partita.problems.hybrid.solvers.exact import HybridExact
from partita.problems.hybrid.solvers.free import FreeMesh
from partita.problems.hybrid.solvers.protocol import Options, Outcome
from partita.problems.hybrid.solvers.uniform import UniformMesh
from partita.problems.hybrid.training import LayerState

#: Tables larger than this are not filled only for an explanation.
_MOST_ENTRIES = 20_000_000
#: Most machines that are tried only for an explanation.
_MOST_MACHINES = 4096
#: Stop narrowing the smallest memory when the bracket is this tight, relative.
_MEMORY_PRECISION = 1e-4
#: Wall time for the search for what would be enough, at most.
EXPLAIN_S = 10.0


def explain_infeasible(problem: HybridProblem, time_limit_s: float = EXPLAIN_S) -> str:
    """Say what a problem without a plan lacks, and the smallest device count or memory that would do."""
    where = "there are" if problem.hierarchy is None else "a machine has"
    for layer in problem.layers:
        degrees = sorted(degree for degree, choices in layer.configurations.items() if choices)
        if not problem.others and degrees[0] > problem.devices_per_machine:
            return (
                f"{layer.label} needs at least {degrees[0]} devices (its smallest tensor-parallel degree), "
                f"{where} {problem.devices_per_machine}"
            )
    if problem.others:
        return f"no row of stages on {', '.join(kind.device for kind in problem.kinds)} fits into their memory"
    clock = Monitor(time_limit_s)
    if problem.training is not None or problem.hierarchy is not None:
        enough = _smallest_machines(problem, Monitor(time_limit_s / 2))
    else:
        enough = _smallest_devices(problem)
    parts = (_what_is_missing(problem), enough, _smallest_memory(problem, clock))
    return "; ".join(part for part in parts if part)


def _least_memory(problem: HybridProblem, layer: Layer) -> float:
    """Memory of a stage with one layer, one microbatch and as many replicas as there can be: no stage needs less.

    Infinite if it has no degree that the devices allow where they share out sequences or experts.
    """
    if problem.training is not None:
        needs = (
            choice.memory_per_microbatch_bytes + choice.memory_bytes + _least_state(spread, other, degree, context)
            for (context, _), spread in spreads_of(problem).items()
            for other in spread.layers
            if other.id == layer.id
            for degree, choices in other.configurations.items()
            if degree <= problem.devices_per_machine
            for choice in choices
        )
        return min(needs, default=math.inf)
    return min(
        choice.held_bytes(1, max(1, min(problem.devices // degree, problem.microbatches)))
        for degree, choices in layer.configurations.items()
        if degree <= problem.devices_per_machine
        for choice in choices
    )


def _least_state(problem: HybridProblem, layer: Layer, degree: int, context: int) -> float:
    """Weights, gradients and states of a layer with as many replicas as there can be."""
    state, training = layer.states.get(degree), problem.training
    if state is None or training is None:
        return 0.0
    most = max(1, min(problem.devices // degree, problem.microbatches * context))
    shares = [most if max(training.zero) >= stage else 1 for stage in (3, 2, 1)]
    return sum(
        size / share
        for part in (state, state.experts or LayerState())
        for size, share in zip((part.parameter_bytes, part.gradient_bytes, part.optimizer_bytes), shares, strict=True)
    )


def _what_is_missing(problem: HybridProblem) -> str:
    limit = problem.memory_bytes
    if limit is None:
        return f"no row of stages runs every layer with the degrees it has on {problem.devices} devices"
    for layer in problem.layers:
        need = _least_memory(problem, layer)
        if math.isinf(need):
            return f"{layer.label} has no degree that {problem.devices} devices allow, sharing out sequences or experts"
        if not leq(need, limit):
            return (
                f"{layer.label} needs {format_bytes(need)} alone, {format_bytes(need - limit)} more than a device has"
            )
    total = sum(_least_memory(problem, layer) for layer in problem.layers)
    return (
        f"the model needs {format_bytes(total)} or more, and no row of stages fits {problem.devices} devices of "
        f"{format_bytes(limit)} with {problem.microbatches} microbatches"
    )


def _smallest_devices(problem: HybridProblem) -> str:
    """The fewest devices that fit whatever the time; empty if none do, or the table would be large."""
    most = max(degree for layer in problem.layers for degree in layer.configurations)
    # One replica for every layer on its own is the longest row that can help; more replicas only share memory.
    width = min(problem.microbatches, 4 * len(problem.layers) + problem.devices)
    model = build_instance(problem.replace(devices=width * most, microbatches=problem.microbatches))
    sets = all_suffix_sets(model.after, model.before, _MOST_ENTRIES // (model.width + 1))
    if sets is None or len(sets) ** 2 > _MOST_ENTRIES:
        return ""
    family = Family(model, sets, np.zeros(1, dtype=np.int64))
    found = family.fewest_devices(math.inf)
    # Replicas beyond the width would need more devices than that.
    known = found is not None and (found <= width or width == problem.microbatches)
    return f"the smallest count that fits is {found} devices" if known else ""


def _smallest_machines(problem: HybridProblem, clock: Monitor) -> str:
    """The batch stays as it is, so that some problems have no plan with any number of machines."""
    size = 1 if problem.hierarchy is None else problem.hierarchy.devices_per_machine

    def fits(machines: int, time_s: float) -> bool | None:
        outcome = _solved(problem.replace(devices=machines * size), time_s)
        return None if outcome.plan is None and not outcome.infeasible else outcome.plan is not None

    # Each group has a layer and each of its machines a microbatch of its own.
    most = min(len(problem.layers) * problem.microbatches, _MOST_MACHINES)
    # A machine may not be full yet.
    noun = "devices" if problem.hierarchy is None else f"machines of {size} devices"
    return smallest_count(fits, problem.devices // size, most, noun, clock)


def _smallest_memory(problem: HybridProblem, clock: Monitor) -> str:
    def used(size: float, time_s: float) -> float | bool | None:
        changed = problem.replace(memory_bytes=size)
        outcome = _solved(changed, time_s)
        if outcome.plan is None:
            return False if outcome.infeasible else None
        return max(stage.memory_bytes for stage in evaluate(changed, outcome.plan).stages)

    if problem.memory_bytes is None:
        return ""
    return smallest_memory(used, problem.memory_bytes, clock, precision=_MEMORY_PRECISION)


def _solved(problem: HybridProblem, time_s: float) -> Outcome:
    """Any plan, or a proof that there is none, within a time."""
    solvers = {None: HybridExact(), "uniform": UniformMesh(), "free": FreeMesh()}
    solver = solvers[None if problem.training is None else problem.training.mesh]
    return solver.solve(problem, Options(), Monitor(time_s, target=math.inf))
