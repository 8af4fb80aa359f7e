"""Why a throughput problem has no plan, and what would be enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from partita.engines.search.monitor import Monitor
from partita.ground.units import format_bytes
from partita.nouns.pipeline import Plan, Stage
from partita.problems.enough import smallest_count, smallest_memory
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.working_memory import ordered_plan

#: Answers whether a problem has a plan: the plan, False if it is proven that there is none, None if unknown.
Probe = Callable[[ThroughputProblem, float], "Plan | bool | None"]

#: Stop narrowing the smallest memory when the bracket is this tight, relative.
_MEMORY_PRECISION = 1e-3
_MOST_DEVICES = 1 << 14
#: Wall time for the search for what would be enough, at most.
EXPLAIN_S = 20.0


def explain_infeasible(problem: ThroughputProblem, probe: Probe, time_limit_s: float = EXPLAIN_S) -> str:
    """Say what a problem without a plan is missing, and the smallest device count or memory that would do.

    ``probe`` looks for any plan of a changed problem; the time is for the search for what would be enough.
    """
    present = problem.present
    for op in problem.operators:
        if all(op.times[place] is None for place in present):
            names = ", ".join(problem.kinds[place].name for place in present)
            return f"{op.label} cannot run on any of the devices ({names}); add a device kind that supports it"
    clock = Monitor(time_limit_s)
    parts = [_what_is_missing(problem)]
    accelerators = [kind for kind in problem.kinds if kind.accelerator]
    # Groups say where each device is, so another count is another problem.
    if len(accelerators) == 1 and accelerators[0].count > 0 and not problem.groups:

        def fits(count: int, time_s: float) -> bool | None:
            answer = probe(problem.replace(accelerators=count), time_s)
            return None if answer is None else answer is not False

        limit = min(_MOST_DEVICES, max(2 * len(problem.operators), accelerators[0].count + 1))
        # Half of the time is for the memory, however busy the machine is.
        half = Monitor(time_limit_s / 2)
        parts.append(smallest_count(fits, accelerators[0].count, limit, "devices of this kind", half))
    if any(kind.memory_bytes is not None and kind.count > 0 for kind in accelerators):
        parts.append(_smallest_memory(problem, probe, clock))
    return "; ".join(part for part in parts if part)


def _what_is_missing(problem: ThroughputProblem) -> str:
    instance = build_instance(problem)
    kinds = [k for k in range(instance.kinds) if instance.count[k] > 0]
    share = 1 if instance.recompute else int(instance.in_flight[min(1, len(instance.in_flight) - 1)])
    for item in range(instance.items):
        # No stage with it needs less than one that is the last of the pipeline and holds nothing else. What
        # recomputation lets enter is left out, since more items on the stage may make it smaller.
        covers = instance.cover.holding(item)
        active = instance.active[item] + instance.cover_active[covers].sum()
        fixed = instance.fixed[item] + instance.cover_fixed[covers].sum()
        need = float(fixed + share * active + instance.workspace[item])
        usable = [k for k in kinds if math.isfinite(instance.work[item, k])]
        largest = max((float(instance.memory[k]) for k in usable), default=0.0)
        if need > largest:
            op = next(o for o, g in zip(problem.operators, instance.group, strict=True) if g == item)
            together = int((instance.group == item).sum())
            need_text = f"{op.label} needs {format_bytes(need)} alone"
            if together > 1:
                others = "operator" if together == 2 else f"{together - 1} operators"
                need_text = (
                    f"{op.label} and the {others} it must share a device with need {format_bytes(need)} together"
                )
            if not usable:
                return f"{need_text}, and the devices left do not all support its operators"
            return f"{need_text}, {format_bytes(need - largest)} more than the largest device has"
    total = float(instance.fixed.sum() + instance.cover_fixed.sum())
    total += share * float(instance.active.sum() + instance.cover_active.sum())
    capacity = sum(float(instance.memory[k]) * int(instance.count[k]) for k in kinds)
    if total > capacity:
        return (
            f"the model needs at least {format_bytes(total)}, the devices have {format_bytes(capacity)} together: "
            f"{format_bytes(total - capacity)} are missing"
        )
    return (
        f"the model needs at least {format_bytes(total)} of the devices' {format_bytes(capacity)}, but no split into "
        "stages fits every device"
    )


def _smallest_memory(problem: ThroughputProblem, probe: Probe, clock: Monitor) -> str:
    """One memory size for all accelerators."""
    accelerators = {kind.name: kind.memory_bytes or 0.0 for kind in problem.kinds if kind.accelerator}

    def used(size: float, time_s: float) -> float | bool | None:
        changed = problem.replace(memory_bytes=size)
        answer = probe(changed, time_s)
        if answer is None or isinstance(answer, bool):
            return answer
        stages = evaluate(changed, answer).stages
        return max((stage.memory.total for stage in stages if stage.kind in accelerators), default=0.0)

    # Everything on one device shows some size that is enough, also where no probe ends in time.
    enough, changed = math.inf, problem.replace(memory_bytes=math.inf)
    operators = tuple(op.id for op in problem.operators)
    for kind in problem.kinds:
        if kind.accelerator and kind.count:
            plan = Plan(stages=(Stage(kind=kind.name, devices=(f"{kind.name}:0",), operators=operators),))
            found = evaluate(changed, ordered_plan(changed, plan))
            enough = min(enough, found.stages[0].memory.total) if found.feasible else enough
    present = max(accelerators.values())
    return smallest_memory(used, present, clock, enough=enough, precision=_MEMORY_PRECISION, probe_s=2.0)
