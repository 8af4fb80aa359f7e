"""The same problem at every point of a grid.

Points help each other. A problem *relaxes* another one when every plan of the second is, after the problem's own
``transfer``, a plan of the first that is feasible whenever it was and costs no more; each problem says for itself when
that is so (``facets.sweep.Sweep.relaxes``). Hence

- a plan of the harder problem is a plan of the relaxed one,
- a lower bound of the relaxed problem is one of the harder problem,
- if the relaxed problem has no plan, neither has the harder one.

The problems are compared and not the grid's coordinates: more devices do not always relax a problem. Points are solved
most relaxed first, so that bounds and infeasibility are there in time: a plan that meets a known bound ends the search.
Afterwards plans are handed from harder to more relaxed points. All plans pass the evaluator of their point.

What points say of one another is handed on, so a point asks those only that relax it with none between: a thousand
points along one axis are a thousand questions, not half a million. It waits for those and for no others: points that
do not relax each other are solved side by side, if there are workers, with the answers of one after the other.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partita.conductor.compare import beside_baselines
from partita.conductor.judge import adopt_better, best_of, judge_plan, with_bound
from partita.conductor.plan import BASELINES, SEARCH, answer
from partita.conductor.solve import check_time_limit, options_of, run_solver
from partita.engines.processes.pool import Pool
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Progress, Result, Rival, Status, StopReason, relative_gap
from partita.ground.dags import directed_graph, members_of, ranks
from partita.ground.rounding import CLOSE, OPTIMALITY_GAP
from partita.ground.shown import brief
from partita.problems import kind_of
from partita.problems.facets.model import ModelPlan, Priced
from partita.problems.kind import AnyResult

#: Where on the grid: values by axis; an axis without a value stays as it is.
Point = Mapping[str, Any]


@dataclass(frozen=True)
class SweptPoint:
    """One solved point: its result with what its neighbours added, and the best feasible baseline, None for none.

    ``answer`` is what the problem makes of it for a model, None for a stated problem.
    """

    point: Point
    result: AnyResult
    baseline: Rival | None
    answer: ModelPlan[Any] | None = None

    __repr__ = brief


@dataclass(frozen=True)
class Swept:
    """Solved points in the grid's order; ``interrupted`` if some are missing because of Ctrl-C."""

    points: tuple[SweptPoint, ...]
    interrupted: bool = False

    __repr__ = brief

    def rows(self) -> list[dict[str, Any]]:
        """One for each point, as plain values; the objective of a point without a plan is null."""
        if not self.points:
            return []
        facet = kind_of(self.points[0].result.problem).sweep
        points, results, answers = zip(
            *((entry.point, entry.result, entry.answer) for entry in self.points), strict=True
        )
        further = facet.figures(points, results, answers)
        return [
            {
                **facet.place(entry.result.problem, entry.point),
                "objective": entry.result.objective,
                "bound": None if entry.result.bound is None else entry.result.bound.value,
                "gap": entry.result.gap,
                "status": str(entry.result.status),
                "stop_reason": str(entry.result.stop_reason),
                "runtime_s": entry.result.runtime_s,
                "baseline": None if entry.baseline is None else entry.baseline.name,
                "baseline_objective": None if entry.baseline is None else entry.baseline.evaluation.objective,
                **figures,
                "reason": entry.result.reason or None,
            }
            for entry, figures in zip(self.points, further, strict=True)
        ]


def grid(axes: Mapping[str, Sequence[Any]]) -> list[Point]:
    """All combinations of the values given, the first axis outermost; an empty list leaves its value as it is."""
    stated = {name: values for name, values in axes.items() if values}
    return [dict(zip(stated, values, strict=True)) for values in itertools.product(*stated.values())]


def sweep(
    points: Sequence[Point],
    problem_at: Callable[[Point], Any],
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    pool: Pool | None = None,
    progress: Progress | None = None,
    solved: Callable[[SweptPoint], None] | None = None,
    **options: Any,
) -> Swept:
    """Solve every point.

    Parameters
    ----------
    points
        The grid; solved points come back in its order.
    problem_at
        The problem at a point, or for a model the priced one.
    time_limit_s
        Wall time of each point.
    seed, solver, threads, progress, options
        As for ``solve``; progress is that of this process.
    pool
        Where points are solved, an open one; in this process unless stated. Rows do not depend on it, unless the clock
        ends a search.
    solved
        Called with every point as soon as it is there, before its neighbours improve it.

    Returns
    -------
    Swept
        On Ctrl-C with the points so far.

    Raises
    ------
    InputError
        As ``solve`` does.
    DisagreementError
        If a plan of one point contradicts what was proven for another: a defect.
    """
    check_time_limit(time_limit_s)
    stated = [problem_at(point) for point in points]
    if not stated:
        return Swept(())
    problems = [entry.problem if isinstance(entry, Priced) else entry for entry in stated]
    kind = kind_of(problems[0])
    workers = Pool() if pool is None else pool
    here = workers.width == 1
    run = _SweepRun(options_of(kind, seed, threads, options), solver, time_limit_s, progress if here else None)
    facet, count = kind.sweep, len(points)
    above = _above(count, lambda j, i: facet.relaxes(problems[j], problems[i]))
    # A point that relaxes another one is relaxed by fewer itself; equal problems keep the grid's order.
    order = sorted(range(count), key=lambda i: (len(above[i]), i))
    nearest = _nearest(order, above)
    done: dict[int, SweptPoint] = {}

    interrupted = False
    waves = _waves(order, nearest)
    if here:
        waves = [[i] for wave in waves for i in wave]
    for wave in waves:
        try:
            tasks = [(points[i], stated[i], tuple(done[j] for j in nearest[i] if j in done)) for i in wave]
            found = workers.map(run.point, tasks)
        except KeyboardInterrupt:
            interrupted = True
            break
        for i, one in zip(wave, found, strict=True):
            done[i] = one
            if solved is not None:
                solved(one)
        interrupted = any(one.result.stop_reason is StopReason.INTERRUPTED for one in found)
        if interrupted:
            break
    harder_than = [[j for j in range(count) if i in nearest[j]] for i in range(count)]
    for i in reversed(order):
        if i in done:
            harder = [done[j] for j in harder_than[i] if j in done]
            better = adopt_better(done[i].result, _neighbours(problems[i], harder), run.options)
            done[i] = dataclasses.replace(done[i], result=better)
    return Swept(tuple(done[i] for i in sorted(done)), interrupted)


