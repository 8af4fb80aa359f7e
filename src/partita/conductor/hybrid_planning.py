"""The conductor's part for training a model with hybrid parallelism: price, plan, compare."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from partita.conductor.hybrid_comparison import (
    RECIPE_TIME_S,
    HybridRow,
    adopt_better_hybrid,
    compare_hybrid,
    judge_hybrid,
)
from partita.conductor.hybrid_pipeline import HybridResult, solve_hybrid
from partita.errors import InputError
from partita.problems.hybrid.baselines.equal_stages import shortest_step
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step_time import StepTime, step_time
from partita.run.interrupt import interruptible
from partita.run.monitor import Monitor
from partita.run.result import OPTIMALITY_GAP, Bound, Progress, Status, StopReason, relative_gap

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.costs.menus import LayerMenus
    from partita.graph import Graph

__all__ = ["Aim", "BatchRow", "HybridModelPlan", "default_microbatches", "plan_hybrid", "update_times"]

#: A device whose memory is this full may owe its stage to the limit.
NEARLY_FULL = 0.8

#: What is minimised: the objective, an endless row of microbatches, or one synchronous step with its bubble.
Aim = Literal["steady", "step"]


@dataclass(frozen=True)
class BatchRow:
    """What one number of microbatches gives: the answer, and the time of a step by its plan."""

    microbatches: int
    result: HybridResult
    step: StepTime | None


@dataclass(frozen=True)
class HybridModelPlan:
    """A hybrid plan for a model on a cluster, with what is needed to judge it.

    Attributes
    ----------
    graph, cluster, menus
        What was planned, and what its layers' numbers are made of.
    result
        The plan, its evaluation and bound.
    step
        The time of a step by the plan, the optimizer's included; None without a plan.
    recipes
        What usual layouts reach on the same problem.
    batches
        Every number of microbatches that was tried.
    aim
        What the plan was chosen for.
    model_flops
        Floating-point operations of one microbatch, recomputation not counted.
    peak_flops
        Peak of all devices together, in FLOP/s, at the number format in which the model does most of its work.
    modules
        By layer id the model's modules in it.
    faster_step
        A plan with a shorter step than the answer's, if one was found; for ``aim`` steady only.
    without_memory
        Objective reachable without memory limit, where that is nearly reached; None otherwise.
    """

    graph: Graph
    cluster: Cluster
    menus: LayerMenus
    result: HybridResult
    step: StepTime | None
    recipes: tuple[HybridRow, ...]
    batches: tuple[BatchRow, ...]
    aim: Aim
    model_flops: float
    peak_flops: float
    modules: dict[int, tuple[str, ...]]
    faster_step: HybridRow | None = None
    without_memory: float | None = None

    @property
    def problem(self) -> HybridProblem:
        """The priced problem."""
        return self.result.problem

    def utilisation(self, time_per_sample: float) -> float:
        """Model FLOPs utilisation: useful operations over what all devices could do in that time."""
        return self.model_flops / (time_per_sample * self.peak_flops) if time_per_sample > 0 else 0.0


def default_microbatches(cluster: Cluster) -> int:
    """Four microbatches for each accelerator: the usual number for small bubbles."""
    devices = sum(len(group.indices) for group in cluster.groups() if group.spec.accelerator)
    return 4 * max(1, devices)


def plan_hybrid(
    graph: Graph,
    cluster: Cluster,
    *,
    microbatches: Sequence[int] = (),
    aim: Aim = "steady",
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    recipes: bool = True,
    change: Callable[[HybridProblem], HybridProblem] | None = None,
    **pricing: Any,
) -> HybridModelPlan:
    """Price a model's layers on a cluster, plan its training, and compare the plan with what people do by hand.

    Parameters
    ----------
    graph
        A model traced for training.
    cluster
        Devices of one kind.
    microbatches
        Microbatches of a batch. Of several numbers the one with the shortest step per microbatch is taken, fill, drain
        and synchronisation included; without one it is ``default_microbatches``.
    aim
        ``steady``: the plan with the least objective, proven; of equal ones the one with the shortest step among it and
        the recipes. ``step``: the shortest step among that plan, the best
        plans with fewer replicas at once, equal stages and recipes; its bound still is the least objective.
    time_limit_s
        Wall time of all searches together; recipes have their own.
    seed, solver, threads, progress
        As for ``solve``.
    recipes
        Whether to compare with recipes.
    change
        Applied to the priced problem: another memory limit, for example.
    pricing
        Further arguments of ``hybrid_problem``: optimizer, degrees, memory_options, and so on.

    Raises
    ------
    InputError, UnsupportedError
        As ``hybrid_problem`` and ``solve`` do.
    """
    from partita.costs.menus import layer_menus, model_flops

    numbers = list(microbatches) or [default_microbatches(cluster)]
    if aim not in ("steady", "step"):
        raise InputError(f"aim is {aim!r}; it must be steady or step")
    menus = layer_menus(graph, cluster, microbatches=numbers[0], **pricing)
    clock = Monitor(time_limit_s)
    batches: list[BatchRow] = []
    for place, number in enumerate(numbers):
        left = None if time_limit_s is None else max(0.1, clock.remaining_s / (len(numbers) - place))
        problem = menus.problem.replace(microbatches=number)
        if change is not None:
            problem = change(problem)
        found = solve_hybrid(
            problem, time_limit_s=left, seed=seed, solver=solver, threads=threads, progress=progress, explain=False
        )
        batches.append(_batch_row(menus, cluster, found))
        if found.stop_reason is StopReason.INTERRUPTED:
            break
    best = _choose(batches)
    result, step = best.result, best.step
    if result.status is Status.INFEASIBLE:
        from partita.problems.hybrid.explain import explain_infeasible

        result = dataclasses.replace(result, reason=explain_infeasible(result.problem))
    rows: list[HybridRow] = []
    if recipes and result.stop_reason is not StopReason.INTERRUPTED:
        size = _machine_devices(cluster)
        rows = compare_hybrid(result.problem, machine_devices=size, seed=seed, threads=threads)
        rows = [_with_update(menus, cluster, result.problem, row) for row in rows]
        result = adopt_better_hybrid(result, rows)
        result = _shortest_of_equals(result, rows, _step(menus, cluster, result.problem, result.plan))
        step = _step(menus, cluster, result.problem, result.plan)
    faster = None
    if result.plan is not None and step is not None and result.stop_reason is not StopReason.INTERRUPTED:
        monitor = Monitor(RECIPE_TIME_S)
        with interruptible(monitor):
            faster = _fastest_step(menus, cluster, result, rows, monitor, seed, threads)
        if monitor.interrupted:
            result = dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED)
        if faster is not None and faster.step is not None and faster.step.step >= step.step * (1 - 1e-6):
            faster = None
        if faster is not None and aim == "step":
            result, step, faster = _adopt(result, faster), faster.step, None
    return HybridModelPlan(
        graph=graph,
        cluster=cluster,
        menus=menus,
        result=result,
        step=step,
        recipes=tuple(rows),
        batches=tuple(batches),
        aim=aim,
        model_flops=model_flops(graph),
        peak_flops=_peak(graph, cluster),
        modules=_modules(graph, menus),
        faster_step=faster,
        without_memory=_without_memory(result, seed, threads) if aim == "steady" else None,
    )


def update_times(menus: LayerMenus, cluster: Cluster, plan: HybridPlan) -> list[float]:
    """Least time of the optimizer's step on each stage: its memory traffic at the device's achievable bandwidth.

    Gradients are read, weights and the optimizer's states are read and written, once for every step; by all replicas,
    or each its share, if they share out the states.
    """
    spec = next(group.spec for group in cluster.groups() if group.spec.accelerator or len(cluster.groups()) == 1)
    bandwidth = spec.memory_bandwidth_bytes_per_s * spec.memory_efficiency
    by_id = {layer.id: menu for layer, menu in zip(menus.problem.layers, menus.layers, strict=True)}
    times = []
    for stage in plan.stages:
        moved = 0.0
        for identity in stage.operators:
            entry = by_id[identity].entries[stage.tensor_parallel][0]
            # Weights that are trained have gradients of the same size.
            moved += 3.0 * entry.gradient_bytes + 2.0 * entry.optimizer_bytes
        times.append(moved / (stage.data_parallel if menus.zero1 else 1) / bandwidth)
    return times


def _step(menus: LayerMenus, cluster: Cluster, problem: HybridProblem, plan: HybridPlan | None) -> StepTime | None:
    if plan is None:
        return None
    return step_time(problem, plan, evaluate(problem, plan), update_times(menus, cluster, plan))


def _batch_row(menus: LayerMenus, cluster: Cluster, result: HybridResult) -> BatchRow:
    return BatchRow(result.problem.microbatches, result, _step(menus, cluster, result.problem, result.plan))


def _choose(batches: Sequence[BatchRow]) -> BatchRow:
    """The shortest step per microbatch; without any plan the last number, which leaves the planner most freedom."""
    planned = [row for row in batches if row.step is not None]
    return min(planned, key=lambda row: row.step.per_sample if row.step else 0.0, default=batches[-1])


def _shortest_of_equals(result: HybridResult, rows: Sequence[HybridRow], step: StepTime | None) -> HybridResult:
    """Of plans that are equally good, the one with the shortest step: the objective does not tell them apart."""
    if result.objective is None or step is None:
        return result
    most = result.objective * (1 + OPTIMALITY_GAP / 2)
    equal = [
        row
        for row in rows
        if row.step is not None
        and row.evaluation is not None
        and row.feasible
        and row.evaluation.objective <= most
        and row.step.step < step.step * (1 - OPTIMALITY_GAP)
    ]
    best = min(equal, key=lambda row: row.step.step if row.step else math.inf, default=None)
    return result if best is None else _adopt(result, best)


def _with_update(menus: LayerMenus, cluster: Cluster, problem: HybridProblem, row: HybridRow) -> HybridRow:
    return row if row.plan is None else dataclasses.replace(row, step=_step(menus, cluster, problem, row.plan))


def _fastest_step(
    menus: LayerMenus,
    cluster: Cluster,
    result: HybridResult,
    rows: Sequence[HybridRow],
    monitor: Monitor,
    seed: int,
    threads: int,
) -> HybridRow | None:
    """The shortest step among recipes, equal stages, and the best plans with fewer replicas at once.

    Filling takes about as many microbatches as there are replicas in all stages together, so plans that are best with
    fewer of them trade steady speed for a smaller bubble.
    """
    problem = result.problem
    found = [row for row in rows if row.feasible]
    outcome = shortest_step(problem, monitor)
    plans = [("equal stages, by step", outcome.plan)]
    size = problem.microbatches
    while size > 1 and not monitor.stopping:
        size //= 2
        if problem.microbatches % size:
            continue
        answer = solve_hybrid(
            _fewer_replicas(problem, size),
            time_limit_s=max(0.1, monitor.remaining_s),
            seed=seed,
            threads=threads,
            explain=False,
        )
        if answer.stop_reason is StopReason.INTERRUPTED:
            monitor.interrupt()
        if answer.status is Status.INFEASIBLE:
            break
        plans.append((f"the best plan with {size} replicas at most", answer.plan))
    for name, plan in plans:
        if plan is not None:
            row = judge_hybrid(problem, name, "", plan, 0.0, update_times(menus, cluster, plan))
            if row.feasible:
                found.append(row)
    return min(found, key=lambda row: row.step.step if row.step else float("inf"), default=None)


def _without_memory(result: HybridResult, seed: int, threads: int) -> float | None:
    """Solve again without limit, if some device's memory is nearly full: only then may it have shaped the plan."""
    limit = result.problem.memory_bytes
    if result.evaluation is None or limit is None or result.stop_reason is StopReason.INTERRUPTED:
        return None
    if all(stage.memory_bytes < NEARLY_FULL * limit for stage in result.evaluation.stages):
        return None
    unlimited = result.problem.replace(memory_bytes=math.inf)
    return solve_hybrid(unlimited, time_limit_s=5.0, seed=seed, threads=threads, explain=False).objective


