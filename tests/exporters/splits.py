"""Splits to export: of small models, cut as a test says, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from partita import load_model
from partita.conductor.split import make_split
from partita.costs.strategies.layers import assign_layers
from partita.costs.strategies.view import GraphView
from partita.nouns.catalogue.runtimes import find_runtime
from partita.nouns.graph import Graph
from partita.nouns.split import Split, StagePart
from partita.problems.facets.model import ModelParts

MODELS = Path(__file__).with_name("models.py")


@cache
def graph_of(name: str, training: bool = False) -> Graph:
    """One of the models."""
    return load_model(f"{MODELS}:{name}", training=training)


def cut(graph: Graph, place: Sequence[int], **how: Any) -> Split:
    """A split that puts every forward operator where ``place`` says, and backward operators with these."""
    roots = GraphView(graph).roots
    devices = how.pop("devices", {})
    stages = []
    for number in range(max(place) + 1):
        own = tuple(v for v in range(len(graph.operators)) if place[roots[v]] == number)
        details = {"devices": (f"L4:{number}",), "kind": "L4", "rank": number, **devices.get(number, {})}
        stages.append(StagePart(operators=own, **details))
    usual = {"schedule": "1f1b" if graph.training else "forward", "microbatches": 4 if graph.training else 1}
    return make_split(graph, ModelParts(stages, **{**usual, **how}))


def by_layers(name: str, counts: Sequence[int], *, training: bool = False, **how: Any) -> Split:
    """A model whose stages have so many layers, embedding and head counted."""
    graph = graph_of(name, training)
    row, names = assign_layers(GraphView(graph))
    assert sum(counts) == len(names)
    ends = list(accumulate(counts))
    return cut(graph, [sum(layer >= end for end in ends) for layer in row], **how)


def runs(graph: Graph, starts: Sequence[str], **how: Any) -> Split:
    """Stages that begin with the first forward operator of these names, or of modules of these names."""
    stage, found = 0, []
    for op in graph.operators:
        if stage < len(starts) and op.phase == "forward" and starts[stage] in (op.name, op.module):
            stage += 1
        found.append(stage)
    return cut(graph, found, **how)


def unet(*, training: bool = False, **how: Any) -> Split:
    """A U-Net on three stages: a tensor of the first one goes to the last."""
    return runs(graph_of("unet", training), ("c", "cat_1"), **how)


def usual(runtime: str) -> Split:
    """A split that a runtime runs: a decoder on two stages."""
    limits = find_runtime(runtime).limits
    devices = {1: {"devices": ("cpu:0",), "kind": "cpu", "accelerator": False}} if limits.accelerators == 1 else {}
    return by_layers("decoder", (3, 3), training=not limits.inference, devices=devices)


def changed(split: Split, number: int, **changes: Any) -> Split:
    """With one stage changed."""
    stages = list(split.stages)
    stages[number] = msgspec.structs.replace(stages[number], **changes)
    return msgspec.structs.replace(split, stages=tuple(stages))
