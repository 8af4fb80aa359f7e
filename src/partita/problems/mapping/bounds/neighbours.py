"""What every replica takes at best, and devices for all: a bottleneck assignment.

Source: own; for one device alone it is the first lower bound of Parmesan, equations (10) and (11), with both terms.

A replica of stage s on device d exchanges bytes with k other stages and, with R > 1 replicas, with one (R = 2) or two
partners in its ring, all on different devices. So its links are at best the fastest ones out of d, each used once.
Suppose the slower of the ring's links is the j-th fastest. Then the other ring link is best the one before it, which
leaves the fastest of the others to the transfers, and by the rearrangement inequality the largest transfer takes the
fastest of them; the minimum over j is a lower bound on the load of any replica of s on d.

The plan gives every stage R devices of its own. So the objective is at least the smallest T for which the devices on
which a stage's bound is at most T can be shared out so: a flow decides, bisection over the values finds T. Where there
are exactly as many devices as replicas, slow devices and those in corners have to be used, too, and the same flow says
who can be there.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.mapping.placing import covers
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod
from partita.problems.mapping.bounds.counted_machines import CountedBounds
from partita.problems.mapping.bounds.moving import least_moving, lowered
from partita.problems.mapping.counted import CountedInstance
from partita.problems.mapping.instance import MappingInstance, listable
from partita.problems.mapping.problem import MappingProblem


class Neighbours(BoundMethod[MappingProblem]):
    """See the module."""

    name = "neighbours"
    summary = "the fastest links of every device for its partners, and devices for all; ignores where partners are"
    argument = (
        "too few devices have links fast enough for the replicas of some stages, even if these had the fastest "
        "links to themselves"
    )

    def bound(self, problem: MappingProblem, monitor: Monitor) -> Bound:
        if listable(problem):
            instance = MappingInstance(problem)
            value = lowered(instance, assignment_bound(instance))
        else:
            counted = CountedInstance(problem)
            value = lowered(counted, CountedBounds(counted).neighbours())
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


def assignment_bound(instance: MappingInstance) -> float:
    """The bound; infinite if there are not enough devices."""
    if not instance.enough:
        return math.inf
    loads = best_loads(instance)
    values = np.unique(loads)
    capacity = np.full(instance.stages, instance.replicas, dtype=np.int32)
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        allowed = (loads <= values[middle]).astype(np.int32)
        if covers(allowed, capacity, instance.devices == instance.count):
            high = middle
        else:
            low = middle + 1
    return float(values[low])


def best_loads(instance: MappingInstance, fastest: Floats | None = None) -> Floats:
    """(S, D) What a replica of every stage takes at least on every device, where there are devices enough.

    ``fastest`` (D, k) is seconds per byte of the links that may be used out of every device, ascending; all if not
    given.
    """
    a = instance.arrays
    links = instance.fastest if fastest is None else fastest
    found = a.time.copy()
    for s in range(instance.stages):
        found[s] += least_moving(a.weight[a.ptr[s] : a.ptr[s + 1]], float(a.ring[s]), instance.partners[s], links)
    return found