def _fewer_replicas(problem: HybridProblem, most: int) -> HybridProblem:
    """The problem with that many replicas of all stages together; synchronisation once per batch costs what it did."""
    if not problem.weight_sync_per_batch:
        return problem.replace(microbatches=most)
    share = most / problem.microbatches
    known: dict[int, dict[int, Any]] = {}
    layers = []
    for layer in problem.layers:
        if id(layer.configurations) not in known:
            known[id(layer.configurations)] = {
                degree: tuple(msgspec.structs.replace(c, weight_bytes=c.weight_bytes * share) for c in row)
                for degree, row in layer.configurations.items()
            }
        whole = None if problem.hierarchy is None else layer.whole_weight_bytes * share
        layers.append(
            msgspec.structs.replace(layer, configurations=known[id(layer.configurations)], weight_bytes=whole)
        )
    return problem.replace(layers=tuple(layers), microbatches=most)


def _adopt(result: HybridResult, row: HybridRow) -> HybridResult:
    """The result with another plan, and what the bound says about that."""
    assert row.evaluation is not None
    bound: Bound | None = result.bound
    gap = relative_gap(row.evaluation.objective, None if bound is None else bound.value)
    return dataclasses.replace(
        result,
        plan=row.plan,
        evaluation=row.evaluation,
        status=Status.OPTIMAL if gap is not None and gap <= OPTIMALITY_GAP else Status.FEASIBLE,
    )


