"""Place: the stages and replicas of a plan on the devices of a topology."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partita.conductor.solve import options_of, run_solver
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import PlanEvaluation
from partita.ground.errors import InputError, UnsupportedError
from partita.ground.shown import brief
from partita.nouns.topology.counted import CountedLinks
from partita.nouns.topology.read import topology as read_topology
from partita.nouns.topology.topology import MAX_TOPOLOGY
from partita.problems import kind_of, kinds
from partita.problems.facets.stages import FromResult
from partita.problems.kind import AnyResult, Stated
from partita.simulator.pipeline import Pipeline
from partita.simulator.placed import Layout, placed_step
from partita.simulator.steps import StepSummary

if TYPE_CHECKING:
    from pathlib import Path

    from partita.nouns.cluster import Cluster
    from partita.nouns.topology.topology import Topology

#: Wall time for a placement, unless stated: the search stops earlier where it has a proof.
PLACE_S = 5.0

#: Of that, the share of the search, and of what is left that of each simple order beside it.
SEARCH, EACH = 0.8, 0.5

#: Names of the two layouts that are always looked at.
MAPPED, IN_ORDER = "mapped", "in order"

#: Another layout is as good as the chosen one if its step is within this share of it.
AS_GOOD = 0.01


@dataclass(frozen=True)
class PlacedLayout:
    """A layout, the devices of every replica, beside others, and who says it.

    ``objective`` is that of the mapping, None where its groups are no blocks of it; ``step`` is how it runs, None if
    the stages are not in a row.
    """

    names: tuple[str, ...]
    layout: Layout
    objective: float | None
    step: StepSummary | None

    __repr__ = brief

    @property
    def name(self) -> str:
        """For people."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class PlacedPlan:
    """Where the stages of a plan go on a topology, with the result of the mapping problem.

    Of all ``candidates`` that were looked at, the first is ``chosen``: the one with the shortest step, or, where
    nothing can run, the best objective.
    """

    staged: Pipeline
    topology: Topology
    result: AnyResult
    chosen: PlacedLayout
    candidates: tuple[PlacedLayout, ...]

    __repr__ = brief

    @property
    def in_order(self) -> PlacedLayout | None:
        """The devices that the plan itself names, in their order."""
        return next((one for one in self.candidates if IN_ORDER in one.names), None)

    @property
    def as_good(self) -> tuple[PlacedLayout, ...]:
        """Other layouts within ``AS_GOOD`` of the chosen one."""
        best = rank(self.chosen)
        return tuple(one for one in self.candidates[1:] if rank(one) <= best * (1 + AS_GOOD))


def rank(candidate: PlacedLayout) -> float:
    """What layouts are compared by: their step, or the objective where nothing can run."""
    found = candidate.objective if candidate.step is None else candidate.step.time
    return float("inf") if found is None else float(found)


def staged_plan(problem: Any, plan: Any, evaluation: Any = None) -> Pipeline:
    """What a plan asks of physical devices; errors as for ``place``."""
    kind = kind_of(problem)
    if kind.stages is None:
        able = " and ".join(other.name for other in kinds() if other.stages is not None)
        raise UnsupportedError(
            f"plans of {kind.name} problems are not made of stages, so they cannot be placed; {able} can"
        )
    worth = kind.evaluate(problem, plan) if evaluation is None else evaluation
    return kind.stages.staged(problem, plan, worth)


def placing_facet() -> FromResult[Any]:
    """How plans of stages become a problem on a topology."""
    return next(kind.from_result for kind in kinds() if kind.from_result is not None)


def uneven(topology: Topology) -> bool:
    """Whether it matters where something goes."""
    links = topology.bandwidth_bytes_per_s
    if isinstance(links, CountedLinks):
        return len(links.pairs()) > 1
    matrix = links[~np.eye(topology.device_count, dtype=bool)]
    return matrix.size > 0 and bool(matrix.min() < matrix.max())


def place(
    problem: Stated,
    plan: object,
    topology: Topology | Cluster | str | Path,
    *,
    evaluation: PlanEvaluation | None = None,
    time_limit_s: float | None = PLACE_S,
    seed: int = 0,
    threads: int = 2,
) -> PlacedPlan:
    """Give every replica of every stage of a plan its devices.

    Mappings are searched for with the problem's default solver; what the plan itself and what simple orders say is
    looked at beside it, and the simulator decides between them.

    Parameters
    ----------
    problem, plan
        A plan of stages; each of its replicas gets devices of its own.
    topology
        The devices, or what ``read_cluster`` takes. The plan's own device names count those of each kind in its order.
    evaluation
        What the plan is worth, where that is known already.
    time_limit_s, seed, threads
        Of the search.

    Raises
    ------
    UnsupportedError
        If plans of the problem are not made of stages.
    InputError
        If the problem is not in seconds and bytes, or the topology cannot hold the plan.
    """
    return place_staged(
        staged_plan(problem, plan, evaluation),
        read_topology(topology),
        time_limit_s=time_limit_s,
        seed=seed,
        threads=threads,
    )


