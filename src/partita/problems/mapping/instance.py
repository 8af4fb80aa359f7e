"""A mapping problem as arrays, and plans from arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice, pairwise

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.graph_arrays import csr
from partita.engines.kernels.mapping.arrays import MappingArrays
from partita.engines.search.incumbent import Incumbent
from partita.ground.errors import UnsupportedError
from partita.nouns.topology.counted import CountedLinks
from partita.nouns.topology.topology import MAX_TOPOLOGY, Bandwidths
from partita.problems.mapping.evaluate import check_devices, evaluate
from partita.problems.mapping.problem import MappingProblem, Placement


class MappingReplicas:
    """The replicas of a problem, and who exchanges how many bytes with whom, wherever they are.

    Where stages have different numbers of replicas, each replica is a stage of its own here, with one replica; rings
    and exchanges are the same. Numbers have the form of the objective in them.

    Raises ``InputError`` if the problem's devices are not said.
    """

    def __init__(self, problem: MappingProblem) -> None:
        check_devices(problem)
        self.problem = problem
        counts = problem.counts
        self.even = len(set(counts)) == 1  #: Whether all stages have as many replicas.
        #: How many there are; ``count`` is that of replicas of all stages.
        self.devices, self.count = problem.device_count, problem.used
        self.stages, self.replicas = (len(counts), counts[0]) if self.even else (self.count, 1)
        first = np.concatenate(([0], np.cumsum(counts)))
        exchanges = problem.exchanges()
        # Of every stage here its first replica.
        members = [(s, 0) for s in range(len(counts))] if self.even else list(self.turns)
        #: By stage here, the problem's; its replicas can be at the same devices.
        self.stage_of = [s for s, _ in members]
        moved: list[dict[int, float]] = [{} for _ in members]
        for row, (s, r) in zip(moved, members, strict=True):
            for t, q, size in exchanges[s][r]:
                other = t if self.even else int(first[t]) + q
                if size > 0:
                    row[other] = row.get(other, 0.0) + size
        rows = [sorted(row) for row in moved]
        reduced = [
            0.0 if problem.form == "point-to-point" else 2.0 * (counts[s] - 1) / counts[s] * stage.parameter_bytes
            for s, stage in enumerate(problem.stages)
        ]
        #: By stage here, others that each of its replicas has in its ring: 0, 1 or 2.
        self.partners = [0 if reduced[s] == 0 else min(2, counts[s] - 1) for s in self.stage_of]
        #: As in ``MappingArrays``: who exchanges, and rings.
        self.ptr, self.other = csr(rows)
        self.weight: Floats = np.array([row[t] for row in moved for t in sorted(row)], dtype=np.float64)
        self.ring: Floats = np.array([reduced[s] for s in self.stage_of], dtype=np.float64)
        self.after: Ints = np.array([first[s] + (r + 1) % counts[s] for s, r in self.turns], dtype=np.int32)
        self.before: Ints = np.array([first[s] + (r - 1) % counts[s] for s, r in self.turns], dtype=np.int32)

    @property
    def turns(self) -> Iterator[tuple[int, int]]:
        """The problem's stage and replica of every replica, in the order of their numbers."""
        return ((s, r) for s, count in enumerate(self.problem.counts) for r in range(count))

    def beside(self, s: int, r: int) -> list[tuple[int, int]]:
        """Stage and replica of those next to a replica in its ring; none where nothing is reduced."""
        x = s * self.replicas + r
        ends = (int(self.after[x]), int(self.before[x]))[: self.partners[s]]
        return [divmod(end, self.replicas) for end in ends]

    @property
    def enough(self) -> bool:
        """Whether there are devices for all."""
        return self.devices >= self.count

    def exchanges(self, s: int) -> list[tuple[int, float]]:
        """The stages that one exchanges bytes with, and how many."""
        span = slice(int(self.ptr[s]), int(self.ptr[s + 1]))
        return list(zip(self.other[span].tolist(), self.weight[span].tolist(), strict=True))

    @cached_property
    def exchanges_of(self) -> list[list[tuple[int, float]]]:
        """The same of every stage."""
        return [self.exchanges(s) for s in range(self.stages)]

    def plan(self, device: Ints) -> Placement:
        """The plan of an array of devices."""
        places = iter(device.tolist())
        return Placement(placement=tuple(tuple(islice(places, count)) for count in self.problem.counts))

    def offer(self, best: Incumbent[Placement], device: Ints, by: str) -> float:
        """Evaluate an array of devices and offer it; what it is worth."""
        plan = self.plan(device)
        value = evaluate(self.problem, plan).objective
        best.offer(value, plan, by)
        return value


class MappingInstance(MappingReplicas):
    """What searches and bounds work on, which know every link: ``arrays``.

    Raises ``InputError`` if the problem's devices are not said; ``UnsupportedError`` if they are too many for a matrix.
    """

    def __init__(self, problem: MappingProblem) -> None:
        if not listable(problem):
            raise UnsupportedError(
                f"problem {problem.name!r} counts {problem.device_count} devices; what looks at every link of every "
                f"device takes {MAX_TOPOLOGY} of them; use --solver combined"
            )
        super().__init__(problem)
        bandwidth = bandwidths(problem)
        matrix = bandwidth.matrix() if isinstance(bandwidth, CountedLinks) else bandwidth
        times = [
            stage.times_s if stage.times_s is not None else [stage.time_s] * self.devices for stage in problem.stages
        ]
        self.arrays = MappingArrays(
            replicas=self.replicas,
            time=np.array([times[s] for s in self.stage_of], dtype=np.float64).reshape(self.stages, self.devices),
            inverse=1.0 / matrix,
            ptr=self.ptr,
            other=self.other,
            weight=self.weight,
            ring=self.ring,
            after=self.after,
            before=self.before,
        )

    @cached_property
    def falling(self) -> MappingArrays:
        """The same with the exchanges of every stage sorted by size, the largest first."""
        a = self.arrays
        spans = [np.arange(first, last) for first, last in pairwise(a.ptr.tolist())]
        order = np.concatenate([span[np.argsort(-a.weight[span], kind="stable")] for span in spans]).astype(np.int64)
        return a._replace(other=a.other[order], weight=a.weight[order])

    @cached_property
    def near(self) -> Ints:
        """(D, D − 1) The other devices by the speed of the link from each device, the fastest first."""
        order = np.argsort(self.arrays.inverse + np.diag(np.full(self.devices, -1.0)), axis=1, kind="stable")
        found: Ints = np.ascontiguousarray(order[:, 1:].astype(np.int32))
        return found

    @cached_property
    def fastest(self) -> Floats:
        """(D, D − 1) Seconds per byte of the links from each device, ascending."""
        found: Floats = np.take_along_axis(self.arrays.inverse, self.near.astype(np.int64), axis=1)
        return found


def bandwidths(problem: MappingProblem) -> Bandwidths:
    """[device, device] bytes per second, infinite on the diagonal: a matrix, or counted machines as one."""
    if problem.machines:
        return CountedLinks(problem.machines)
    # None becomes no number; only the diagonal may be that.
    found = np.array(problem.bandwidth_bytes_per_s, dtype=np.float64).reshape(problem.device_count, -1)
    np.fill_diagonal(found, np.inf)
    return found


def listable(problem: MappingProblem) -> bool:
    """Whether all links of a problem can be looked at one by one: they are, or machines have few devices together."""
    return not problem.machines or problem.device_count <= MAX_TOPOLOGY


def device_array(plan: Placement) -> Ints:
    """The array of a plan."""
    return np.array([device for row in plan.placement for device in row], dtype=np.int32)