def _modules(graph: Graph, menus: LayerMenus) -> dict[int, tuple[str, ...]]:
    """The modules of every layer; a layer that is no module of its own lists the modules whose operators it holds."""
    from partita.costs.menus.forward import View
    from partita.costs.menus.layers import assign_layers

    view = View(graph)
    held: list[dict[str, None]] = [{} for _ in menus.layers]
    paths = {op.module for op in graph.operators}
    for place, number in enumerate(assign_layers(view)[0]):
        module = graph.operators[place].module
        if module and not view.backward[place]:
            held[number].setdefault(module)
    found = {}
    for menu, modules in zip(menus.layers, held, strict=True):
        whole = any(path == menu.name or path.startswith(f"{menu.name}.") for path in paths)
        found[menu.id] = (menu.name,) if whole else tuple(modules)
    return found


def _machine_devices(cluster: Cluster) -> int:
    counts: dict[int, int] = {}
    for machine in cluster.machine_of():
        counts[machine] = counts.get(machine, 0) + 1
    return min(counts.values())


def _peak(graph: Graph, cluster: Cluster) -> float:
    """Peak FLOP/s of all accelerators at the number format with the most operations."""
    flops: dict[str, float] = {}
    for op in graph.operators:
        flops[op.dtype] = flops.get(op.dtype, 0.0) + op.flops
    dtype = max(flops, key=lambda name: flops[name])
    groups = [group for group in cluster.groups() if group.spec.accelerator] or cluster.groups()
    return sum(group.spec.peak(dtype) * len(group.indices) for group in groups)
