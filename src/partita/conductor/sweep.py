"""The same split problem over a grid of device counts, memories and bandwidths.

Points help each other. A problem *relaxes* another one when every plan of the second, with its devices renamed, is a
plan of the first that is feasible whenever it was and costs no more. ``relaxes`` checks what makes that so: the same
operators, tensors, parameters and saved tensors, the same rules, and, kind by kind, at least as many devices, at least
as much memory, transfers at most as long, and at most as many microbatches in flight at any distance from the last
stage. Loads and memory of a stage rise with transfer times and microbatches in flight and do not depend on devices left
empty, so the optimum of the relaxed problem is at most that of the other one. Hence

- a plan of the harder problem is a plan of the relaxed one,
- a lower bound of the relaxed problem is one of the harder problem,
- if the relaxed problem has no plan, neither has the harder one.

More devices, more memory and more bandwidth relax a problem. (Not always: training under GPipe with more microbatches
for more devices needs more memory. That is why the problems are compared and not the grid's coordinates.) Points are
solved most relaxed first, so that bounds and infeasibility are there in time: a plan that meets a known bound ends the
search. Afterwards plans are handed from harder to more relaxed points. All plans pass the evaluator of their point.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from partita.conductor.comparison import Comparison, adopt_better, best_of, compare, judge_plan
from partita.conductor.pipeline import ThroughputResult, solve
from partita.errors import DisagreementError
from partita.problems.throughput.plan import Contiguity, Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.sample_latency import pipeline_of
from partita.run.result import (
    OPTIMALITY_GAP,
    Bound,
    Progress,
    Result,
    Statistics,
    Status,
    StopReason,
    relative_gap,
)

__all__ = ["Point", "Row", "Sweep", "grid", "relaxes", "scale_bandwidth", "sweep", "transfer"]


@dataclass(frozen=True)
class Point:
    """Where on the grid; None leaves the value as the file or cluster has it.

    Attributes
    ----------
    devices
        Accelerators.
    memory_bytes
        Memory of each accelerator, infinite for no limit.
    bandwidth
        Factor on every bandwidth.
    """

    devices: int | None = None
    memory_bytes: float | None = None
    bandwidth: float = 1.0


@dataclass(frozen=True)
class Row:
    """One solved point: the result with what its neighbours added, and the best feasible baseline."""

    point: Point
    result: ThroughputResult
    baseline: Comparison | None

    def document(self) -> dict[str, object]:
        """Plain values; the objective of a point without a plan is null."""
        result, best = self.result, self.baseline
        problem = result.problem
        pipeline = None
        if result.plan is not None and result.evaluation is not None:
            pipeline = pipeline_of(problem, result.plan, result.evaluation)
        memories = {kind.memory_bytes for kind in problem.kinds if kind.accelerator}
        return {
            "devices": sum(kind.count for kind in problem.kinds if kind.accelerator),
            "memory_bytes": next(iter(memories)) if len(memories) == 1 else None,
            "bandwidth": self.point.bandwidth,
            "objective": result.objective,
            "bound": None if result.bound is None else result.bound.value,
            "gap": result.gap,
            "status": str(result.status),
            "stop_reason": str(result.stop_reason),
            "runtime_s": result.runtime_s,
            "baseline": None if best is None else best.name,
            "baseline_objective": None if best is None or best.evaluation is None else best.evaluation.objective,
            "depth": None if pipeline is None else pipeline.depth,
            "latency": None if pipeline is None else pipeline.latency,
            "reason": result.reason or None,
        }


@dataclass(frozen=True)
class Sweep:
    """Rows in the grid's order; ``interrupted`` if points are missing because of Ctrl-C."""

    rows: tuple[Row, ...]
    interrupted: bool = False


def grid(devices: Sequence[int], memory_bytes: Sequence[float], bandwidth: Sequence[float]) -> list[Point]:
    """All combinations, devices outermost; an empty list leaves its value as it is."""
    counts: list[int | None] = [*devices] or [None]
    memories: list[float | None] = [*memory_bytes] or [None]
    return [Point(*values) for values in itertools.product(counts, memories, [*bandwidth] or [1.0])]


def scale_bandwidth(problem: ThroughputProblem, factor: float) -> ThroughputProblem:
    """The problem with every bandwidth times ``factor``; the fixed time per transfer stays."""
    if factor == 1.0:
        return problem
    kinds = tuple(
        msgspec.structs.replace(
            kind,
            transfer_time_per_unit=kind.transfer_time_per_unit / factor,
            sync_time_per_byte=kind.sync_time_per_byte / factor,
            reload_time_per_byte=kind.reload_time_per_byte / factor,
        )
        for kind in problem.kinds
    )
    groups = tuple(
        msgspec.structs.replace(group, transfer_time_per_unit=group.transfer_time_per_unit / factor)
        for group in problem.groups
    )
    return problem.replace(kinds=kinds, groups=groups)


