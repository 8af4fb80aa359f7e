"""Certificates of bounds on mappings: which stages find too few devices that are fast enough for them."""

from __future__ import annotations

from partita.checker.certificate import Problem, as_in_file, first_proving
from partita.checker.mapping.crowded import BestLoads, CrowdedDevices
from partita.checker.numbers import down, least
from partita.engines.search.result import Bound
from partita.ground.rounding import clearly_below
from partita.problems.mapping.bounds.neighbours import best_loads
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem

#: Replicas times devices up to which one is made.
_MOST = 50_000


def certify(problem: MappingProblem, bound: Bound) -> CrowdedDevices | None:
    """A certificate that shows a bound; None where the fastest links alone do not."""
    if problem.shortage() is not None or problem.used * problem.device_count > _MOST:
        return None
    instance = MappingInstance(problem)

    def made(stated: Problem) -> CrowdedDevices | None:
        return _crowded(instance, bound.value, BestLoads(stated))

    found = first_proving(as_in_file(problem), bound.value, [made])
    return found if isinstance(found, CrowdedDevices) else None


def _crowded(instance: MappingInstance, target: float, links: BestLoads) -> CrowdedDevices | None:
    """Replicas that are more than the devices on which they may be below a target; None if all find theirs."""
    loads = best_loads(instance)
    fast = [[d for d in range(instance.devices) if loads[s, d] < clearly_below(target)] for s in range(instance.stages)]
    at = [s for s in range(instance.stages) for _ in range(instance.replicas)]
    holder = [-1] * instance.devices
    for x in range(len(at)):
        reached: set[int] = set()
        if not _augment(x, at, fast, holder, reached):
            members = {x} | {holder[d] for d in reached}
            names = list(instance.turns)
            found = {replica: links.elsewhere(replica, reached) for replica in names}
            value = least(found[names[y]] for y in members)
            if value is None:
                return None
            slow = tuple(replica for replica, load in found.items() if load is None or load >= value)
            return CrowdedDevices(value=down(value), replicas=slow, devices=tuple(sorted(reached)))
    return None


def _augment(x: int, at: list[int], fast: list[list[int]], holder: list[int], tried: set[int]) -> bool:
    """Find a device for one more replica among those not tried yet, others moving on; whether there is one."""
    for d in fast[at[x]]:
        if d not in tried:
            tried.add(d)
            if holder[d] < 0 or _augment(holder[d], at, fast, holder, tried):
                holder[d] = x
                return True
    return False
