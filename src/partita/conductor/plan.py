"""Plan: a model and a cluster in, the best plan beside what people do by hand out."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partita.conductor.compare import beside_baselines
from partita.conductor.judge import adopt, judge_stated
from partita.conductor.solve import find_solver, run_solver, why_not
from partita.costs.profile import Measured
from partita.costs.table import cost_source
from partita.engines.search.interrupt import interruptible
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Progress, Rival, Status, StopReason
from partita.ground.errors import InputError, UnsupportedError
from partita.ground.names import no_option
from partita.nouns.graph import Workload
from partita.problems import kind_of, kinds
from partita.problems.facets.limits import runtime_for
from partita.problems.facets.model import ModelPlan, Priced, RefinedPlan
from partita.problems.kind import AnyKind, AnyResult
from partita.problems.settings import read_settings

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

#: Of a time limit, the share of the search; and of what that leaves, the shares of the baselines, of the plan without a
#: runtime's limits, of what is better than the answer beyond its objective, and of the answer without a limit.
SEARCH, BASELINES, FREE, REFINE, UNLIMITED = 0.75, 0.35, 0.5, 0.5, 0.5
#: Wall time of the last three, at most.
FREE_S, REFINE_S, UNLIMITED_S = 60.0, 15.0, 5.0
#: What every call that plans takes beside settings.
_EVERYWHERE = "time_limit_s", "solver", "progress", "baselines", "training"


def choose_problem(
    objective: str | None, cluster: Cluster, workload: Workload, runtime: str | None = None
) -> tuple[AnyKind, list[str]]:
    """Which problem a model is planned as, and what a reader should know about the choice.

    An objective (None to choose) that no problem has, that is about other models or does not know such clusters is
    refused. For a runtime that runs stages one after the other it is that of one sample alone.
    """
    known = runtime_for(runtime, workload)
    alone = known is not None and not known.limits.pipeline
    models = {kind.objective: (kind, kind.model) for kind in kinds() if kind.model is not None}
    suitable = {name: (kind, model) for name, (kind, model) in models.items() if workload in model.workloads}
    if objective is not None:
        if objective not in models:
            raise InputError(f"there is no objective {objective!r} for models; known are {', '.join(models)}")
        kind, model = models[objective]
        others = " or ".join(name for name in suitable if name != objective) or "none"
        if objective not in suitable:
            how = "leave --training out" if workload is Workload.TRAINING else "add --training"
            raise InputError(f"objective {objective} is not for {workload}; {how}, or use --objective {others}")
        refusal = model.refusal(cluster)
        if refusal is not None:
            raise UnsupportedError(f"cluster {cluster.name} {refusal}; use another objective: {others}")
        return kind, []
    notes: list[str] = []
    for name, (kind, model) in sorted(
        suitable.items(), key=lambda one: (one[1][1].alone != alone, workload not in one[1][1].preferred)
    ):
        refusal = model.refusal(cluster)
        if refusal is None:
            if alone:
                notes.append(f"{runtime} runs stages one after the other")
                return kind, [f"Planned with objective {name}: {'; '.join(notes)}."]
            return kind, [f"Planned with objective {name}: the cluster {note}." for note in notes]
        notes.append(refusal)
    raise UnsupportedError(f"cluster {cluster.name} {notes[0] if notes else 'fits no problem'}")


def sort_settings(kind: AnyKind, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Settings by what they are of: the search, the pricing, and changes of the priced problem; others are refused."""
    parts = [declaration.__struct_fields__ for declaration in kind.declarations]
    found: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] = ({}, {}, {})
    for name, value in given.items():
        place = next((i for i, fields in enumerate(parts) if name in fields), None)
        if place is None:
            known = (field for fields in parts for field in fields)
            raise InputError(no_option(f"planning for {kind.name}", name, known, _EVERYWHERE))
        found[place][name] = value
    return found


