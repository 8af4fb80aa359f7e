"""Units on machines: a stage lies inside one machine, stages of a unit may be on several. Of a stage that no machine
has room for, each attention-data group does.

Stages are put onto machines the largest first, each onto the first machine with room (first fit decreasing): where
sizes divide each other, and those of machines are multiples of all, that finds room whenever there is any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from partita.problems.serving.problem import ServingPlan, ServingProblem, ServingUnit


def stage_devices(form: ServingUnit) -> int:
    """Devices of a stage."""
    return form.devices // form.layout.pipeline


def blocks_of(form: ServingUnit, machines: Iterable[int]) -> Counter[int]:
    """How many groups of a unit's devices lie inside a machine each, by their size."""
    size, layout = stage_devices(form), form.layout
    if size <= max(machines, default=0):
        return Counter({size: layout.pipeline})
    return Counter({layout.tensor: layout.pipeline * layout.attention_data})


def fits(machines: Iterable[int], stages: Counter[int]) -> bool:
    """Whether stages, by their devices, find room on machines."""
    free = sorted(machines)
    for size in sorted(stages, reverse=True):
        left = stages[size]
        for place, room in enumerate(free):
            taken = min(left, room // size)
            free[place] -= taken * size
            left -= taken
        if left:
            return False
    return True


def stages_of(problem: ServingProblem, plan: ServingPlan) -> dict[str, Counter[int]]:
    """Stages of a plan by kind and by their devices."""
    found: dict[str, Counter[int]] = {}
    for group in plan.units:
        form = problem.form(group.unit)
        for size, count in blocks_of(form, problem.pool(form.kind).machines).items():
            found.setdefault(form.kind, Counter())[size] += group.count * count
    return found


def unpacked(problem: ServingProblem, plan: ServingPlan) -> list[str]:
    """Why a plan's units are not on the machines, one sentence for each kind."""
    found = []
    for kind, stages in stages_of(problem, plan).items():
        pool, used = problem.pool(kind), sum(size * count for size, count in stages.items())
        if used > pool.devices:
            among = "" if len(problem.pools) == 1 else f" of {kind}"
            found.append(f"the units have {used} devices{among}, and there are {pool.devices}")
        elif not fits(pool.machines, stages):
            sizes = ", ".join(f"{count} of {size}" for size, count in sorted(stages.items(), reverse=True))
            found.append(
                f"the units' stages ({sizes} devices of {kind}) find no room on machines of "
                f"{', '.join(str(size) for size in sorted(set(pool.machines)))} devices, each inside one"
            )
    return found
