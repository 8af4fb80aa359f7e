"""The objective and the feasibility of a mapping: the only place where they are defined.

Replica r of stage s on device d takes

    time(s, d) + Σ bytes / B(d, e) + 2·(R − 1)/R · parameter_bytes(s) / min(B(d, next), B(d, previous)),

the sum over all transfers of the stage, in and out, where e is the device of replica r of the stage at the other end;
the last term, for R > 1, is a ring all-reduce over the links to the devices of the next and of the previous replica
(r ± 1 modulo R). Of stages with different numbers of replicas, those exchange bytes that meet when microbatches take
turns (``Transfer``). The objective is the largest of all replicas. All links are read in the row of the replica's own
device, whichever way the bytes go: where bandwidths are not symmetric, a replica pays for its own end.

Source: Parmesan, equations (6) to (9); with both terms, which its §V.B names and leaves to the simulator.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from partita.engines.search.result import PlanEvaluation
from partita.ground.errors import InputError
from partita.problems.mapping.problem import MappingProblem, Placement


class ReplicaLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica takes, in seconds, by part."""

    compute: float
    point_to_point: float
    all_reduce: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.compute + self.point_to_point + self.all_reduce


class MappingEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a mapping is worth: the time of its slowest replica."""

    loads: tuple[tuple[ReplicaLoad, ...], ...]  #: By stage, then by replica.
    critical: tuple[int, int]  #: Stage and replica of the slowest one, the first of several.


def evaluate(problem: MappingProblem, plan: Placement) -> MappingEvaluation:
    """Objective and feasibility of a mapping, from the problem alone.

    Raises ``InputError`` if it is not a mapping of this problem: a stage or replica is missing, a device is unknown, or
    the problem's devices are not said.
    """
    _check_shape(problem, plan)
    link = problem.links.link if problem.machines else problem.link
    rows = tuple(
        tuple(_load(problem, link, plan.placement, ends, s, r) for r, ends in enumerate(row))
        for s, row in enumerate(problem.exchanges())
    )
    worst, critical = -1.0, (0, 0)
    for s, row in enumerate(rows):
        for r, load in enumerate(row):
            if load.total > worst:
                worst, critical = load.total, (s, r)
    return MappingEvaluation(objective=worst, violations=_violations(problem, plan), loads=rows, critical=critical)


def _load(
    problem: MappingProblem,
    link: Callable[[int, int], float],
    placement: tuple[tuple[int, ...], ...],
    ends: list[tuple[int, int, float]],
    s: int,
    r: int,
) -> ReplicaLoad:
    stage, device = problem.stages[s], placement[s][r]
    moved = sum(size / link(device, placement[other][end]) for other, end, size in ends)
    reduced = 0.0
    count = len(placement[s])
    if count > 1 and problem.form != "point-to-point":
        slower = min(link(device, placement[s][(r + step) % count]) for step in (1, -1))
        reduced = 2.0 * (count - 1) / count * stage.parameter_bytes / slower
    own = stage.time_s if stage.times_s is None else stage.times_s[device]
    assert own is not None
    return ReplicaLoad(compute=own, point_to_point=moved, all_reduce=reduced)


def _check_shape(problem: MappingProblem, plan: Placement) -> None:
    """Refuse what is no mapping of the problem."""
    check_devices(problem)
    if len(plan.placement) != len(problem.stages):
        raise InputError(f"the plan has {len(plan.placement)} stages; the problem has {len(problem.stages)}")
    count = problem.device_count
    for s, (row, replicas) in enumerate(zip(plan.placement, problem.counts, strict=True)):
        if len(row) != replicas:
            raise InputError(f"the plan has {len(row)} replicas of stage {s}; the problem has {replicas}")
        for device in row:
            if not 0 <= device < count:
                raise InputError(f"the plan has stage {s} on device {device}; the devices are 0 to {count - 1}")


def check_devices(problem: MappingProblem) -> None:
    """Refuse a problem whose devices are still to be said."""
    if not problem.device_count:
        raise InputError(
            f"problem {problem.name!r} has no bandwidth_bytes_per_s; give the devices with --topology, or the "
            "matrix in the file"
        )


def _violations(problem: MappingProblem, plan: Placement) -> tuple[str, ...]:
    home: dict[int, str] = {}
    found = []
    for s, row in enumerate(plan.placement):
        for r, device in enumerate(row):
            who = f"replica {r} of stage {s}"
            if device in home:
                found.append(f"{problem.device_name(device)} runs {home[device]} and {who}; it takes one")
            home.setdefault(device, who)
    return tuple(found)
