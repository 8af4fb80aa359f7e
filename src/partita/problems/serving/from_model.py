"""From a decoder on a cluster to a serving problem: the workload, the pools of devices, and the menu of forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from partita.costs.serving.decoder import decoder_of
from partita.costs.serving.formats import find_format
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.nouns.catalogue.engines import find_engine
from partita.nouns.graph import Workload
from partita.nouns.workload.files import read_requests
from partita.nouns.workload.workload import RequestTrace, RequestWorkload
from partita.problems.facets.model import FromModel, Priced, RefinedPlan
from partita.problems.serving.changes import change_sentences
from partita.problems.serving.engine import check_lengths
from partita.problems.serving.menu import link_of, menu, priced_unit
from partita.problems.serving.options import (
    MANY,
    ServingPricing,
    parse_unit_layout,
    prices_per_hour,
    targets_of,
    unit_of,
)
from partita.problems.serving.problem import DevicePool, Goal, ServingPlan, ServingProblem, ServingUnit, UnitGroup

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

#: Tokens in the cache of the step of decoding that models are traced as: more than most sliding windows, less where a
#: model has fewer positions, and, as primes, no other size of a model.
TRACED_AFTER = (8209, 4099, 2039, 1021, 509)
#: Steps from prompts to prompts that fleets are tried with.
_INTERVALS = (1, 2, 4, 6, 8, 12, 16, 24)


class ServingFromModel(FromModel[ServingProblem]):
    """Decoders on pools of devices; a layout is priced without search."""

    pricing = ServingPricing
    workloads = (Workload.INFERENCE,)
    traced_after = TRACED_AFTER

    def check(self, settings: ServingPricing, cluster: Cluster) -> None:
        for name, remedy in (("costs", "steps are priced by the device's data"), ("runtime", "the engine is --engine")):
            if getattr(settings, name) is not None:
                raise InputError(f"--{name} is not known when serving: {remedy}; leave it out")
        for name in ("weights", "expert_weights", "cache"):
            if getattr(settings, name) is not None:
                find_format(getattr(settings, name))
        workers = cluster.workers()
        prices_per_hour(settings.price_per_hour, [group.spec.name for group in workers])
        if settings.layout is not None:
            layout = parse_unit_layout(settings.layout).degrees
            most = max(len(group.indices) for group in workers)
            if layout.devices > most:
                kind = "" if len(workers) == 1 else " of a kind"
                raise InputError(
                    f"--layout {settings.layout} takes {layout.devices} devices, and cluster {cluster.name} has "
                    f"{most}{kind}"
                )
        workload_of(settings)
        targets_of(settings)

    def price(
        self,
        graph: Graph,
        cluster: Cluster,
        settings: ServingPricing,
        change: Callable[[ServingProblem], ServingProblem] | None = None,
    ) -> Sequence[Priced[ServingProblem]]:
        self.check(settings, cluster)
        decoder = decoder_of(graph)
        workload, goal = workload_of(settings), goal_of(settings)
        if settings.layout is None:
            units = menu(decoder, cluster, settings, workload.lengths())
        else:
            stated = parse_unit_layout(settings.layout)
            group = next(g for g in cluster.workers() if len(g.indices) >= stated.degrees.devices)
            units = [priced_unit(decoder, cluster, group, stated, settings)]
            check_room(units[0])
            check_lengths(units[0], workload.lengths())
        pools = pools_of(cluster, settings)
        problem = ServingProblem(
            name=settings.name or f"{graph.name} on {cluster.name}",
            unit=unit_of(goal, pools),
            workload=workload,
            units=tuple(units),
            pools=pools,
            goal=goal,
            intervals=_INTERVALS if goal == "rate" and any(map(spaced, units)) else (1,),
            roles=settings.roles or ("any" if goal != "time" else "both"),
            link_bytes_per_s=link_of(cluster),
            targets=targets_of(settings),
            notes=(
                *graph.notes,
                *dict.fromkeys(note for unit in units for note in unit.prices.notes),
                *_load(settings),
            ),
        )
        return [Priced(problem if change is None else change(problem), graph, cluster, settings)]

    def stated(self, priced: Priced[ServingProblem]) -> ServingPlan | None:
        return None if priced.settings.layout is None else ServingPlan(units=(UnitGroup(unit=0),))

    def refine(
        self,
        priced: Priced[ServingProblem],
        result: Result[ServingProblem, Any, Any],
        rows: Sequence[Rival],
        options: Any,
        monitor: Monitor,
    ) -> RefinedPlan:
        """What would change the answer."""
        return RefinedPlan(limits=tuple(change_sentences(priced, result, monitor)))


def pools_of(cluster: Cluster, settings: ServingPricing) -> tuple[DevicePool, ...]:
    """The workers of a cluster by kind."""
    workers = cluster.workers()
    prices = prices_per_hour(settings.price_per_hour, [group.spec.name for group in workers])
    return tuple(
        DevicePool(
            kind=group.spec.name,
            machines=tuple(cluster.per_machine(group)),
            price_per_hour=prices.get(group.spec.name),
        )
        for group in workers
    )


def spaced(unit: ServingUnit) -> bool:
    """Whether the engine of a form lets its attention-data groups have prompts in some steps only."""
    return unit.in_step and unit.engine is not None and find_engine(unit.engine).spaces_prompts


def goal_of(settings: ServingPricing) -> Goal:
    """What is looked for: at a rate the cheapest fleet, where nothing says when requests come the most of them, and
    otherwise, and of a layout, the least time."""
    if settings.layout is not None or settings.concurrency is not None:
        return "time"
    return "rate" if settings.rate is None else "cost"


def workload_of(settings: ServingPricing) -> RequestWorkload:
    """The requests that the settings say; of a layout one at a time where they do not say when requests come.

    Raises ``InputError`` if lengths are given in no way or two, or the file cannot be read.
    """
    fields: dict[str, Any] = {}
    if settings.requests is not None:
        if settings.prompt_tokens is not None or settings.output_tokens is not None:
            raise InputError(
                "--requests gives the lengths of requests; leave --prompt-tokens and --output-tokens out, or that"
            )
        found = read_requests(settings.requests)
        fields["trace" if isinstance(found, RequestTrace) else "histogram"] = found
    elif settings.prompt_tokens is None or settings.output_tokens is None:
        raise InputError("serving needs a workload: give --prompt-tokens and --output-tokens, or a file of --requests")
    if settings.concurrency is not None and settings.rate is not None:
        raise InputError("--concurrency is a closed loop and --rate an open one; leave one out")
    goal = goal_of(settings)
    alone = goal == "time" and settings.concurrency is None and settings.rate is None and "trace" not in fields
    if goal == "rate":
        # Long enough that what is under way at the end is a small share.
        fields["requests"] = max(MANY, len(fields["trace"].arrival_s) if "trace" in fields else 0)
    return RequestWorkload(
        prompt_tokens=settings.prompt_tokens,
        output_tokens=settings.output_tokens,
        concurrency=1 if alone else settings.concurrency,
        rate_per_s=settings.rate,
        prefix_tokens=settings.prefix_tokens,
        prefix_groups=settings.prefix_groups,
        seed=settings.workload_seed,
        spread=find_engine(settings.engine).drift if settings.concurrency and settings.prompt_tokens else 0.0,
        **fields,
    )


def _load(settings: ServingPricing) -> tuple[str, ...]:
    goal = goal_of(settings)
    if goal == "time" and settings.concurrency is None and settings.rate is None and settings.requests is None:
        return ("Nothing says when requests come: one is in flight at a time; --concurrency or --rate would say it.",)
    if goal != "time" and settings.ttft is None and settings.tpot is None:
        return ("Nothing is promised to users, who may wait as long as it takes; --ttft and --tpot would promise it.",)
    return ()


def check_room(unit: ServingUnit) -> None:
    """Refuse a form whose weights leave no room for a cache."""
    for held, room in zip(unit.prices.weight_bytes, unit.prices.cache_budget_bytes, strict=True):
        if room <= 0:
            raise InputError(
                f"{unit.layout.label} on {unit.kind}: weights of {format_bytes(held)} on a device leave no room for a "
                "cache; use more devices, or a smaller format (--weights)"
            )