def price_all(
    kind: AnyKind,
    graph: Graph,
    cluster: Cluster,
    pricing: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> Sequence[Priced[Any]]:
    """The candidate problems of a model on a cluster, with changes applied, and what is usual for these."""
    model = kind.model
    assert model is not None
    pricing = {**model.usual(graph, cluster), **pricing}
    if pricing.get("costs") is not None:
        source = cost_source(pricing["costs"])
        if isinstance(source, Measured):
            source.check(graph, list(cluster.devices))
        pricing["costs"] = source
    settings = read_settings(model.pricing, pricing, f"{kind.name} pricing")
    if not changes:
        return model.price(graph, cluster, settings)
    wanted = read_settings(kind.changes, changes, f"{kind.name} problem")
    return model.price(graph, cluster, settings, lambda problem: kind.change(problem, wanted))


def plan_priced(
    candidates: Sequence[Priced[Any]],
    options: Any,
    clock: Monitor,
    solver: str | None = None,
    *,
    progress: Progress | None = None,
    baselines: bool = True,
) -> ModelPlan[Any]:
    """Plan the best of candidate problems, and compare the plan with what people do by hand, all within ``clock``."""
    kind = kind_of(candidates[0].problem)
    model = kind.model
    assert model is not None
    given = [model.stated(priced) for priced in candidates]
    if given[0] is not None:
        result = judge_stated(candidates[0].problem, given[0], options)
        return answer(candidates[0], result, (), options, Monitor(), probe=False)
    options = model.search_options(candidates[0], options)
    tried: list[tuple[Priced[Any], AnyResult]] = []
    for place, priced in enumerate(candidates):
        # Half of the time is for the plan without a runtime's limits, if these limit anything.
        parts = (len(candidates) - place) * (1 if priced.free in (None, priced.problem) else 2)
        monitor = clock.share(SEARCH / parts, progress=progress)
        found = run_solver(priced.problem, solver, options, monitor, explain=len(candidates) == 1)
        tried.append((priced, found))
        if found.stop_reason is StopReason.INTERRUPTED:
            break
    priced, result = tried[model.choose(tried)]
    if result.status is Status.INFEASIBLE and not result.reason:
        chosen = find_solver(priced.problem, solver, options)
        result = dataclasses.replace(result, reason=why_not(priced.problem, chosen, options, clock))
    rows: list[Rival] = []
    if baselines:
        result, rows = beside_baselines(result, options, clock=clock.share(BASELINES))
    # The answer without a runtime's limits; None where there are none, or nobody solves that.
    free = None
    if priced.free is not None and result.stop_reason is not StopReason.INTERRUPTED:
        monitor = clock.share(FREE, FREE_S)
        with contextlib.suppress(UnsupportedError):
            limited = priced.free != priced.problem
            free = run_solver(priced.free, None, options, monitor, explain=False) if limited else result
    return dataclasses.replace(answer(priced, result, rows, options, clock), tried=tuple(tried), free=free)


def answer(
    priced: Priced[Any],
    result: AnyResult,
    rows: Sequence[Rival],
    options: Any,
    clock: Monitor,
    *,
    probe: bool = True,
) -> ModelPlan[Any]:
    """What a problem makes of a result: what is better in a way that the objective does not see, and what limits it.

    With ``probe`` it is planned again without a limit that is nearly reached. All of it ends with ``clock``.
    """
    kind = kind_of(result.problem)
    assert kind.model is not None
    refined = RefinedPlan()
    if result.plan is not None and result.stop_reason is not StopReason.INTERRUPTED:
        monitor = clock.share(REFINE, REFINE_S)
        with interruptible(monitor):
            refined = kind.model.refine(priced, result, rows, options, monitor)
        if refined.row is not None:
            result = adopt(result, refined.row, options)
        if monitor.interrupted:
            result = dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED)
    without = None
    if (
        probe
        and refined.by_objective
        and result.evaluation is not None
        and result.stop_reason is not StopReason.INTERRUPTED
    ):
        unlimited = kind.unlimited(result.problem, result.evaluation)
        if unlimited is not None:
            monitor = clock.share(UNLIMITED, UNLIMITED_S)
            without = run_solver(unlimited, None, options, monitor, explain=False).objective
    return ModelPlan(
        priced,
        result,
        tuple(rows),
        other=refined.other,
        without_limit=without,
        wider_bound=refined.wider_bound,
        limits=refined.limits,
    )