def place_staged(
    staged: Pipeline,
    topology: Topology,
    *,
    time_limit_s: float | None = PLACE_S,
    seed: int = 0,
    threads: int = 2,
    solver: str | None = None,
) -> PlacedPlan:
    """``place`` for a plan that is stated as stages, by the default solver or another one."""
    facet = placing_facet()
    placing = facet.placing(staged, topology)
    kind = kind_of(placing.problem)
    options = options_of(kind, seed, threads, {})
    clock = Monitor(time_limit_s)
    result = run_solver(placing.problem, solver, options, clock.share(SEARCH), explain=False)
    if result.plan is None:
        raise InputError(f"{placing.problem.name}: {result.reason or 'no placement was found'}")
    layouts = [(MAPPED, placing.layout(result.plan))]
    order = placing.in_order()
    if order is not None:
        layouts.append((IN_ORDER, order))
    for baseline in kind.baselines:
        if baseline.name in facet.simple:
            found = baseline.solve(placing.problem, options, clock.share(EACH)).plan
            layouts += [] if found is None else [(baseline.name, placing.layout(found))]
    named: dict[Layout, list[str]] = {}
    for name, layout in layouts:
        named.setdefault(layout, []).append(name)
    candidates: list[PlacedLayout] = []
    for layout, names in named.items():
        if runs(staged, layout, topology):
            plan = placing.plan(layout)
            worth = None if plan is None else float(kind.evaluate(placing.problem, plan).objective)
            candidates.append(PlacedLayout(tuple(names), layout, worth, step_on(staged, layout, topology)))
    candidates.sort(key=rank)
    chosen = candidates[0]
    mapped = placing.plan(chosen.layout)
    if mapped is not None and mapped != result.plan:
        result = dataclasses.replace(result, plan=mapped, evaluation=kind.evaluate(placing.problem, mapped))
    return PlacedPlan(staged, topology, result, chosen, tuple(candidates))


def step_on(staged: Pipeline, layout: Layout, topology: Topology) -> StepSummary | None:
    """The step of a plan of stages on given devices; None if its stages are not in a row."""
    if not staged.passed_once:
        return None
    return placed_step(
        staged,
        layout,
        topology.bandwidth_bytes_per_s,
        kinds=_told_apart(staged, topology),
        machine_of=topology.machine_of,
    )


def runs(staged: Pipeline, layout: Layout, topology: Topology) -> bool:
    """Whether every stage can run on the devices it is given."""
    known = _told_apart(staged, topology)
    pairs = zip(staged.ranks, layout, strict=True)
    return not known or all(known[d] in stage.by_kind for stage, row in pairs for group in row for d in group)


def _told_apart(staged: Pipeline, topology: Topology) -> tuple[str, ...]:
    """Kinds of the devices, if the plan tells them apart."""
    several = {kind for stage in staged.ranks for kind in stage.by_kind}
    return topology.kinds if len(several) > 1 else ()


def placement_document(found: PlacedPlan) -> dict[str, Any]:
    """A placement as plain values: the ``placement`` of a result document.

    Of layouts beside the chosen one, devices are listed up to as many as have their links listed.
    """
    topology, result, chosen = found.topology, found.result, found.chosen
    report = kind_of(result.problem).report

    def worth(one: PlacedLayout) -> dict[str, Any]:
        return {
            "name": one.name,
            "objective": one.objective,
            "step_time": None if one.step is None else one.step.time,
            "bubble_fraction": None if one.step is None else one.step.bubble,
        }

    def summary(one: PlacedLayout) -> dict[str, Any]:
        if topology.device_count > MAX_TOPOLOGY:
            return worth(one)
        rows = [
            [{"devices": list(group), "names": [topology.names[d] for d in group]} for group in row]
            for row in one.layout
        ]
        return {**worth(one), "stages": rows}

    return {
        "topology": topology.name,
        "microbatches": found.staged.microbatches,
        "unit": "s",
        "bound": None if result.bound is None else result.bound.value,
        "gap": result.gap,
        "status": str(result.status),
        **worth(chosen),
        "stages": [
            {
                "stage": found.staged.number(rank),
                "name": stage.name,
                "replicas": [
                    {
                        "machine": topology.machine_of[group[0]],
                        "devices": list(group),
                        "names": [topology.names[d] for d in group],
                    }
                    for group in row
                ],
            }
            for rank, (stage, row) in enumerate(zip(found.staged.ranks, chosen.layout, strict=True))
        ],
        "critical": report.result_document(result).get("critical"),
        "in_order": None if found.in_order is None else summary(found.in_order),
        "alternatives": [summary(one) for one in found.as_good],
        "notes": list(result.problem.notes),
    }


def stage_labels(found: PlacedPlan) -> dict[int, str]:
    """By device its stage, for a picture: devices of one label have one colour."""
    return {device: f"{s}" for s, row in enumerate(found.chosen.layout) for group in row for device in group}
