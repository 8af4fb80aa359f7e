"""A model's plan as a split: which part of the model runs where, whatever problem the plan was made for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from partita.costs.optimizer import formats_of
from partita.costs.packed import packed_format
from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.documents.tables.modules import part_modules, paths_of
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.split import Part, RuntimeLayer, Send, SharedModule, Split, StagePart, Weight, cards_of
from partita.problems import kind_of
from partita.problems.facets.model import ModelParts, ModelPlan

#: How parts run, as the split says it, too.
_HOW = ("schedule", "microbatches", "chunks", "zero", "zero_shards", "sequential", "sequence_parallel", "overlap")


def split_of(answer: ModelPlan[Any]) -> Split | None:
    """The split of a model's plan; None without a plan, and of plans without stages."""
    model, plan = kind_of(answer.problem).model, answer.result.plan
    assert model is not None
    parts = None if plan is None else model.parts(answer.priced, plan)
    return None if parts is None else make_split(answer.graph, parts, answer.cluster)


def make_split(graph: Graph, parts: ModelParts, cluster: Cluster | None = None) -> Split:
    """The split of a graph whose stages have these parts; stages without operators are left out."""
    held = [part for part in parts.stages if len(part.operators)]
    view = GraphView(graph)
    stage_of = _stage_of(view, held)
    operators: list[list[int]] = [[] for _ in held]
    for v, number in stage_of.items():
        operators[number].append(v)
    counted = _counted(view)
    modules = part_modules(((stage_of[v], graph.operators[v].module) for v in counted), len(held))
    ranks = {rank: place for place, rank in enumerate(sorted({part.rank for part in held}))}
    samples, sequence = _batch(graph)
    sizes: dict[str, int] = {}
    for parameter in graph.parameters:
        if not parameter.buffer:
            sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.bytes
    return Split(
        model=graph.name,
        source=graph.source,
        training=graph.training,
        stages=tuple(
            msgspec.structs.replace(
                part,
                rank=ranks[part.rank],
                operators=tuple(sorted(own)),
                modules=whole.complete,
                places=part.places if cluster is not None else (),
            )
            for part, own, whole in zip(held, operators, modules, strict=True)
        ),
        layers=_layers(view, stage_of, counted, parts.recompute),
        sends=_sends(view, stage_of, constants=False),
        constants=_sends(view, stage_of, constants=True),
        weights=tuple(
            Weight(
                name=parameter.name,
                aliases=parameter.aliases,
                stages=tuple(sorted({stage_of[v] for v in parameter.users})),
                buffer=parameter.buffer,
                trained=parameter.trainable and not parameter.buffer,
            )
            for parameter in graph.parameters
        ),
        shared=_shared(view, stage_of, counted),
        **{name: getattr(parts, name) for name in _HOW},
        samples=samples,
        sequence=sequence,
        dtype=max(sizes, key=lambda name: (sizes[name], name), default=""),
        packed=packed_format(graph),
        optimizer=parts.optimizer if graph.training else None,
        formats=formats_of(graph, parts.optimizer, parts.optimizer_dtype, parts.master_weights, parts.gradient_dtype)
        if graph.training
        else None,
        cards=() if cluster is None else cards_of(cluster),
    )


def _batch(graph: Graph) -> tuple[int, int]:
    """Samples of a microbatch, and tokens of each: what was asked for, or what the first input says; 0 if unknown."""
    asked = {} if graph.source is None else graph.source.settings
    shape, dtype = next(((t.shape, t.dtype) for t in graph.tensors if t.producer is None and t.shape), ((), ""))
    tokens = shape[1] if len(shape) == 2 and dtype.startswith("int") else 0
    return asked.get("batch_size") or (shape[0] if shape else 0), asked.get("sequence_length") or tokens


