"""Small problems by trying everything (``kernels.makespan.exhaust``): plan and proof, without a solver."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import rounded_down
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import offer
from partita.problems.makespan.plan import MakespanPlan
from partita.problems.makespan.schedules import left_shifted

#: Placements and tasks of orders that are tried: about a second.
STEPS = 1_000_000
#: Most operators, and most operators and flows, of a problem that may be small.
_OPERATORS, _TASKS = 14, 40


def try_everything(
    instance: MakespanInstance, best: Incumbent[MakespanPlan], *, steps: int = STEPS, most: float = math.inf
) -> bool:
    """Look at every placement and every order, as far as so many steps go; whether they were enough.

    Only schedules better than the best, and shorter than ``most``, are looked for. What is found goes to ``best``, and
    so does the proof, if it came to an end. Problems of many operators are not begun with.
    """
    from partita.engines.kernels.makespan.exhaust import exhaust

    n, flows = instance.count, len(instance.problem.flows)
    if n > _OPERATORS or n + flows > _TASKS or best.done:
        return False
    most = min(most, best.value)
    device, start, flow_start = np.zeros(n, dtype=np.int32), np.zeros(n), np.zeros(flows)
    found, ended = exhaust(
        instance.arrays,
        instance.able,
        instance.head,
        instance.ordered,
        instance.most_held,
        most,
        steps,
        best.stop,
        device,
        start,
        flow_start,
    )
    if found < most:
        made = left_shifted(instance, device.tolist(), start.tolist(), flow_start.tolist())
        offer(instance, best, made, "enumeration")
    if not ended:
        return False
    if math.isinf(found):
        best.refute("enumeration")
    else:
        best.prove(rounded_down(found, found, n + flows), "enumeration")
    return True
