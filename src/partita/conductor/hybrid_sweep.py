"""One hybrid plan for every number of devices, memory and bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from partita.conductor.hybrid_comparison import HybridRow, adopt_better_hybrid, compare_hybrid
from partita.conductor.hybrid_pipeline import HybridResult, solve_hybrid
from partita.conductor.sweep import Point
from partita.errors import InputError
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step_time import StepTime, step_time
from partita.run.result import Progress, StopReason

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.conductor.hybrid_planning import HybridModelPlan

__all__ = [
    "HybridSweep",
    "HybridSweepRow",
    "change_problem",
    "from_model_plan",
    "scale_cluster",
    "solve_point",
    "sweep_hybrid",
]


@dataclass(frozen=True)
class HybridSweepRow:
    """One solved point.

    Attributes
    ----------
    point
        Where.
    result, step
        The plan, and the time of a step by it.
    recipe
        The best feasible recipe.
    utilisation
        Model FLOPs utilisation of the whole step; None where the model's operations are not known.
    """

    point: Point
    result: HybridResult
    step: StepTime | None
    recipe: HybridRow | None
    utilisation: float | None = None


@dataclass(frozen=True)
class HybridSweep:
    """Rows in the grid's order; ``interrupted`` if points are missing because of Ctrl-C."""

    rows: tuple[HybridSweepRow, ...]
    interrupted: bool = False

    def efficiency(self, row: HybridSweepRow) -> float | None:
        """Device time per sample of the smallest like point with a plan, over this one's."""
        like = [
            other.result
            for other in self.rows
            if (other.point.memory_bytes, other.point.bandwidth) == (row.point.memory_bytes, row.point.bandwidth)
            and other.result.objective
        ]
        if not row.result.objective or not like:
            return None
        base = min(like, key=lambda result: result.problem.devices)
        assert base.objective is not None
        return base.objective * base.problem.devices / (row.result.objective * row.result.problem.devices)


def sweep_hybrid(points: Sequence[Point], solve: Callable[[Point], HybridSweepRow]) -> HybridSweep:
    """Solve every point; on Ctrl-C the rows so far.

    Parameters
    ----------
    points
        The grid.
    solve
        What a point gives: ``solve_point`` on a problem of a file, ``from_model_plan`` for a model.
    """
    rows: list[HybridSweepRow] = []
    for point in points:
        try:
            rows.append(solve(point))
        except KeyboardInterrupt:
            return HybridSweep(tuple(rows), True)
        if rows[-1].result.stop_reason is StopReason.INTERRUPTED:
            return HybridSweep(tuple(rows), True)
    return HybridSweep(tuple(rows))


def solve_point(
    point: Point,
    problem: HybridProblem,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> HybridSweepRow:
    """Plan a problem, and find the best recipe for it; parameters as for ``solve``."""
    result = solve_hybrid(
        problem, time_limit_s=time_limit_s, seed=seed, solver=solver, threads=threads, progress=progress, explain=False
    )
    rows = []
    if result.stop_reason is not StopReason.INTERRUPTED:
        rows = compare_hybrid(problem, seed=seed, threads=threads)
        result = adopt_better_hybrid(result, rows)
    step = None
    if result.plan is not None and result.evaluation is not None:
        step = step_time(problem, result.plan, result.evaluation)
    return HybridSweepRow(point, result, step, _best(rows))


def from_model_plan(point: Point, answer: HybridModelPlan) -> HybridSweepRow:
    """The row of a model's plan."""
    used = None if answer.step is None else answer.utilisation(answer.step.per_sample)
    return HybridSweepRow(point, answer.result, answer.step, _best(answer.recipes), used)


def _best(rows: Sequence[HybridRow]) -> HybridRow | None:
    feasible = [row for row in rows if row.feasible]
    return min(feasible, key=lambda row: row.evaluation.objective if row.evaluation else 0.0, default=None)


def change_problem(problem: HybridProblem, point: Point, *, devices: bool = True) -> HybridProblem:
    """The problem at a point; with ``devices`` false the point's number of devices is in the problem already."""
    changes: dict[str, Any] = {}
    if devices and point.devices is not None:
        changes["devices"] = point.devices
    changed = problem.replace(memory_bytes=point.memory_bytes, **changes)
    return changed if point.bandwidth == 1.0 else changed.scale_communication(1.0 / point.bandwidth)


def scale_cluster(cluster: Cluster, devices: int) -> Cluster:
    """The cluster with another number of devices, in machines like its first one.

    A cluster of one device is a kind of device: its machine grows. Up to one machine there are fewer devices in it,
    beyond that there are more machines.

    Raises
    ------
    InputError
        If the machines differ, have several kinds of devices, or the devices do not fill machines.
    """
    machine = cluster.machines[0]
    if any(other != machine for other in cluster.machines) or len(machine.devices) != 1:
        raise InputError(
            f"cluster {cluster.name} has different machines or devices; other numbers of devices need machines that "
            "are alike, such as 8xA100-80GB or 2x(8xA100-80GB)"
        )
    if cluster.matrix_bytes_per_s is not None:
        raise InputError(f"cluster {cluster.name} has a bandwidth matrix, which other numbers of devices do not fit")
    name, size = machine.devices[0]
    if (size == 1 and len(cluster.machines) == 1) or devices <= size:
        size = devices
    if devices % size:
        raise InputError(
            f"{devices} devices do not fill machines of {size}; "
            f"take {devices // size * size} or {(devices // size + 1) * size}"
        )
    count = devices // size
    link = "" if machine.link is None else f"@{machine.link}"
    text = f"{size}x{name}{link}" if count == 1 else f"{count}x({size}x{name}){link}"
    return msgspec.structs.replace(
        cluster,
        name=f"{text}:{cluster.network}" if count > 1 else text,
        machines=(msgspec.structs.replace(machine, devices=((name, size),)),) * count,
    )
