"""The search over stages and replicas for a model, with its plans by every objective that has stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from partita.conductor.compare import run_baselines
from partita.conductor.plan import BASELINES, SEARCH, answer, plan_priced, price_all
from partita.conductor.search import Searched, replicas_of, search_stages
from partita.conductor.solve import options_of
from partita.engines.processes.pool import Pool
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Statistics, Status, StopReason
from partita.nouns.topology.topology import Topology
from partita.problems import kind_of, kinds
from partita.problems.facets.model import ModelPlan, Priced
from partita.problems.kind import AnyKind
from partita.problems.settings import settings_of

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph


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
) -> tuple[ModelPlan[Any], Searched]:
    """``search_stages`` for a model that is planned as ``kind``: its plans by every objective that has stages compete.

    Of several candidates the first is searched. The time limit is that of everything; a quarter is for each plan that
    competes.
    """
    priced = candidates[0]
    replicas_of(priced.problem)
    share = None if time_limit_s is None else time_limit_s / 4
    clock = Monitor(time_limit_s)
    with pool or Pool() as workers:
        #: By problem: how it is priced, the options of its search, and its plan.
        tried = {kind.name: (priced, options, _planned(priced, options, share))}
        for other in kinds():
            model = other.model
            if other is kind or other.stages is None or model is None or graph.workload not in model.workloads:
                continue
            if model.refusal(cluster) is None:
                own = options_of(other, options.seed, options.threads, {})
                first = price_all(other, graph, cluster, _same_batch(other, priced), {})[0]
                tried[other.name] = first, own, _planned(first, own, share)
        results = [(f"plan of objective {name}", one.result) for name, (_, _, one) in tried.items()]
        known = [(name, found.problem, found.plan) for name, found in results if found.plan is not None]
        also = [
            one.problem
            for name, (one, _, _) in tried.items()
            if name != kind.name and (facet := kind_of(one.problem).replicas) and facet.refusal(one.problem) is None
        ]
        left = None if time_limit_s is None else max(0.1, SEARCH * clock.remaining_s)
        found = search_stages(
            priced.problem,
            topology,
            also=also,
            known=known,
            time_limit_s=left,
            seed=options.seed,
            threads=options.threads,
            pool=workers,
            progress=progress,
        )
    best = found.best
    own = kind_of(best.problem)
    stated, chosen, planned = tried[own.name]
    if best.shape is None:
        return planned, found
    result = dataclasses.replace(
        planned.result,
        problem=best.problem,
        plan=best.plan,
        evaluation=own.evaluate(best.problem, best.plan),
        bound=None,
        status=Status.FEASIBLE,
        stop_reason=StopReason.FINISHED if found.finished else StopReason.TIME_LIMIT,
        solver="stages-replicas",
        runtime_s=clock.elapsed_s,
        reason="",
        statistics=Statistics(),
    )
    rows = run_baselines(best.problem, chosen, clock=clock.share(BASELINES))
    return answer(dataclasses.replace(stated, problem=best.problem), result, rows, chosen, clock, probe=False), found


def _planned(priced: Priced[Any], options: Any, time_limit_s: float | None) -> ModelPlan[Any]:
    return plan_priced([priced], options, Monitor(time_limit_s), baselines=False)


def _same_batch(kind: AnyKind, priced: Priced[Any]) -> dict[str, Any]:
    """Settings of another pricing with as many microbatches."""
    assert kind.model is not None
    setting = settings_of(kind.model.pricing).get("microbatches")
    count = getattr(priced.settings, "microbatches", None)
    if setting is None or count is None:
        return {}
    counts = tuple(count) if isinstance(count, tuple) else (count,)
    return {"microbatches": counts if setting.is_list else counts[0]}
