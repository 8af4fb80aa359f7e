"""Random plans of small traced models, as splits: most of what a runtime runs, some that it does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from exporters.splits import graph_of
from partita.conductor.split import make_split
from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.nouns.catalogue.runtimes import find_runtime
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.split import Split, StagePart
from partita.problems.facets.model import ModelParts

#: Models by what is special about them: nothing, tied ends, a mask that all blocks read, skips.
MODELS = ("decoder", "decoder", "tied", "masked", "unet")
#: Hosts whose cards differ, or do not.
HOSTS = (
    "4xL4", "8xL4", "1xA100-40GB+2xL4", "1x(2xL4+1xA100-40GB)", "1x(1xT4+2xL4+1xT4)", "2xA100-80GB+4xT4", "2x(4xL4)",
    "1x(1xL4+1xCPU)", "1x(2xL4+1xCPU)",
)  # fmt: skip
#: For meshes; the last one is large enough for all.
MESHES = ("8xL4", "1x(8xL4+8xT4)", "2x(8xH100-80GB)", "8x(8xA100-80GB)")


@cache
def cluster_of(text: str) -> Cluster:
    return Cluster.from_spec(text)


@cache
def layers_of(graph: str, training: bool) -> tuple[tuple[int, ...], tuple[str, ...]]:
    row, names = assign_layers(GraphView(graph_of(graph, training)))
    return tuple(row), tuple(names)


@cache
def forward_of(graph: str, training: bool) -> tuple[int, ...]:
    return tuple(GraphView(graph_of(graph, training)).roots)


def random_split(runtime: str, seed: int) -> Split:
    """A plan: for a runtime of training of a mesh, for others of any cards."""
    draw = random.Random(f"{runtime} {seed}")
    limits = find_runtime(runtime).limits
    training = limits.training if limits.training != limits.inference else draw.random() < 0.7
    name = draw.choice(MODELS if draw.random() < 0.5 else MODELS[:2])
    graph = graph_of(name, training)
    stages = draw.choice((1, 2, 2, 3, 4))
    chunks = draw.choice((1, 1, 2)) if training and stages > 1 else 1
    place = _cut(draw, name, training, stages * chunks, layers=limits.cuts == "layer" or draw.random() < 0.5)
    count = max(place) + 1
    if count % chunks:
        chunks = 1
    split = (_mesh if training else _row)(draw, runtime, graph, place, count, chunks)
    if training and draw.random() < 0.1:
        # Some weights stay as they are.
        weights = tuple(msgspec.structs.replace(weight, trained=False) for weight in split.weights[:1])
        split = msgspec.structs.replace(split, weights=(*weights, *split.weights[1:]))
    return split


def _cut(draw: random.Random, name: str, training: bool, parts: int, *, layers: bool) -> list[int]:
    """The stage of every operator: runs of layers, or of operators; none is empty."""
    roots = forward_of(name, training)
    if layers:
        row, names = layers_of(name, training)
        sizes = len(names)
        starts = sorted(draw.sample(range(1, sizes), min(parts, sizes) - 1))
        return _dense([sum(row[root] >= start for start in starts) for root in roots])
    heads = sorted(set(roots))
    starts = sorted(draw.sample(heads[1:], parts - 1))
    return _dense([sum(root >= start for start in starts) for root in roots])


def _dense(place: Sequence[int]) -> list[int]:
    names = {stage: number for number, stage in enumerate(sorted(set(place)))}
    return [names[stage] for stage in place]


def _mesh(draw: random.Random, runtime: str, graph: Graph, place: Sequence[int], count: int, chunks: int) -> Split:
    """Degrees of a uniform mesh; cards of one kind, in order or not."""
    limits = find_runtime(runtime).limits
    # Mostly what the runtime has, so that other things are looked at than the first that it lacks.
    likely = draw.random() < 0.8
    data, tensor = draw.choice((1, 2, 4)), draw.choice((1, 1, 2)) if limits.tensor or not likely else 1
    context = draw.choice((1, 1, 2)) if limits.context or not likely else 1
    expert = draw.choice((1, 1, 2)) if limits.expert or not likely else 1
    ranks = count // chunks
    share = data * tensor * context
    cluster = cluster_of(draw.choice(MESHES))
    while share * ranks > cluster.device_count:
        cluster = cluster_of(MESHES[-1])
        data, tensor, context = (1, 1, 1) if share * ranks > cluster.device_count else (data, tensor, context)
        share = data * tensor * context
    own = random.Random(f"{data} {tensor} {context} {expert} {place}")
    wide = own.choice((0, 0, 1)) if (limits.expert and not limits.meshes.experts_apart) or not likely else 0
    if wide and tensor > 1 and share % 4 == 0:
        # More groups than hold the same weights.
        expert = own.choice((expert, 4))
    if share % (expert * (wide or tensor)):
        expert = 1
    numbers = list(range(cluster.device_count))
    if draw.random() < 0.3:
        draw.shuffle(numbers)
    ways = ("none", "full", "attention", "operators")
    way = draw.choice(limits.recompute if likely and limits.recompute else ways)
    row, names = layers_of(graph.name, True)
    again = [way if 0 < number < len(names) - 1 else "none" for number in range(len(names))]
    if draw.random() < (0.03 if likely else 0.3):
        again[draw.randrange(len(names))] = draw.choice(ways)
    kinds = cluster.device_names()
    parts, host = [], "optimizer states" if draw.random() < 0.1 else ""
    for stage in range(count):
        held = [v for v, where in enumerate(place) if where == stage]
        rank = stage % ranks
        places = numbers[rank * share : (rank + 1) * share]
        parts.append(
            StagePart(
                operators=tuple(held),
                devices=tuple(f"{kinds[number]}:{number}" for number in places),
                kind=kinds[places[0]],
                replicas=data,
                tensor=tensor,
                rank=rank,
                context=context,
                expert=expert,
                expert_tensor=wide,
                places=tuple(places),
                offload=host if host or draw.random() > 0.02 else "activations",
            )
        )
    microbatches = data * draw.choice((ranks, 2 * ranks, 4 * ranks, *(() if likely else (1, 1))))
    schedule = "interleaved" if chunks > 1 else draw.choice(("1f1b",) if likely else ("1f1b", "gpipe", "zero-bubble"))
    zero = limits.meshes.zero if ranks > 1 else limits.meshes.zero_alone
    how: dict[str, Any] = {
        "recompute": {v: again[row[v]] for v in range(len(place))},
        "zero": draw.choice(zero if likely else (0, 1, 2, 3)),
        "sequence_parallel": {"always": True, "never": False, "any": draw.random() < 0.7}[limits.tokens]
        if likely
        else draw.random() < 0.5,
        "overlap": draw.random() < 0.7,
        "optimizer": draw.choice(
            limits.optimizers if likely and limits.optimizers else ("adam", "adamw", "sgd", "sgd-momentum")
        ),
        "gradient_dtype": draw.choice(("float32", "float32", "parameter")),
    }
    how["zero_shards"] = _shards(own, data * context, expert * wide or (expert > 1) * tensor * expert, share)
    if how["zero"] == 0 or (likely and limits.meshes.shared_by_all):
        how["zero_shards"] = 0
    dtype = draw.choice(("float32", "float32", "bfloat16", *(() if likely else ("float16",))))
    narrow = _with_dtype(graph, dtype)
    return make_split(
        narrow, ModelParts(parts, schedule=schedule, microbatches=microbatches, chunks=chunks, **how), cluster
    )


def _shards(draw: random.Random, groups: int, experts: int, devices: int) -> int:
    """Of groups of the same weights those that share out state, given devices that hold all experts, 0 for none."""
    held = devices // experts if experts else 0
    some = [shards for shards in range(2, groups) if groups % shards == 0 and held % (groups // shards) == 0]
    return draw.choice((0, *some))


def _with_dtype(graph: Graph, dtype: str) -> Graph:
    """The graph whose weights are in another format."""
    width = {"float32": 4, "bfloat16": 2, "float16": 2}[dtype]
    parameters = tuple(
        parameter
        if parameter.buffer
        else msgspec.structs.replace(parameter, dtype=dtype, bytes=parameter.bytes // 4 * width)
        for parameter in graph.parameters
    )
    return graph if dtype == "float32" else graph.replace(parameters=parameters)


def _row(draw: random.Random, runtime: str, graph: Graph, place: Sequence[int], count: int, chunks: int) -> Split:
    """Cards of a host in any order, some of them not used."""
    fits = [text for text in HOSTS if cluster_of(text).device_count >= count]
    cluster = cluster_of(draw.choice(fits))
    kinds = cluster.device_names()
    numbers = draw.sample(range(cluster.device_count), count)
    if draw.random() < 0.4:
        numbers.sort()
    hosts = [number for number in numbers if kinds[number] == "CPU"]
    if hosts and draw.random() < 0.7:
        # Where most runtimes have a CPU, if they have one.
        numbers.sort(key=lambda number: kinds[number] != "CPU")
    replicas = 1
    if draw.random() < 0.2 and 2 * count <= cluster.device_count and not hosts:
        replicas = 2
        numbers += [n for n, kind in enumerate(kinds) if n not in numbers and kind != "CPU"][:count]
        replicas = len(numbers) // count
        del numbers[count * replicas :]
    parts = []
    for stage in range(count):
        places = numbers[stage * replicas : (stage + 1) * replicas]
        kind = kinds[places[0]]
        parts.append(
            StagePart(
                operators=tuple(v for v, where in enumerate(place) if where == stage),
                devices=tuple(f"{kinds[number]}:{number}" for number in places),
                kind=kind,
                accelerator=kind != "CPU",
                replicas=replicas,
                rank=stage,
                places=tuple(places),
            )
        )
    return make_split(graph, ModelParts(parts, microbatches=draw.choice((1, 4))), cluster)
