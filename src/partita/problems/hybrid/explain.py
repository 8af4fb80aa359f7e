"""Why a hybrid problem has no plan, and what would be enough."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from partita.engines.search.monitor import Monitor
from partita.ground.rounding import leq
from partita.ground.units import format_bytes
from partita.problems.enough import smallest_count, smallest_memory
from partita.problems.hybrid.options import HybridOptions
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Outcome

if TYPE_CHECKING:
    from partita.problems.hybrid.kind import HybridKind

#: Most machines that are tried only for an explanation.
_MOST_MACHINES = 4096
#: Stop narrowing the smallest memory when the bracket is this tight, relative.
_MEMORY_PRECISION = 1e-4
#: Wall time for the search for what would be enough, at most.
EXPLAIN_S = 10.0


def explain_infeasible(kind: HybridKind, problem: HybridProblem, time_limit_s: float = EXPLAIN_S) -> str:
    """Say what a problem without a plan lacks, and the smallest device count or memory that would do."""
    if problem.others:
        return f"no pipeline on {', '.join(kind.device for kind in problem.kinds)} fits into their memory"
    where = "there are" if problem.hierarchy is None else "a machine has"
    for layer in problem.layers:
        degrees = sorted(degree for degree, choices in layer.configurations.items() if choices)
        if degrees[0] > problem.devices_per_machine:
            return (
                f"{layer.label} needs at least {degrees[0]} devices (its smallest tensor-parallel degree), "
                f"{where} {problem.devices_per_machine}"
            )
    clock = Monitor(min(EXPLAIN_S, time_limit_s))
    count = kind.smallest_devices(problem)
    enough = _smallest_machines(kind, problem, clock.share(0.5)) if count is None else count
    parts = (_what_is_missing(kind, problem), enough, _smallest_memory(kind, problem, clock))
    return "; ".join(part for part in parts if part)


def _what_is_missing(kind: HybridKind, problem: HybridProblem) -> str:
    limit = problem.memory_bytes
    if limit is None:
        return f"no pipeline runs every layer with the degrees it has on {problem.devices} devices"
    needs = [kind.least_memory(problem, layer) for layer in problem.layers]
    for layer, need in zip(problem.layers, needs, strict=True):
        if math.isinf(need):
            return f"{layer.label} has no degree that {problem.devices} devices allow, sharing out sequences or experts"
        if not leq(need, limit):
            return (
                f"{layer.label} needs {format_bytes(need)} alone, {format_bytes(need - limit)} more than a device has"
            )
    least = format_bytes(sum(needs))
    if problem.devices == 1:
        return f"the model needs {least} or more, the device has {format_bytes(limit)}"
    return (
        f"the model, shared out as far as {problem.devices} devices allow, needs {least} or more of each, and no "
        f"pipeline fits devices of {format_bytes(limit)} with {problem.microbatches} microbatches"
    )


def _smallest_machines(kind: HybridKind, problem: HybridProblem, clock: Monitor) -> str:
    """The batch stays as it is, so that some problems have no plan with any number of machines."""
    size = 1 if problem.hierarchy is None else problem.hierarchy.devices_per_machine

    def fits(machines: int, time_s: float) -> bool | None:
        outcome = _solved(kind, problem.replace(devices=machines * size), time_s)
        return None if outcome.plan is None and not outcome.infeasible else outcome.plan is not None

    # Each group has a layer and each of its machines a microbatch of its own.
    most = min(len(problem.layers) * problem.microbatches, _MOST_MACHINES)
    # A machine may not be full yet.
    noun = "devices" if problem.hierarchy is None else f"machines of {size} devices"
    return smallest_count(fits, problem.devices // size, most, noun, clock)


def _smallest_memory(kind: HybridKind, problem: HybridProblem, clock: Monitor) -> str:
    def used(size: float, time_s: float) -> float | bool | None:
        changed = problem.replace(memory_bytes=size)
        outcome = _solved(kind, changed, time_s)
        if outcome.plan is None:
            return False if outcome.infeasible else None
        return max(stage.memory_bytes for stage in kind.evaluate(changed, outcome.plan).stages)

    if problem.memory_bytes is None:
        return ""
    return smallest_memory(used, problem.memory_bytes, clock, precision=_MEMORY_PRECISION)


def _solved(kind: HybridKind, problem: HybridProblem, time_s: float) -> Outcome:
    """Any plan, or a proof that there is none, within a time."""
    solver = kind.solver(kind.default_solver(problem, HybridOptions()))
    return solver.solve(problem, HybridOptions(), Monitor(time_s, target=math.inf))
