"""Search: how many stages, how many replicas of each, under which schedule, and where; the simulator decides.

Every *shape* (stages × replicas, schedule, recomputation) is split, mapped onto the devices and simulated there, unless
it cannot be better than what is known. In turn, cheapest first:

1. **Before it is split.** With S stages, R replicas, m microbatches for each of these, W the work of a microbatch, P
   the bytes of all parameters and b the fastest link, 2·(R − 1)/R · P / b is the least that all stages exchange
   together. That hides behind the last microbatch at most, so some stage needs

       max(m·W, (m − 1)·W + 2·(R − 1)/R · P / b) / S.

   Of a chain of operators that wait for each other forward and back, C its work in a microbatch, a stage begins after
   the forward parts of the stages before it and ends before their backward parts: with c_s its part of the chain, a
   step takes Σ_{i<s} c_i + m·c_s for every s, and at least C / (1 − (1 − 1/m)^S), when all these are equal.
2. **Before it is mapped.** The split runs with the fastest link everywhere: on any devices it takes no less, since
   schedules fix the order of every device.

Source: the search over (S, R) by simulation is Parmesan's (Appendix B), which simulates all; the bounds are own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partita.conductor.compare import run_baselines
from partita.conductor.parallel import Pool
from partita.conductor.place import PLACE_S, PlacedPlan, place_staged, placing_kind, rank, staged_plan, step_on
from partita.conductor.plan import answer, plan_priced, price_all
from partita.conductor.solve import options_of, run_solver
from partita.documents.document import sha256
from partita.errors import InputError, UnsupportedError
from partita.problems import kind_of, kinds
from partita.problems.facets.model import Answer, Priced
from partita.problems.facets.replicas import Shape
from partita.problems.kind import AnyKind
from partita.problems.settings import settings_of
from partita.run.monitor import Monitor
from partita.run.result import Statistics, Status, StopReason
from partita.simulator.placed import Floats, Layout, StagedPlan
from partita.topology.topology import Topology

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

#: Wall time of one split and of one mapping, at most.
SPLIT_S, MAP_S = 20.0, 5.0

#: Rounding of a bound.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Explored:
    """A shape, or a plan from elsewhere, and what became of it.

    Attributes
    ----------
    name
        For people.
    shape
        None for a plan from elsewhere.
    bound
        No step of the shape is shorter, seconds; None where none is known.
    outcome
        ``placed``, ``cannot be better`` (before its split), ``split cannot be better``, ``does not fit``, ``no time``.
    problem, plan, placed
        Of the placed ones.
    """

    name: str
    shape: Shape[Any] | None
    bound: float | None
    outcome: str
    problem: Any = None
    plan: Any = None
    placed: PlacedPlan | None = None

    @property
    def step(self) -> float | None:
        """Seconds of the step; None if it was not placed."""
        return None if self.placed is None else rank(self.placed.chosen)

    @property
    def planned_step(self) -> float | None:
        """What the objective of a plan from elsewhere says of its step, by its own account of links and exchanges."""
        if self.shape is not None or self.plan is None:
            return None
        kind = kind_of(self.problem)
        found = kind.report.step(self.problem, self.plan, kind.evaluate(self.problem, self.plan))
        return None if found is None else float(found)


@dataclass(frozen=True)
class Searched:
    """What a search found.

    Attributes
    ----------
    best
        The one with the shortest step.
    explored
        All, in the order of the list of shapes, after the plans from elsewhere.
    finished
        Whether every shape was looked at or cannot be better.
    lost
        How often workers were lost.
    """

    best: Explored
    explored: tuple[Explored, ...]
    finished: bool
    lost: int = 0


@dataclass(frozen=True)
class _Task:
    """What a worker gets."""

    problem: Any
    plan: Any
    topology: Topology | None
    solver: str
    seed: int
    threads: int
    time_limit_s: float


def search_stages(
    problem: Any,
    topology: Topology,
    *,
    known: Sequence[tuple[str, Any, Any]] = (),
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    threads: int = 2,
    pool: Pool | None = None,
    progress: Callable[[str], None] | None = None,
) -> Searched:
    """The best numbers of stages and replicas, schedule, recomputation and placement of a problem.

    Parameters
    ----------
    problem
        Whose devices are those of the topology.
    topology
        The devices.
    known
        (name, problem, plan) of plans from elsewhere, which compete: the answer is never worse, as placed or in order.
    time_limit_s
        Wall time; each split and each mapping has its own limit, too, which it usually does not reach.
    seed, threads
        Of the searches.
    pool
        Where work is done; in this process unless stated. The answer does not depend on it, unless the clock stops it.
    progress
        Called with a line now and then.

    Raises
    ------
    UnsupportedError
        If the problem has no stages to replicate.
    InputError
        If it is not one to replicate, or nothing fits.
    """
    kind = kind_of(problem)
    if kind.replicas is None:
        able = " and ".join(other.name for other in kinds() if other.replicas is not None)
        raise UnsupportedError(f"numbers of stages and replicas are not searched for {kind.name} problems; use {able}")
    clock = Monitor(time_limit_s)
    workers = Pool() if pool is None else pool
    found: list[Explored] = []
    for name, other, plan in known:
        placed = place_staged(staged_plan(other, plan), topology, time_limit_s=MAP_S, seed=seed, threads=threads)
        if placed.chosen.step is not None:
            found.append(Explored(name, None, None, "placed", other, plan, placed))
    run = _Search(kind, problem, topology, clock, workers, seed, threads, progress)
    shapes, finished = run.explore(min((one.step for one in found if one.step is not None), default=float("inf")))
    found += shapes
    placed_ones = [one for one in found if one.step is not None]
    if not placed_ones:
        raise InputError(
            f"{problem.name}: no numbers of stages and replicas fit {topology.name}; more devices would do"
        )
    best = min(placed_ones, key=lambda one: (one.step, found.index(one)))
    proven = _with_proof(best, topology, min(PLACE_S, max(1.0, clock.remaining_s)), seed, threads)
    return Searched(proven, tuple(proven if one is best else one for one in found), finished, workers.lost)


def _with_proof(best: Explored, topology: Topology, time_limit_s: float, seed: int, threads: int) -> Explored:
    """The best plan with a mapping that is proven, unless that takes longer to run."""
    again = place_staged(
        staged_plan(best.problem, best.plan), topology, time_limit_s=time_limit_s, seed=seed, threads=threads
    )
    assert best.placed is not None
    return dataclasses.replace(best, placed=again) if rank(again.chosen) <= rank(best.placed.chosen) else best


class _Search:
    """A run over all shapes, in waves as wide as the pool."""

    def __init__(
        self,
        kind: Any,
        problem: Any,
        topology: Topology,
        clock: Monitor,
        pool: Pool,
        seed: int,
        threads: int,
        progress: Callable[[str], None] | None,
    ) -> None:
        self.kind, self.problem, self.topology, self.clock, self.pool = kind, problem, topology, clock, pool
        self.seed, self.threads, self.progress = seed, threads, progress
        self.splits: dict[str, Any] = {}
        matrix = topology.bandwidth_bytes_per_s
        self.links = np.maximum(matrix, matrix.T)
        off = ~np.eye(len(matrix), dtype=bool)
        self.fastest = float(matrix[off].max(initial=0.0)) or 1.0

    def explore(self, best: float) -> tuple[list[Explored], bool]:
        """All shapes, what looks shortest first; and whether that was finished."""
        shapes = [s for s in self.kind.replicas.shapes(self.problem) if s.stages * s.replicas <= len(self.links)]
        bounds = [shape_bound(shape, self.links) for shape in shapes]
        answers: dict[int, Explored] = {}
        guesses = [shape_guess(shape, bounds[i]) for i, shape in enumerate(shapes)]
        waiting = sorted(range(len(shapes)), key=lambda i: (guesses[i], i))
        while waiting and not self.clock.stopping:
            # Equal bounds do not rule out equal steps: what is left out is worse.
            wave = [i for i in waiting if bounds[i] <= best][: self.pool.width]
            if not wave:
                break
            waiting = [i for i in waiting if i not in wave]
            for i, one in zip(
                wave, self._wave([shapes[i] for i in wave], [bounds[i] for i in wave], best), strict=True
            ):
                answers[i] = one
                best = min(best, one.step if one.step is not None else best)
                if self.progress is not None:
                    self.progress(f"{one.name}: {one.outcome}" + (f", {one.step:.4g} s" if one.step else ""))
        late = self.clock.stopping and any(bounds[i] <= best for i in waiting)
        for i in waiting:
            outcome = "no time" if bounds[i] <= best else "cannot be better"
            answers[i] = Explored(shapes[i].name, shapes[i], bounds[i], outcome)
        return [answers[i] for i in range(len(shapes))], not late

    def _wave(self, shapes: list[Shape[Any]], bounds: list[float], best: float) -> list[Explored]:
        keys = [sha256(shape.problem) for shape in shapes]
        new = {key: shape for key, shape in zip(keys, shapes, strict=True) if key not in self.splits}
        limit = min(SPLIT_S, self.clock.remaining_s)
        solver = self.kind.replicas.solver
        tasks = [_Task(shape.problem, None, None, solver, self.seed, self.threads, limit) for shape in new.values()]
        self.splits.update(zip(new, self.pool.map(_split, tasks), strict=True))
        answers: list[Explored | None] = []
        todo: list[tuple[int, _Task]] = []
        for key, shape, bound in zip(keys, shapes, bounds, strict=True):
            plan = self.splits[key]
            if plan is None:
                answers.append(Explored(shape.name, shape, bound, "does not fit"))
                continue
            problem, whole = self.kind.replicas.spread(self.problem, shape, plan)
            if not self.kind.evaluate(problem, whole).feasible:
                answers.append(Explored(shape.name, shape, bound, "does not fit"))
                continue
            least = max(bound, self._ideal(staged_plan(problem, whole)))
            if least > best:
                answers.append(Explored(shape.name, shape, least, "split cannot be better"))
                continue
            answers.append(Explored(shape.name, shape, least, "placed", problem, whole))
            quick = placing_kind().from_result
            assert quick is not None
            task = _Task(problem, whole, self.topology, quick.quick, self.seed, self.threads, MAP_S)
            todo.append((len(answers) - 1, task))
        for (place, _), placed in zip(todo, self.pool.map(_place, [task for _, task in todo]), strict=True):
            one = answers[place]
            assert one is not None
            answers[place] = dataclasses.replace(one, placed=placed)
        return [one for one in answers if one is not None]

    def _ideal(self, staged: StagedPlan) -> float:
        """The step with the fastest link everywhere; 0 if the stages are not in a row."""
        rows: list[tuple[tuple[int, ...], ...]] = []
        count = 0
        for stage in staged.stages:
            rows.append(tuple((count + r,) for r in range(stage.replicas)))
            count += stage.replicas
        layout: Layout = tuple(rows)
        matrix = np.full((count, count), self.fastest)
        np.fill_diagonal(matrix, np.inf)
        fast = Topology(
            name="fastest links",
            names=tuple(map(str, range(count))),
            bandwidth_bytes_per_s=matrix,
            machine_of=(0,) * count,
        )
        quick = dataclasses.replace(staged, stages=tuple(_fastest(stage) for stage in staged.stages))
        step = step_on(quick, layout, fast)
        return 0.0 if step is None else step.time * (1 - _MARGIN)


def _fastest(stage: Any) -> Any:
    """A stage on the kind of devices where it is fastest."""
    kind = min(stage.work_s, key=lambda name: sum(stage.work_s[name]))
    return dataclasses.replace(stage, kind=kind, work_s={kind: stage.work_s[kind]})


def _split(task: _Task) -> Any:
    """The plan of one replica of every stage; None if there is none."""
    kind = kind_of(task.problem)
    options = options_of(kind, task.seed, task.threads, {})
    return run_solver(task.problem, task.solver, options, Monitor(task.time_limit_s), explain=False).plan


def _place(task: _Task) -> PlacedPlan:
    assert task.topology is not None
    staged = staged_plan(task.problem, task.plan)
    return place_staged(
        staged,
        task.topology,
        solver=task.solver,
        time_limit_s=task.time_limit_s,
        seed=task.seed,
        threads=task.threads,
    )


def shape_bound(shape: Shape[Any], links: Floats) -> float:
    """Seconds that no step of a shape goes below, on devices with these links; see the top of the module."""
    count, turns = shape.replicas, shape.turns
    ring = 0.0
    if count > 1 and shape.parameter_bytes > 0:
        ring = 2.0 * (count - 1) / count * shape.parameter_bytes / float(links[np.isfinite(links)].max())
    busy = max(turns * shape.work_s, (turns - 1) * shape.work_s + ring) / shape.stages
    chain = shape.chain_s / (1.0 - (1.0 - 1.0 / turns) ** shape.stages)
    return max(busy, chain) * (1 - _MARGIN)


def shape_guess(shape: Shape[Any], bound: float) -> float:
    """Seconds that a step may take, to begin with what is good: equal stages that fill and drain."""
    return max(bound, (shape.turns + shape.stages - 1) * shape.work_s / shape.stages)


def search_model(
    kind: Any,
    graph: Graph,
    cluster: Cluster,
    topology: Topology,
    candidates: Sequence[Priced[Any]],
    options: Any,
    *,
    time_limit_s: float | None = 60.0,
    pool: Pool | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Answer[Any], Searched]:
    """``search_stages`` for a model: its plans by every objective that has stages compete.

    Parameters
    ----------
    kind, graph, cluster, topology
        What the model is planned as, and on what.
    candidates, options
        As for ``plan_priced``; of several candidates the first is searched.
    time_limit_s
        Wall time; a quarter is for the plans that compete.
    pool, progress
        As for ``search_stages``.
    """
    if kind.replicas is None:
        able = " or ".join(f"--objective {k.model.objective}" for k in kinds() if k.replicas is not None and k.model)
        raise UnsupportedError(f"numbers of stages and replicas are not searched for {kind.name} problems; use {able}")
    priced = candidates[0]
    share = None if time_limit_s is None else time_limit_s / 4
    clock = Monitor(time_limit_s)
    with pool or Pool() as workers:
        answers = {kind.name: _planned(priced, options, share)}
        for other in kinds():
            if other is kind or other.stages is None or other.model is None or not other.model.suits(graph.training):
                continue
            if other.model.refusal(cluster) is None:
                own = options_of(other, options.seed, options.threads, {})
                same = _same_batch(other, priced)
                first = price_all(other, graph, cluster, same, {})[0]
                answers[other.name] = _planned(first, own, share)
        known = [
            (f"plan of objective {name}", one.result.problem, one.result.plan)
            for name, one in answers.items()
            if one.result.plan is not None
        ]
        left = None if time_limit_s is None else max(1.0, clock.remaining_s)
        found = search_stages(
            priced.problem,
            topology,
            known=known,
            time_limit_s=left,
            seed=options.seed,
            threads=options.threads,
            pool=workers,
            progress=progress,
        )
    best = found.best
    if best.shape is None:
        whose = kind_of(best.problem).name
        return answers[whose], found
    evaluation = kind.evaluate(best.problem, best.plan)
    result = dataclasses.replace(
        answers[kind.name].result,
        problem=best.problem,
        plan=best.plan,
        evaluation=evaluation,
        bound=None,
        status=Status.FEASIBLE,
        stop_reason=StopReason.FINISHED if found.finished else StopReason.TIME_LIMIT,
        solver="stages-replicas",
        runtime_s=clock.elapsed_s,
        reason="",
        statistics=Statistics(),
    )
    rows = run_baselines(best.problem, options)
    return answer(dataclasses.replace(priced, problem=best.problem), result, rows, options, probe=False), found


def _planned(priced: Priced[Any], options: Any, time_limit_s: float | None) -> Answer[Any]:
    return plan_priced([priced], options, time_limit_s=time_limit_s, baselines=False)


def _same_batch(kind: AnyKind, priced: Priced[Any]) -> dict[str, Any]:
    """Settings of another pricing with as many microbatches."""
    assert kind.model is not None
    setting = settings_of(kind.model.pricing).get("microbatches")
    count = getattr(priced.settings, "microbatches", None)
    if setting is None or count is None:
        return {}
    return {"microbatches": (count,) if setting.is_list else count}
