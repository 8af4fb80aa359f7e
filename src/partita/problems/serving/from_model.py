"""From a decoder on a cluster to a serving problem: the workload, and a priced form for every layout looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.costs.serving.decoder import Decoder, decoder_of
from partita.costs.serving.formats import find_format
from partita.costs.serving.kernel_times import Fabric
from partita.costs.serving.layout import ServingLayout
from partita.costs.serving.pricing import price_steps
from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.nouns.catalogue.engines import EngineSpec, find_engine
from partita.nouns.graph import Workload
from partita.nouns.workload.files import read_requests
from partita.nouns.workload.workload import RequestTrace, RequestWorkload
from partita.problems.facets.model import FromModel, Priced
from partita.problems.serving.engine import check_lengths
from partita.problems.serving.options import ServingPricing, StatedLayout, parse_unit_layout, targets_of
from partita.problems.serving.problem import (
    EngineRules,
    ServingPlan,
    ServingProblem,
    ServingUnit,
    UnitFormats,
    UnitGroup,
    UnitLayout,
)

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

#: Tokens in the cache of the step of decoding that models are traced as: more than most sliding windows, less where a
#: model has fewer positions, and, as primes, no other size of a model.
TRACED_AFTER = (8209, 4099, 2039, 1021, 509)
#: The deepest pipeline that is looked at without a layout.
_DEEPEST = 4
#: Formats where nothing is said.
_FORMAT = "bf16"


class ServingFromModel(FromModel[ServingProblem]):
    """Decoders on devices of one kind; a layout is priced without search."""

    pricing = ServingPricing
    workloads = (Workload.INFERENCE,)
    traced_after = TRACED_AFTER

    def refusal(self, cluster: Cluster) -> str | None:
        groups = cluster.workers()
        if len(groups) > 1:
            names = ", ".join(group.spec.name for group in groups)
            return f"has devices of several kinds ({names}), and a deployment is of one"
        return None

    def check(self, settings: ServingPricing, cluster: Cluster) -> None:
        for name, remedy in (("costs", "steps are priced by the device's data"), ("runtime", "the engine is --engine")):
            if getattr(settings, name) is not None:
                raise InputError(f"--{name} is not known when serving: {remedy}; leave it out")
        for name in ("weights", "expert_weights", "cache"):
            if getattr(settings, name) is not None:
                find_format(getattr(settings, name))
        if settings.layout is not None:
            layout = parse_unit_layout(settings.layout).degrees
            if layout.devices > cluster.device_count:
                raise InputError(
                    f"--layout {settings.layout} takes {layout.devices} devices, and cluster {cluster.name} has "
                    f"{cluster.device_count}"
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
        workload = workload_of(settings)
        stated = None if settings.layout is None else parse_unit_layout(settings.layout)
        if stated is None:
            units = [
                priced_unit(decoder, cluster, StatedLayout(degrees=one), settings) for one in layouts(decoder, cluster)
            ]
        else:
            units = [priced_unit(decoder, cluster, stated, settings)]
            check_room(units[0])
            check_lengths(units[0], workload.lengths())
        problem = ServingProblem(
            name=settings.name or f"{graph.name} on {cluster.name}",
            workload=workload,
            units=tuple(units),
            devices=cluster.device_count,
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


def workload_of(settings: ServingPricing) -> RequestWorkload:
    """The requests that the settings say; one at a time where they do not say when requests come.

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
    alone = settings.concurrency is None and settings.rate is None and "trace" not in fields
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
    if settings.concurrency is None and settings.rate is None and settings.requests is None:
        return ("Nothing says when requests come: one is in flight at a time; --concurrency or --rate would say it.",)
    return ()


def layouts(decoder: Decoder, cluster: Cluster) -> Iterator[UnitLayout]:
    """The layouts that are looked at: degrees that are powers of two, tensor-parallel groups inside a machine."""
    count, machine = cluster.device_count, max(cluster.per_machine(cluster.workers()[0]))
    layers = sum(block.attention is not None for block in decoder.blocks)
    mixture = any(block.experts for block in decoder.blocks)
    powers = [1 << power for power in range(count.bit_length()) if 1 << power <= count]
    for pipeline in (p for p in powers if p <= min(_DEEPEST, layers)):
        for tensor in (t for t in powers if t <= machine and t * pipeline <= count):
            for groups in powers if mixture else (1,):
                if groups * tensor * pipeline > count:
                    continue
                stage = groups * tensor
                # Experts shared out whole, or each cut into parts.
                for expert in {1, stage} if mixture else (None,):
                    parts = None if expert is None else stage // expert
                    yield UnitLayout(
                        tensor=tensor, pipeline=pipeline, attention_data=groups, expert=expert, expert_tensor=parts
                    )


def rules_of(engine: EngineSpec, stated: StatedLayout) -> EngineRules:
    """How an engine puts steps together, with the sizes that a layout states."""
    return EngineRules(
        requests=stated.requests or engine.requests,
        tokens=stated.tokens or engine.step_tokens,
        block_tokens=engine.block,
        mixed=not engine.prompts_first,
        chunked=engine.chunks,
        reserve="whole" if engine.reserved_output else "chunk",
        promise=engine.reserved_output or 1.0,
        keeps=engine.keeps_preempted,
    )


def priced_unit(decoder: Decoder, cluster: Cluster, stated: StatedLayout, settings: ServingPricing) -> ServingUnit:
    """A form of a layout, with its prices."""
    group = cluster.workers()[0]
    engine, degrees = find_engine(settings.engine), stated.degrees
    mixture = any(block.experts for block in decoder.blocks)
    layout = ServingLayout(
        tensor=degrees.tensor,
        pipeline=degrees.pipeline,
        # Groups of a dense model do not wait for each other: they are units of their own.
        attention_data=degrees.attention_data if mixture else 1,
        expert=degrees.expert or 0,
        expert_tensor=degrees.expert_tensor or 0,
        weights=settings.weights or _FORMAT,
        expert_weights=settings.expert_weights,
        cache=settings.cache or _FORMAT,
    ).settled(decoder)
    if mixture:
        degrees = msgspec.structs.replace(degrees, expert=layout.expert, expert_tensor=layout.expert_tensor)
    link = cluster.machines[0].link or group.spec.link
    network = cluster.links[cluster.network] if len(cluster.machines) > 1 else None
    fabric = Fabric(cluster.links[link], network, max(cluster.per_machine(group)))
    prices = price_steps(decoder, layout, group.spec, fabric, engine)
    formats = UnitFormats(
        weights=find_format(layout.weights).name,
        expert_weights=find_format(layout.of_experts).name if mixture else None,
        cache=find_format(layout.cache).name,
    )
    return ServingUnit(
        kind=group.spec.name,
        layout=degrees,
        rules=rules_of(engine, stated),
        prices=prices,
        engine=engine.name,
        formats=formats,
    )


def check_room(unit: ServingUnit) -> None:
    """Refuse a form whose weights leave no room for a cache."""
    for held, room in zip(unit.prices.weight_bytes, unit.prices.cache_budget_bytes, strict=True):
        if room <= 0:
            raise InputError(
                f"{unit.layout.label} on {unit.kind}: weights of {format_bytes(held)} on a device leave no room for a "
                "cache; use more devices, or a smaller format (--weights)"
            )