def relaxes(easier: ThroughputProblem, harder: ThroughputProblem) -> bool:
    """Whether every plan of ``harder`` is one of ``easier`` that is no worse, by the argument of the module."""
    a, b = easier, harder
    if (a.communication, a.streaming, a.working_memory, a.weight_sync_per_batch) != (
        b.communication,
        b.streaming,
        b.working_memory,
        b.weight_sync_per_batch,
    ):
        return False
    if a.max_replicas < b.max_replicas or len(a.kinds) != len(b.kinds) or len(a.groups) != len(b.groups):
        return False
    for mine, other in zip(a.kinds, b.kinds, strict=True):
        if (mine.name, mine.accelerator) != (other.name, other.accelerator) or mine.count < other.count:
            return False
        if mine.memory_bytes is not None and (other.memory_bytes is None or mine.memory_bytes < other.memory_bytes):
            return False
        if any(getattr(mine, field) > getattr(other, field) for field in _KIND_TIMES):
            return False
    for group, same in zip(a.groups, b.groups, strict=True):
        # Devices of a group cannot stand in for those of another one.
        if group.counts != same.counts or group.transfer_time_per_unit > same.transfer_time_per_unit:
            return False
        if group.transfer_latency > same.transfer_latency:
            return False
    return _schedule_relaxes(a, b) and all(
        getattr(a, field) is getattr(b, field) or getattr(a, field) == getattr(b, field)
        for field in ("operators", "tensors", "parameters", "saved")
    )


_KIND_TIMES = ("transfer_time_per_unit", "transfer_latency", "sync_time_per_byte", "reload_time_per_byte")


def _schedule_relaxes(a: ThroughputProblem, b: ThroughputProblem) -> bool:
    """No more microbatches in flight anywhere; their number itself matters where it divides the synchronisation."""
    if (a.schedule.name, a.schedule.recompute) != (b.schedule.name, b.schedule.recompute):
        return False
    if a.weight_sync_per_batch and a.schedule.microbatches < b.schedule.microbatches:
        return False
    return all(
        a.schedule.in_flight(left, replicas) <= b.schedule.in_flight(left, replicas)
        for replicas in range(1, b.max_replicas + 1)
        for left in range(replicas, b.device_count + 1)
    )


def transfer(plan: Plan, problem: ThroughputProblem) -> Plan | None:
    """The plan on another problem's devices, kind by kind in the same order; None if there are too few."""
    names: dict[str, list[str]] = {}
    for name, kind in problem.device_names():
        names.setdefault(problem.kinds[kind].name, []).append(name)
    present = {name for row in names.values() for name in row}
    if all(device in present for stage in plan.stages for device in stage.devices):
        return plan
    if problem.groups:
        return None
    stages: list[Stage] = []
    for stage in plan.stages:
        free = names.get(stage.kind, [])
        if len(free) < len(stage.devices):
            return None
        device, *replicas = [free.pop(0) for _ in stage.devices]
        stages.append(msgspec.structs.replace(stage, device=device, replicas=tuple(replicas)))
    return msgspec.structs.replace(plan, stages=tuple(stages))


def sweep(
    points: Sequence[Point],
    problem_at: Callable[[Point], ThroughputProblem],
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    contiguity: Contiguity = "acyclic",
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    solved: Callable[[Row], None] | None = None,
) -> Sweep:
    """Solve every point.

    Parameters
    ----------
    points
        The grid; rows come back in its order.
    problem_at
        The problem at a point.
    time_limit_s
        Wall time of each point.
    seed, contiguity, solver, threads, progress
        As for ``solve``.
    solved
        Called with every row as soon as it is there, before its neighbours improve it.

    Returns
    -------
    Sweep
        On Ctrl-C with the rows so far.

    Raises
    ------
    InputError
        As ``solve`` does.
    DisagreementError
        If a plan of one point contradicts what was proven for another: a defect.
    """
    problems = [problem_at(point) for point in points]
    above = [
        [j for j in range(len(points)) if j != i and relaxes(problems[j], problems[i])] for i in range(len(points))
    ]
    # A point that relaxes another one is relaxed by fewer itself; equal problems keep the grid's order.
    order = sorted(range(len(points)), key=lambda i: (len(above[i]), i))
    rows: dict[int, Row] = {}
    interrupted = False
    for i in order:
        known = [rows[j] for j in above[i] if j in rows]
        try:
            row = _solve_point(
                points[i],
                problems[i],
                known,
                Run(time_limit_s, seed, contiguity, solver, threads, progress),
            )
        except KeyboardInterrupt:
            interrupted = True
            break
        rows[i] = row
        if solved is not None:
            solved(row)
        if row.result.stop_reason is StopReason.INTERRUPTED:
            interrupted = True
            break
    for i in reversed(order):
        if i not in rows:
            continue
        harder = [rows[j] for j in range(len(points)) if j in rows and i in above[j]]
        rows[i] = dataclasses.replace(
            rows[i], result=adopt_better(rows[i].result, _neighbours(problems[i], harder), contiguity)
        )
    return Sweep(tuple(rows[i] for i in sorted(rows)), interrupted)


