"""A certificate that some stages do not find devices enough that are fast enough for them.

A replica of a stage on device d exchanges bytes with other replicas, each on another device, and with one or two
partners in its ring. If its links were the fastest ones out of d, each used once, the largest exchange over the fastest
of them, and the slower of the ring's links the j-th fastest with the other ring link just before it, for the best j, it
would still take the number ``best_load``. With a target T, a replica can only be on a device where this is at most T.
If all replicas of some stages could only be on fewer devices than they are, T is too small: so the objective is at
least the least best load of these stages on any other device.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from partita.checker.certificate import Certificate, Problem
from partita.checker.mapping.plan import counts, device_count, exchanged, own_time, reduced, seconds
from partita.checker.numbers import FailedCheckError, least


class CrowdedDevices(Certificate, frozen=True, kw_only=True, tag="crowded-devices"):
    """See the module."""

    says = "these replicas are more than these devices, and any other device is slower for them, with its fastest links"

    replicas: tuple[tuple[int, int], ...]  #: Pairs of stage and replica, all that are as slow on any other device.
    devices: tuple[int, ...]  #: Fewer devices than these replicas.

    def proves(self, problem: Problem) -> Fraction:
        """The least best load of the replicas on any other device."""
        links = BestLoads(problem)
        inside = set(self.devices)
        if len(set(self.replicas)) < len(self.replicas) or len(inside) < len(self.devices):
            raise FailedCheckError("a replica or a device is named twice")
        if not inside <= set(range(links.devices)) or not set(self.replicas) <= links.exchanges.keys():
            raise FailedCheckError("it names a replica or a device that there is not")
        if len(self.devices) >= len(self.replicas):
            raise FailedCheckError("there are devices enough for these replicas")
        found = {replica: links.elsewhere(replica, inside) for replica in links.exchanges}
        value = least(found[replica] for replica in self.replicas)
        if value is None:
            raise FailedCheckError("there are not devices enough for all replicas, and so there is no plan")
        slow = [replica for replica, load in found.items() if load is None or load >= value]
        if sorted(slow) != sorted(self.replicas):
            raise FailedCheckError("it leaves out replicas that are as slow on any other device")
        return value


class BestLoads:
    """What replicas take at least on devices."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.devices = device_count(problem)
        self.exchanges = exchanged(problem)
        self.rings = [reduced(problem, s) for s in range(len(problem["stages"]))]
        self.count = counts(problem)
        self._links: dict[int, list[Fraction]] = {}

    def best_load(self, replica: tuple[int, int], device: int) -> Fraction | None:
        """The number of the module; None where there are fewer links than it needs."""
        stage = replica[0]
        moved: dict[tuple[int, int], Fraction] = {}
        for other, size in self.exchanges[replica]:
            moved[other] = moved.get(other, Fraction(0)) + size
        sizes = sorted((size for size in moved.values() if size), reverse=True)
        ring = min(2, self.count[stage] - 1) if self.rings[stage] else 0
        links = self._fastest(device)
        count = len(sizes) + ring
        if len(links) < count:
            return None
        options = []
        for last in range(max(ring - 1, 0), count) if ring else (-1,):
            rest = [link for k, link in enumerate(links[:count]) if not last - ring < k <= last]
            slower = self.rings[stage] * links[last] if ring else Fraction(0)
            options.append(slower + sum((a * b for a, b in zip(sizes, rest, strict=True)), Fraction(0)))
        return own_time(self.problem, stage, device) + min(options)

    def elsewhere(self, replica: tuple[int, int], inside: Collection[int]) -> Fraction | None:
        """Its least best load on a device that is not among some."""
        return least(self.best_load(replica, device) for device in range(self.devices) if device not in inside)

    def _fastest(self, device: int) -> list[Fraction]:
        if device not in self._links:
            self._links[device] = sorted(
                seconds(self.problem, device, other) for other in range(self.devices) if other != device
            )
        return self._links[device]
