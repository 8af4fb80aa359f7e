"""The menu: the forms of units that a fleet may have, of every kind of device of a cluster, with their prices.

A form is a kind of device, degrees, most requests at once and most tokens in a step. The prices of a step depend on
kind and degrees only, so that forms that differ in the sizes alone share them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from partita.costs.serving.decoder import Decoder
from partita.costs.serving.formats import find_format
from partita.costs.serving.kernel_times import Fabric
from partita.costs.serving.layout import ServingLayout
from partita.costs.serving.pricing import price_steps
from partita.ground.errors import InputError
from partita.nouns.catalogue.engines import EngineSpec, find_engine
from partita.problems.serving.engine import check_lengths
from partita.problems.serving.options import ServingPricing, StatedLayout
from partita.problems.serving.problem import EngineRules, ServingUnit, UnitFormats, UnitLayout

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster, DeviceGroup

#: The deepest pipeline that is looked at where shallower ones hold the model, and the deepest of all.
_DEEPEST, _LIMIT = 4, 64
#: Shares of the engine's usual number of tokens in a step.
_TOKEN_SHARES = (1, 4, 8, 16)
#: Requests at once.
_REQUESTS = (256, 1024)
#: Formats where nothing is said.
_FORMAT = "bf16"


def layouts(decoder: Decoder, devices: int, machine: int, deepest: int = _DEEPEST) -> Iterator[UnitLayout]:
    """The degrees that are looked at, on so many devices in machines of so many.

    Tensor-parallel groups, and experts that are cut into parts, stay inside a machine; all degrees are powers of two,
    but for pipelines of three stages where devices are multiples of three.
    """
    layers = sum(block.attention is not None for block in decoder.blocks)
    experts = min((product.experts for block in decoder.blocks for product in block.experts), default=0)
    powers = [1 << power for power in range(devices.bit_length())]
    stages = sorted({*powers, 3} if devices % 3 == 0 else powers)
    for pipeline in (p for p in stages if p <= min(deepest, layers, devices)):
        for tensor in (t for t in powers if t <= min(machine, devices // pipeline) and not decoder.heads % t):
            for groups in powers if experts else (1,):
                stage = groups * tensor
                if stage * pipeline > devices:
                    break
                # Experts shared out whole, or each cut into parts.
                whole = {stage} if stage <= experts else set()
                for expert in sorted(whole | ({1} if stage <= machine else set())) if experts else (None,):
                    parts = None if expert is None else stage // expert
                    yield UnitLayout(
                        tensor=tensor, pipeline=pipeline, attention_data=groups, expert=expert, expert_tensor=parts
                    )


def menu(
    decoder: Decoder, cluster: Cluster, settings: ServingPricing, lengths: Sequence[tuple[int, int]]
) -> list[ServingUnit]:
    """All forms of all kinds of workers that hold the model and a request.

    Where none does on the devices that there are, those that would on more of them, the smallest of each kind; where
    that is not known either, a form of each kind that holds too little.
    """
    found = [unit for group in cluster.workers() for unit in _fitting(decoder, cluster, group, settings, lengths)]
    if found:
        return found
    larger = (_smallest(decoder, cluster, group, settings, lengths) for group in cluster.workers())
    return [unit for unit in larger if unit is not None] or [
        priced_unit(decoder, cluster, group, StatedLayout(degrees=_largest(decoder, cluster, group)), settings)
        for group in cluster.workers()
    ]


def _fitting(
    decoder: Decoder,
    cluster: Cluster,
    group: DeviceGroup,
    settings: ServingPricing,
    lengths: Sequence[tuple[int, int]],
) -> list[ServingUnit]:
    """The forms of a kind, with every size; with deeper pipelines where no others hold the model."""
    count, machine = len(group.indices), max(cluster.per_machine(group))
    engine = find_engine(settings.engine)
    for deepest in (_DEEPEST, _LIMIT):
        found: list[ServingUnit] = []
        for layout in layouts(decoder, count, machine, deepest):
            unit = priced_unit(decoder, cluster, group, StatedLayout(degrees=layout), settings)
            if holds(unit, lengths):
                found += sized(unit, engine, lengths)
        if found:
            return found
    return []


def holds(unit: ServingUnit, lengths: Sequence[tuple[int, int]]) -> bool:
    """Whether weights leave room for a request of each of these lengths."""
    try:
        check_lengths(unit, lengths)
    except InputError:
        return False
    return True


def sized(unit: ServingUnit, engine: EngineSpec, lengths: Sequence[tuple[int, int]]) -> Iterator[ServingUnit]:
    """A form with every number of requests and tokens; requests that its cache never holds at once are left out."""
    rules = unit.rules
    longest = max(prompt for prompt, _ in lengths)
    least = 1 if rules.chunked else longest
    tokens = {max(1, engine.step_tokens // share) for share in _TOKEN_SHARES if engine.step_tokens // share >= least}
    if engine.step_tokens // _TOKEN_SHARES[1] < longest < engine.step_tokens:
        # A prompt a step: the next one does not begin in what is left of it.
        tokens.add(longest)
    part = engine.step_tokens // _TOKEN_SHARES[2]
    if rules.chunked and all(prompt == longest for prompt, _ in lengths) and part < longest:
        # Equal chunks of every prompt, of about as many tokens.
        tokens.add(-(-longest // -(-longest // part)))
    shortest = min(prompt + 1 for prompt, _ in lengths)
    held = unit.prices.cache_tokens(shortest) // shortest // unit.prices.attention_data
    requests = [size for size in _REQUESTS if size < held]
    requests += [size for size in _REQUESTS if size >= held][:1]
    for at_once, in_step in itertools.product(requests, sorted(tokens or {longest})):
        if at_once <= in_step:
            yield msgspec.structs.replace(unit, rules=msgspec.structs.replace(rules, requests=at_once, tokens=in_step))


def _smallest(
    decoder: Decoder,
    cluster: Cluster,
    group: DeviceGroup,
    settings: ServingPricing,
    lengths: Sequence[tuple[int, int]],
) -> ServingUnit | None:
    """The smallest form of a kind that would hold the model, on as many machines as that takes."""
    machine = max(cluster.per_machine(group))
    count = len(group.indices)
    # A machine of eight is what there is to buy; more of the largest one there is otherwise.
    for size in sorted({machine, 8}):
        for more in (1 << power for power in range(7)):
            if size * more <= count:
                continue
            every = layouts(decoder, size * more, size, _LIMIT)
            for layout in sorted(every, key=lambda one: (one.devices, one.pipeline)):
                if layout.devices > count:
                    unit = priced_unit(decoder, cluster, group, StatedLayout(degrees=layout), settings)
                    if holds(unit, lengths):
                        return unit
    return None


def _largest(decoder: Decoder, cluster: Cluster, group: DeviceGroup) -> UnitLayout:
    found: Iterable[UnitLayout] = layouts(decoder, len(group.indices), max(cluster.per_machine(group)))
    return max(found, key=lambda one: (one.devices, one.tensor))


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


def fabric_of(cluster: Cluster, group: DeviceGroup) -> Fabric:
    """How devices of a kind reach each other: the slowest link of machines that have them, and the network."""
    machine_of = cluster.machine_of()
    having = sorted({machine_of[index] for index in group.indices})
    links = [cluster.links[cluster.machines[number].link or group.spec.link] for number in having]
    network = cluster.links[cluster.network] if len(cluster.machines) > 1 else None
    slowest = min(links, key=lambda link: link.achievable_bytes_per_s)
    return Fabric(slowest, network, max(cluster.per_machine(group)))


def priced_unit(
    decoder: Decoder, cluster: Cluster, group: DeviceGroup, stated: StatedLayout, settings: ServingPricing
) -> ServingUnit:
    """A form of a layout on a kind of device, with its prices."""
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
    prices = price_steps(decoder, layout, group.spec, fabric_of(cluster, group), engine)
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


def link_of(cluster: Cluster) -> float | None:
    """Bytes per second at which a card hands on a cache to one elsewhere in the cluster; None of a card alone."""
    paths = [path for group in cluster.workers() if (path := cluster.slowest_path(group)) is not None]
    return min((path.bandwidth_bytes_per_s for path in paths), default=None)
