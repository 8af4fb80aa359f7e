"""Why a hybrid problem has no plan, and what would be enough."""

from __future__ import annotations

import math

from partita.problems.hybrid.problem import HybridProblem, Layer
from partita.run.monitor import Monitor
from partita.units import format_bytes, leq

__all__ = ["explain_infeasible"]

#: Tables larger than this are not filled only for an explanation.
_MOST_ENTRIES = 20_000_000
#: Most machines that are tried only for an explanation.
_MOST_MACHINES = 4096
#: Stop narrowing the smallest memory when the bracket is this tight, relative.
_MEMORY_PRECISION = 1e-4


def explain_infeasible(problem: HybridProblem, time_limit_s: float = 10.0) -> str:
    """Say what is missing, and the smallest device count or memory that would do.

    Parameters
    ----------
    problem
        A problem without a plan.
    time_limit_s
        Wall time for the search for what would be enough.
    """
    where = "there are" if problem.hierarchy is None else "a machine has"
    for layer in problem.layers:
        degrees = sorted(degree for degree, choices in layer.configurations.items() if choices)
        if degrees[0] > problem.devices_per_machine:
            return (
                f"{layer.label} needs at least {degrees[0]} devices (its smallest tensor-parallel degree), "
                f"{where} {problem.devices_per_machine}"
            )
    clock = Monitor(time_limit_s)
    parts = [_what_is_missing(problem)]
    if problem.hierarchy is not None:
        machines = _smallest_machines(problem, Monitor(time_limit_s / 2))
        if machines is not None:
            parts.append(machines)
    else:
        devices = _smallest_devices(problem)
        if devices is not None:
            parts.append(f"the smallest count that fits is {devices} devices")
    memory = _smallest_memory(problem, clock)
    if memory is not None:
        parts.append(f"{memory[1]} {format_bytes(memory[0])} ({math.ceil(memory[0])} bytes)")
    return "; ".join(parts)


def _least_memory(problem: HybridProblem, layer: Layer) -> float:
    """Memory of a stage with one layer, one microbatch and as many replicas as there can be: no stage needs less."""
    return min(
        choice.held_bytes(1, max(1, min(problem.devices // degree, problem.microbatches)))
        for degree, choices in layer.configurations.items()
        if degree <= problem.devices_per_machine
        for choice in choices
    )


def _what_is_missing(problem: HybridProblem) -> str:
    limit = problem.memory_bytes
    if limit is None:
        return f"no row of stages runs every layer with the degrees it has on {problem.devices} devices"
    for layer in problem.layers:
        need = _least_memory(problem, layer)
        if not leq(need, limit):
            return (
                f"{layer.label} needs {format_bytes(need)} alone, {format_bytes(need - limit)} more than a device has"
            )
    total = sum(_least_memory(problem, layer) for layer in problem.layers)
    return (
        f"the model needs {format_bytes(total)} or more, and no row of stages fits {problem.devices} devices of "
        f"{format_bytes(limit)} with {problem.microbatches} microbatches"
    )


def _smallest_devices(problem: HybridProblem) -> int | None:
    """The fewest devices that fit whatever the time; None if none do, or the table would be large."""
    import numpy as np

    from partita.problems.hybrid.downsets import all_suffix_sets
    from partita.problems.hybrid.instance import build_model
    from partita.problems.hybrid.solvers.decision import Family

    most = max(degree for layer in problem.layers for degree in layer.configurations)
    # One replica for every layer on its own is the longest row that can help; more replicas only share memory.
    width = min(problem.microbatches, 4 * len(problem.layers) + problem.devices)
    model = build_model(problem.replace(devices=width * most, microbatches=problem.microbatches))
    sets = all_suffix_sets(model.after, model.before, _MOST_ENTRIES // (model.width + 1))
    if sets is None or len(sets) ** 2 > _MOST_ENTRIES:
        return None
    family = Family(model, sets, np.zeros(1, dtype=np.int64))
    found = family.fewest_devices(math.inf)
    # Replicas beyond the width would need more devices than that.
    return found if found is not None and (found <= width or width == problem.microbatches) else None


def _smallest_machines(problem: HybridProblem, clock: Monitor) -> str | None:
    """Double the machines until a plan exists, then bisect; None if none was found in time.

    The batch stays as it is, so that some problems have no plan with any number of machines.
    """
    from partita.problems.hybrid.solvers.exact import HybridExact
    from partita.problems.hybrid.solvers.protocol import Options

    assert problem.hierarchy is not None
    size = problem.hierarchy.devices_per_machine
    # Each group has a layer and each of its machines a microbatch of its own.
    most = min(len(problem.layers) * problem.microbatches, _MOST_MACHINES)

    def fits(machines: int) -> bool | None:
        monitor = Monitor(max(0.05, clock.remaining_s / 2), target=math.inf)
        outcome = HybridExact().solve(problem.replace(devices=machines * size), Options(), monitor)
        return None if outcome.plan is None and not outcome.infeasible else outcome.plan is not None

    # A machine may not be full yet.
    low, high, exact = problem.devices // size, 0, True
    while not high and low < most and clock.remaining_s > 0:
        count = min(most, max(1, 2 * low))
        answer = fits(count)
        exact = exact and answer is not None
        low, high = (low, count) if answer else (count, 0)
    if not high:
        return None
    while high - low > 1 and clock.remaining_s > 0:
        middle = (low + high) // 2
        answer = fits(middle)
        exact = exact and answer is not None
        low, high = (low, middle) if answer else (middle, high)
    word = "the smallest count that fits is" if exact and high - low == 1 else "enough would be"
    return f"{word} {high} machines of {size} devices"


def _smallest_memory(problem: HybridProblem, clock: Monitor) -> tuple[float, str] | None:
    """Bisect the memory of a device."""
    from partita.problems.hybrid.evaluate import evaluate
    from partita.problems.hybrid.solvers.exact import HybridExact
    from partita.problems.hybrid.solvers.protocol import Options

    if problem.memory_bytes is None:
        return None
    low, high, exact = problem.memory_bytes, math.inf, True
    while clock.remaining_s > 0 and (math.isinf(high) or high - low > _MEMORY_PRECISION * high):
        size = (low + high) / 2 if math.isfinite(high) else math.inf
        changed = problem.replace(memory_bytes=size)
        monitor = Monitor(max(0.05, clock.remaining_s / 2), target=math.inf)
        outcome = HybridExact().solve(changed, Options(), monitor)
        if outcome.plan is not None:
            used = max(stage.memory_bytes for stage in evaluate(changed, outcome.plan).stages)
            high = min(size, used)
        elif math.isinf(size):
            return None
        else:
            exact = exact and outcome.infeasible
            low = size
    if math.isinf(high):
        return None
    word = "the smallest memory per device that fits is about" if exact else "enough memory per device would be"
    return high, word