def _above(count: int, relaxes: Callable[[int, int], bool]) -> list[list[int]]:
    """By point those that relax it.

    Who relaxes one that relaxes a third relaxes that, too: neighbours are asked first, and save most questions.
    """
    above, below = [0] * count, [0] * count
    for apart in range(1, count):
        for i in range(count - apart):
            j = i + apart
            known = bool(above[i] >> j & 1), bool(above[j] >> i & 1)
            if any(known):
                continue
            for easier, harder in ((i, j), (j, i)):
                if relaxes(easier, harder):
                    over, under = above[easier] | 1 << easier, below[harder] | 1 << harder
                    for x in members_of(under):
                        above[x] |= over & ~(1 << x)
                    for x in members_of(over):
                        below[x] |= under & ~(1 << x)
    return [list(members_of(mask)) for mask in above]


def _nearest(order: Sequence[int], above: Sequence[Sequence[int]]) -> list[list[int]]:
    """By point: of those that relax it and come before it in the order, the ones that relax none of the others."""
    import rustworkx

    rank = ranks(order)
    before = ((j, i) for i, easier in enumerate(above) for j in easier if rank[j] < rank[i])
    reduced, _ = rustworkx.transitive_reduction(directed_graph(len(order), before))
    return [sorted(reduced.predecessor_indices(i)) for i in range(len(order))]


def _waves(order: Sequence[int], nearest: Sequence[Sequence[int]]) -> list[list[int]]:
    """What a point asks is in an earlier wave than the point."""
    level: dict[int, int] = {}
    for i in order:
        level[i] = 1 + max((level[j] for j in nearest[i]), default=-1)
    waves: list[list[int]] = [[] for _ in range(1 + max(level.values()))]
    for i in order:
        waves[level[i]].append(i)
    return waves


@dataclass(frozen=True)
class _SweepRun:
    """What every point is solved with; see ``sweep``."""

    options: Any
    solver: str | None
    time_limit_s: float | None
    progress: Progress | None

    def point(self, task: tuple[Point, Any, Sequence[SweptPoint]]) -> SweptPoint:
        """Solve one point, its problem stated or priced, given those that relax it."""
        point, stated, relaxed = task
        priced = stated if isinstance(stated, Priced) else None
        problem = stated if priced is None else priced.problem
        if any(entry.result.status is Status.INFEASIBLE for entry in relaxed):
            reason = "infeasible already with more devices, memory or bandwidth"
            return SweptPoint(point, self._known(problem, Status.INFEASIBLE, None, reason), None)
        bound = max((e.result.bound for e in relaxed if e.result.bound is not None), default=None)
        clock = Monitor(self.time_limit_s)
        # A plan of a relaxed point may fit here as it is, if it leaves devices or memory unused.
        guesses = _neighbours(problem, relaxed)
        kind, options = kind_of(problem), self.options
        if priced is not None and kind.model is not None:
            options = kind.model.search_options(priced, options)
        best = best_of(guesses, options)
        gap = None if best is None or bound is None else relative_gap(best.evaluation.objective, bound.value)
        if gap is not None and gap <= OPTIMALITY_GAP:
            result = self._known(problem, Status.UNKNOWN, bound)
        else:
            target = None if bound is None else bound.value * (1 + CLOSE)
            monitor = clock.part(SEARCH * clock.remaining_s, self.progress, target=target)
            # What would be enough is what the other points of the grid show.
            result = with_bound(run_solver(problem, self.solver, options, monitor, explain=False), bound)
            if result.status is Status.INFEASIBLE:
                result = dataclasses.replace(result, reason="no plan fits these devices")
        result, rows = beside_baselines(result, options, guesses, clock.share(BASELINES))
        made = None if priced is None else answer(priced, result, rows, options, clock, probe=False)
        return SweptPoint(point, result if made is None else made.result, best_of(rows, options), made)

    def _known(self, problem: Any, status: Status, bound: Bound | None, reason: str = "") -> AnyResult:
        return Result(problem, None, None, bound, status, StopReason.PROVED, "sweep", self.options.seed, 0.0, reason)


def _neighbours(problem: Any, points: Sequence[SweptPoint]) -> list[Rival]:
    """Plans of other points, judged on this one; the ones that need devices that are not here are left out."""
    facet = kind_of(problem).sweep
    moved = [facet.transfer(entry.result.plan, problem) for entry in points if entry.result.plan is not None]
    return [
        judge_plan(problem, "another point", "the plan of another point", plan) for plan in moved if plan is not None
    ]