def _stage_of(view: GraphView, held: Sequence[StagePart]) -> dict[int, int]:
    """The stage of every operator; one that the plan does not place is where its input is, or else its first reader."""
    found = {v: number for number, part in enumerate(held) for v in part.operators}
    missing = [v for v in range(len(view.graph.operators)) if v not in found]
    for v in missing:
        makers = (view.maker(place) for place in view.inputs[v])
        near = next((found[u] for u in makers if u in found), None)
        if near is not None:
            found[v] = near
    for v in reversed(missing):
        if v not in found:
            readers = (u for place in view.outputs[v] for u in view.graph.tensors[place].consumers)
            found[v] = next((found[u] for u in readers if u in found), 0)
    return found


def _counted(view: GraphView) -> list[int]:
    """The forward operators that say where a module runs.

    What is free and what makes constants may stand anywhere; they count in modules that have nothing else.
    """
    operators = view.graph.operators
    heavy = {v for v in view.forward if view.state[v] and not operators[v].free}
    known = {path for v in heavy for path in ("", *paths_of(operators[v].module))}
    return [v for v in view.forward if v in heavy or operators[v].module not in known]


def _layers(
    view: GraphView, stage_of: dict[int, int], counted: Sequence[int], recompute: Mapping[int, str]
) -> tuple[RuntimeLayer, ...]:
    place, names = assign_layers(view)
    ways: list[set[str]] = [set() for _ in names]
    for v, way in recompute.items():
        ways[place[v]].add(way)
    stages: list[set[int]] = [set() for _ in names]
    for v in counted:
        stages[place[v]].add(stage_of[v])
    for v in view.forward:
        # A layer of constants alone is where these are.
        if not stages[place[v]]:
            stages[place[v]].add(stage_of[v])
    worked = [v for v in counted if view.state[v]]
    modules = part_modules(((place[v], view.graph.operators[v].module) for v in worked), len(names))

    def part(number: int) -> Part:
        ends: dict[str, Part] = {"input": "input", "output": "output"}
        outer = number in (0, len(names) - 1) and len(names) > 1
        return ends.get(names[number], "block") if outer else "block"

    return tuple(
        RuntimeLayer(
            name=name,
            part=part(number),
            modules=modules[number].complete,
            stages=tuple(sorted(stages[number])),
            recompute="+".join(sorted(ways[number])) or "none",
        )
        for number, name in enumerate(names)
    )


def _sends(view: GraphView, stage_of: dict[int, int], *, constants: bool) -> tuple[Send, ...]:
    """What forward operators read from other stages."""
    moved: dict[tuple[int, int], list[int]] = {}
    for place, tensor in enumerate(view.graph.tensors):
        maker = tensor.producer
        if maker is None or view.backward[maker] or view.state[maker] == constants:
            continue
        source = stage_of[maker]
        for target in sorted({stage_of[v] for v in view.readers(place)} - {source}):
            moved.setdefault((source, target), []).append(place)
    return tuple(
        Send(
            source=source,
            target=target,
            bytes=sum(view.graph.tensors[place].bytes for place in places),
            tensors=tuple(view.graph.tensors[place].name for place in places),
        )
        for (source, target), places in sorted(moved.items())
    )


def _shared(view: GraphView, stage_of: dict[int, int], counted: Collection[int]) -> tuple[SharedModule, ...]:
    """Modules on several stages that call operators of their own."""
    operators = view.graph.operators
    holders: dict[str, set[int]] = {}
    for v in counted:
        for path in ("", *paths_of(operators[v].module)):
            holders.setdefault(path, set()).add(stage_of[v])
    own: dict[str, list[int]] = {}
    for v in counted:
        if len(holders[operators[v].module]) > 1:
            own.setdefault(operators[v].module, []).append(v)

    def joins(v: int) -> bool:
        makers = (view.maker(place) for place in view.inputs[v])
        return len({stage_of[maker] for maker in makers if maker is not None}) > 1

    return tuple(
        SharedModule(
            name=name,
            operators=tuple((operators[v].target, stage_of[v]) for v in calls),
            joins=sum(map(joins, calls)),
        )
        for name, calls in own.items()
    )
