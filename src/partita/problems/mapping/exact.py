"""Branch and bound: depth-first assignment under targets finds a better mapping, or proves that there is none.

The targets are found by bisection between the best bound and the best mapping, with more and more devices tried for
each; the last one is just below the best mapping. Against Parmesan's search, partners that are not yet placed count
with the fastest link, stages keep to devices where they can be within the target, and symmetric mappings are looked at
once:

* replicas may be renumbered along the ring in all stages alike, so that the first replica of the first stage has the
  smallest device of its stage, and of the next and the last one the next has the smaller; without any all-reduce,
  replicas may be renumbered at will;
* of devices that could change places without any other number changing (twins), the lower is taken first.

Of all mappings that are the same but for this, the one whose devices, in the order in which they are placed, come first
in the dictionary keeps all these rules at once, so that no mapping is lost.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.mapping.placing import FOUND, NONE, depth_first
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import GAP
from partita.problems.mapping.bisection import placing_order
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.neighbours import best_loads
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import Placement

#: Devices tried for one target at first, and how they grow.
QUICK, _GROWTH, _MOST_CHECKS = 200_000, 8, 1 << 62
#: Width of the interval, as a share of its upper end, at which bisection ends.
_PRECISION = 1e-2
NAME = "branch and bound"


def settle(instance: MappingInstance, best: Incumbent[Placement], most: float = math.inf) -> None:
    """Search until the best mapping is proven to be that, or told to stop, or targets take more than ``most`` checks.

    There has to be a mapping in ``best``. What rounding takes off the bound no search gives back: then that ends, too.
    """
    order, above, twin = placing_order(instance, by_stage=False), _above(instance), _twins(instance)
    least, floor = best_loads(instance), np.zeros(instance.devices)
    if instance.devices > 1:
        floor = np.ascontiguousarray(instance.fastest[:, 0])
    device = np.empty(instance.count, dtype=np.int32)

    def ask(target: float, checks: int) -> int:
        allowed = (least <= target).astype(np.int32)
        answer = depth_first(instance.arrays, order, above, twin, allowed, floor, target, checks, best.stop, device)
        best.counters["targets"] = best.counters.get("targets", 0) + 1
        if answer == FOUND:
            instance.offer(best, device, NAME)
        elif answer == NONE:
            best.prove(lowered(instance, target), NAME)
        return int(answer)

    checks = QUICK
    while not best.done and checks <= most:
        unknown = best.value
        while not best.done and unknown - best.bound > _PRECISION * unknown:
            target, before = (best.bound + unknown) / 2, best.bound
            if ask(target, checks) != NONE:
                unknown = min(target, best.value)
            elif best.bound <= before:
                return
        if not best.done and ask(best.value * (1 - GAP), checks) == NONE:
            return
        checks = min(checks * _GROWTH, _MOST_CHECKS)


def _above(instance: MappingInstance) -> Ints:
    """For every replica one whose device has a smaller number in some best mapping; −1 for none."""
    replicas = instance.replicas
    found = np.full(instance.count, -1, dtype=np.int32)
    if not instance.arrays.ring.any():
        found[1:replicas] = np.arange(replicas - 1)
        return found
    found[1:replicas] = 0
    if replicas > 2:
        found[replicas - 1] = 1
    return found


def _twins(instance: MappingInstance) -> Ints:
    """For every device the one before it that could change places with it; −1 for none."""
    inverse, time, count = instance.arrays.inverse, instance.arrays.time, instance.devices
    found = np.full(count, -1, dtype=np.int32)
    # Twins have the same links, in some order.
    alike = [(time[:, d].tobytes(), np.sort(inverse[d]).tobytes()) for d in range(count)]
    for d in range(count):
        for e in range(d - 1, -1, -1):
            if alike[d] != alike[e]:
                continue
            others = np.ones(count, dtype=bool)
            others[[d, e]] = False
            if (
                inverse[d, e] == inverse[e, d]
                and np.array_equal(time[:, d], time[:, e])
                and np.array_equal(inverse[d, others], inverse[e, others])
                and np.array_equal(inverse[others, d], inverse[others, e])
            ):
                found[d] = e
                break
    return found