@dataclass(frozen=True)
class Run:
    """What every point is solved with; see ``sweep``."""

    time_limit_s: float | None
    seed: int
    contiguity: Contiguity
    solver: str | None
    threads: int
    progress: Progress | None


def _solve_point(point: Point, problem: ThroughputProblem, relaxed: Sequence[Row], run: Run) -> Row:
    """Solve one point, given the rows of points that relax it."""
    if any(row.result.status is Status.INFEASIBLE for row in relaxed):
        reason = "infeasible already with more devices, memory or bandwidth"
        return Row(point, _answer(problem, run, Status.INFEASIBLE, reason=reason), None)
    bound = max((row.result.bound for row in relaxed if row.result.bound), key=lambda b: b.value, default=None)
    # A plan of a relaxed point may fit here as it is, if it leaves devices or memory unused.
    guesses = _neighbours(problem, relaxed)
    best = best_of(guesses, run.contiguity)
    if best is not None and best.evaluation is not None and bound is not None:
        gap = relative_gap(best.evaluation.objective, bound.value)
        if gap is not None and gap <= OPTIMALITY_GAP:
            rows = compare(problem, contiguity=run.contiguity, seed=run.seed)
            result = adopt_better(_answer(problem, run, Status.UNKNOWN, bound=bound), [best, *rows], run.contiguity)
            return Row(point, result, best_of(rows, run.contiguity))
    result = solve(
        problem,
        time_limit_s=run.time_limit_s,
        seed=run.seed,
        contiguity=run.contiguity,
        solver=run.solver,
        threads=run.threads,
        progress=run.progress,
        target=None if bound is None else bound.value * (1 + OPTIMALITY_GAP / 2),
        # What would be enough is what the other points of the grid show.
        explain=False,
    )
    if result.status is Status.INFEASIBLE:
        result = dataclasses.replace(result, reason="no split fits these devices")
    if result.stop_reason is StopReason.INTERRUPTED:
        return Row(point, adopt_better(_with_bound(result, bound), guesses, run.contiguity), None)
    rows = compare(problem, contiguity=run.contiguity, seed=run.seed)
    result = adopt_better(_with_bound(result, bound), [*rows, *guesses], run.contiguity)
    return Row(point, result, best_of(rows, run.contiguity))


def _answer(
    problem: ThroughputProblem, run: Run, status: Status, *, bound: Bound | None = None, reason: str = ""
) -> ThroughputResult:
    """A result that needs no search."""
    return Result(
        problem=problem,
        plan=None,
        evaluation=None,
        bound=bound,
        status=status,
        stop_reason=StopReason.PROVED,
        solver="sweep",
        seed=run.seed,
        runtime_s=0.0,
        reason=reason,
        statistics=Statistics(),
    )


def _with_bound(result: ThroughputResult, bound: Bound | None) -> ThroughputResult:
    """The result with a relaxed point's bound, where that is tighter."""
    if bound is None or result.status is Status.INFEASIBLE:
        return result
    if result.bound is not None and result.bound.value >= bound.value:
        return result
    value, status = bound.value, result.status
    if result.objective is not None:
        if value > result.objective * (1 + OPTIMALITY_GAP):
            raise DisagreementError(f"bound {value!r} of a relaxed point is above the objective {result.objective!r}")
        value = min(value, result.objective)
        gap = relative_gap(result.objective, value)
        if gap is not None and gap <= OPTIMALITY_GAP:
            status = Status.OPTIMAL
    tighter = dataclasses.replace(bound, value=value)
    reason = StopReason.PROVED if status is Status.OPTIMAL else result.stop_reason
    return dataclasses.replace(result, bound=tighter, status=status, stop_reason=reason)


def _neighbours(problem: ThroughputProblem, rows: Sequence[Row]) -> list[Comparison]:
    """Plans of other points, judged on this one; the ones that need devices that are not here are left out."""
    found = []
    for row in rows:
        plan = None if row.result.plan is None else transfer(row.result.plan, problem)
        if plan is not None:
            found.append(judge_plan(problem, "another point", "the plan of another point", plan, 0.0))
    return found
