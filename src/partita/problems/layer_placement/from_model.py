"""From a decoder on a cluster of unlike devices to a layer placement: what every machine passes, by its layers.

A machine is a tensor-parallel group of devices of one kind in one machine of the cluster. With k layers it decodes a
batch of as many requests as have room for their cache beside the weights (and as the engine takes): each has its whole
length, prompt and output, reserved. A request with P prompt and O output tokens takes the time of its prompt once, in
chunks, and O − 1 times its share of a full step; so the machine passes O tokens in the sum of these. Of all intervals
of k layers in the model the slowest counts, but for what is before the first layer and behind the last, which only the
machine at that end has. A link carries the bytes of a token's activations; the source and the sink exchange tokens as
numbers with the host of each machine. Links do not share cards here. Source of the form: Helix (ASPLOS 2025), §4.3.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from partita.costs.serving.decoder import Decoder, DecoderBlock, decoder_of
from partita.costs.serving.formats import find_format
from partita.costs.serving.kernel_times import Fabric
from partita.costs.serving.layout import ServingLayout
from partita.costs.serving.prices import StepPrices
from partita.costs.serving.pricing import price_steps
from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.nouns.catalogue.engines import EngineSpec, find_engine
from partita.nouns.graph import Workload
from partita.problems.facets.model import FromModel, Priced, Pricing
from partita.problems.layer_placement.problem import (
    SINK,
    SOURCE,
    LayerMachine,
    LayerPlacementProblem,
    LayerSteps,
    MachineEnd,
    TokenLink,
)
from partita.problems.settings import setting

if TYPE_CHECKING:
    from partita.engines.search.result import Result
    from partita.nouns.catalogue.specs import DeviceSpec
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

#: Tokens in the cache of the step of decoding that models are traced as: primes, no other size of a model.
_TRACED_AFTER = (8209, 4099, 2039, 1021, 509)
#: Machines for which links are made, of every two one each way.
_MOST_MACHINES = 128
#: Bytes of a number of activations, and of a token as a number.
_ACTIVATION, _TOKEN = 2, 4


class LayerPlacementPricing(Pricing, frozen=True, kw_only=True):
    """How a model on a cluster becomes a problem: its requests, its engine, and what works as one machine."""

    prompt_tokens: Annotated[int | None, setting("Tokens of every prompt.", metavar="P", least=1, unit="tokens")] = None
    output_tokens: Annotated[int | None, setting("Tokens of every output.", metavar="O", least=1, unit="tokens")] = None
    engine: Annotated[Literal["vllm", "trtllm", "sglang"], setting("The serving engine.")] = "vllm"
    weights: Annotated[
        str | None, setting("Format of dense weights: bf16, fp8, int8, int4, nvfp4, mxfp4, ….", metavar="FORMAT")
    ] = None
    cache: Annotated[str | None, setting("Format of the cache: bf16, fp8, ….", metavar="FORMAT")] = None
    tensor: Annotated[
        int | None,
        setting(
            "Devices of one kind in a machine that work as one, tensor-parallel; powers of two are tried if not given.",
            metavar="T",
            least=1,
            unit="devices",
        ),
    ] = None


@dataclass(frozen=True)
class _Joined:
    """Devices that work as one machine: their spec, how they reach each other, their numbers in the cluster."""

    spec: DeviceSpec
    fabric: Fabric
    devices: tuple[int, ...]

    @property
    def name(self) -> str:
        low, high = self.devices[0], self.devices[-1]
        return f"{self.spec.name}:{low}" + (f"-{high}" if high > low else "")

    @property
    def type(self) -> str:
        return self.spec.name if len(self.devices) == 1 else f"{len(self.devices)} × {self.spec.name}"


class LayerPlacementFromModel(FromModel[LayerPlacementProblem]):
    """Decoders over devices of any kinds; one problem for each size of tensor-parallel groups."""

    pricing = LayerPlacementPricing
    workloads = (Workload.INFERENCE,)
    traced_after = _TRACED_AFTER

    def refusal(self, cluster: Cluster) -> str | None:
        count = sum(len(group.indices) for group in cluster.workers())
        if count > _MOST_MACHINES:
            return f"has {count} devices, and layers are placed on at most {_MOST_MACHINES}"
        return None

    def check(self, settings: LayerPlacementPricing, cluster: Cluster) -> None:
        for name, remedy in (("costs", "steps are priced by the device's data"), ("runtime", "the engine is --engine")):
            if getattr(settings, name) is not None:
                raise InputError(f"--{name} is not known when layers are placed: {remedy}; leave it out")
        if settings.prompt_tokens is None or settings.output_tokens is None:
            raise InputError(
                "the cache of a request needs its length: give --prompt-tokens and --output-tokens of the requests"
            )
        for form in (settings.weights, settings.cache):
            if form is not None:
                find_format(form)
        most = max(itertools.chain.from_iterable(cluster.per_machine(group) for group in cluster.workers()))
        if settings.tensor is not None and settings.tensor > most:
            raise InputError(
                f"--tensor {settings.tensor}: no machine of cluster {cluster.name} has more than {most} devices of a "
                "kind; give at most that"
            )

    def price(
        self,
        graph: Graph,
        cluster: Cluster,
        settings: LayerPlacementPricing,
        change: Callable[[LayerPlacementProblem], LayerPlacementProblem] | None = None,
    ) -> Sequence[Priced[LayerPlacementProblem]]:
        self.check(settings, cluster)
        decoder = decoder_of(graph)
        names = assign_layers(GraphView(graph))[1]
        # The modules of every layer, at the ends with what is before the first and behind the last.
        cuts = _cuts(layers_of(decoder), len(names))
        modules = tuple(tuple(names[low:high]) for low, high in itertools.pairwise(cuts))
        most = max(itertools.chain.from_iterable(cluster.per_machine(group) for group in cluster.workers()))
        sizes = [1 << n for n in range(most.bit_length()) if not decoder.heads % (1 << n)]
        found = []
        for tensor in sizes if settings.tensor is None else [settings.tensor]:
            problem = _problem(decoder, cluster, settings, tensor, graph)
            changed = problem if change is None else change(problem)
            found.append(Priced(changed, graph, cluster, settings, modules))
        if all(not machine.tokens_per_s for priced in found for machine in priced.problem.machines):
            raise InputError(_no_room(decoder, cluster, settings))
        # Machines without room for a layer are no use in any group size that has others.
        return [one for one in found if any(machine.tokens_per_s for machine in one.problem.machines)]

    def choose(
        self, answers: Sequence[tuple[Priced[LayerPlacementProblem], Result[LayerPlacementProblem, Any, Any]]]
    ) -> int:
        objectives = [float("inf") if one.objective is None else one.objective for _, one in answers]
        return objectives.index(min(objectives))


def _cuts(layers: Sequence[int], blocks: int) -> list[int]:
    """Where in the blocks every layer begins; before the first and behind the last are all others."""
    return [0, *layers[1:], blocks]


def layers_of(decoder: Decoder) -> list[int]:
    """The blocks that are layers: those that attend."""
    return [place for place, block in enumerate(decoder.blocks) if block.attention is not None]


def _groups(cluster: Cluster, tensor: int) -> Iterator[_Joined]:
    """The machines: of every kind in a machine of the cluster groups of so many, the last ones by powers of two."""
    machine = cluster.machine_of()
    for group in cluster.workers():
        for number in range(len(cluster.machines)):
            inside = [device for device in group.indices if machine[device] == number]
            link = cluster.machines[number].link or group.spec.link
            fabric = Fabric(cluster.links[link], None, max(1, len(inside)))
            size = tensor
            while inside:
                while size > len(inside):
                    size = 1 << (len(inside).bit_length() - 1)
                yield _Joined(group.spec, fabric, tuple(inside[:size]))
                inside = inside[size:]


def _problem(
    decoder: Decoder, cluster: Cluster, settings: LayerPlacementPricing, tensor: int, graph: Graph
) -> LayerPlacementProblem:
    groups = sorted(_groups(cluster, tensor), key=lambda one: one.devices)
    known: dict[tuple[str, str, int], LayerMachine] = {}
    machines, notes = [], list(graph.notes)
    for group in groups:
        key = (group.spec.name, group.fabric.link.name, len(group.devices))
        if key not in known:
            known[key] = _Tables(decoder, group, settings).machine()
            if not known[key].tokens_per_s:
                notes.append(f"A machine of {group.type} has no room for a layer and a request, and holds nothing.")
        machines.append(msgspec.structs.replace(known[key], name=group.name))
    assert settings.prompt_tokens is not None
    assert settings.output_tokens is not None
    notes.append(
        f"Machines are tensor-parallel groups of up to {tensor} devices of one kind; rates are output tokens of "
        f"requests with {settings.prompt_tokens} prompt and {settings.output_tokens} output tokens, as "
        f"{settings.engine} runs them, at the batch that the memory beside the weights allows; links do not share "
        "network cards."
    )
    return LayerPlacementProblem(
        name=settings.name or f"{graph.name} on {cluster.name}",
        layers=len(layers_of(decoder)),
        machines=tuple(machines),
        links=tuple(_links(cluster, groups, decoder.hidden)),
        prompt_tokens=settings.prompt_tokens,
        output_tokens=settings.output_tokens,
        notes=tuple(dict.fromkeys(notes)),
    )


def _links(cluster: Cluster, groups: Sequence[_Joined], hidden: int) -> Iterator[TokenLink]:
    for one in groups:
        host = cluster.links[one.spec.to_host]
        rate = host.achievable_bytes_per_s / _TOKEN
        yield TokenLink(source=SOURCE, target=one.name, tokens_per_s=rate, latency_s=host.latency_s)
        yield TokenLink(source=one.name, target=SINK, tokens_per_s=rate, latency_s=host.latency_s)
    for one, other in itertools.permutations(groups, 2):
        path = cluster.path(one.devices[0], other.devices[0])
        rate = path.bandwidth_bytes_per_s / (hidden * _ACTIVATION)
        yield TokenLink(source=one.name, target=other.name, tokens_per_s=rate, latency_s=path.latency_s)


class _Tables:
    """The tables of machines of one make."""

    def __init__(self, decoder: Decoder, group: _Joined, settings: LayerPlacementPricing) -> None:
        self.decoder, self.group, self.settings = decoder, group, settings
        self.engine: EngineSpec = find_engine(settings.engine)
        self.layers = layers_of(decoder)
        self.known: dict[frozenset[tuple[DecoderBlock, int]], tuple[float, LayerSteps] | None] = {}

    def machine(self) -> LayerMachine:
        """Its name is that of its kind."""
        count, cuts = len(self.layers), _cuts(self.layers, len(self.decoder.blocks))
        blocks = self.decoder.blocks
        rates: dict[int, float] = {}
        steps: dict[int, LayerSteps] = {}
        ends: list[tuple[dict[int, float], dict[int, LayerSteps]]] = [({}, {}), ({}, {})]
        for k in range(1, count + 1):
            windows = [blocks[self.layers[a] : self.layers[a + k - 1] + 1] for a in range(count - k + 1)]
            worst = self._worst(windows)
            if worst is None:
                break
            rates[k], steps[k] = worst
            whole = [blocks] if k == count else None
            for (table, paces), window in zip(
                ends, (whole or [blocks[: cuts[k]]], whole or [blocks[cuts[count - k] :]]), strict=True
            ):
                found = self._worst(window)
                if found is not None:
                    table[k], paces[k] = min(found[0], rates[k]), found[1]
        first, last = (MachineEnd(tokens_per_s=table, steps=paces) for table, paces in ends)
        return LayerMachine(
            name=self.group.type, type=self.group.type, tokens_per_s=rates, steps=steps, first=first, last=last
        )

    def _worst(self, windows: Sequence[Sequence[DecoderBlock]]) -> tuple[float, LayerSteps] | None:
        """Of the slowest of some intervals the rate and the steps; None where one of them has no room."""
        found: list[tuple[float, LayerSteps]] = []
        for window in windows:
            key = frozenset(Counter(window).items())
            if key not in self.known:
                self.known[key] = self._passed(window)
            one = self.known[key]
            if one is None:
                return None
            found.append(one)
        return min(found, key=lambda pair: pair[0])

    def _passed(self, window: Sequence[DecoderBlock]) -> tuple[float, LayerSteps] | None:
        prompt, output = self.settings.prompt_tokens, self.settings.output_tokens
        assert prompt is not None
        assert output is not None
        prices = self._prices(window)
        block = self.engine.block
        reserved = -(-(prompt + output) // block) * block
        each, room = prices.cache_bytes(0, reserved), prices.cache_budget_bytes[0]
        requests = 0 if room <= 0 else int(min(self.engine.requests, room / each if each else self.engine.requests))
        if requests < 1:
            return None
        context = prompt + (output + 1) // 2
        alone, full = (prices.step_time_s(0, [], [context] * count) for count in (1, requests))
        # A line from a step of one request to a full one.
        more = (full - alone) / (requests - 1) if requests > 1 else 0.0
        first = 0.0
        for before in range(0, prompt, self.engine.step_tokens):
            first += prices.step_time_s(0, [(min(self.engine.step_tokens, prompt - before), before)], [])
        rate = output / (first + (output - 1) * full / requests)
        return rate, LayerSteps(requests=requests, step_s=max(0.0, alone - more), prompt_s=first)

    def _prices(self, window: Sequence[DecoderBlock]) -> StepPrices:
        settings, whole = self.settings, len(window) == len(self.decoder.blocks)
        layout = ServingLayout(
            tensor=len(self.group.devices), weights=settings.weights or "bf16", cache=settings.cache or "bf16"
        )
        part = dataclasses.replace(self.decoder, blocks=tuple(window), tied=self.decoder.tied if whole else 0)
        return price_steps(part, layout, self.group.spec, self.group.fabric, self.engine)


def _no_room(decoder: Decoder, cluster: Cluster, settings: LayerPlacementPricing) -> str:
    """Why no machine holds anything."""
    blocks = decoder.blocks[layers_of(decoder)[0] :][:1]
    group = max(_groups(cluster, settings.tensor or 1), key=lambda one: one.spec.memory_bytes)
    held = _Tables(decoder, group, settings)._prices(blocks).weight_bytes[0]
    return (
        f"no device of cluster {cluster.name} has room for one layer of {decoder.name} ({format_bytes(held)} of "
        f"weights on each of {group.type}) and a request of {settings.prompt_tokens} + {settings.output_tokens} tokens "
        "beside it; take larger devices, shorter requests, or a smaller format (--weights)"
    )
