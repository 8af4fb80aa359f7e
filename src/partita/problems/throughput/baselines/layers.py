"""What people call layers: the units that hand-made splits are made of, and how to turn them into a plan.

A layer is the outermost numbered child on the module path (``model.layers.3``, ``encoder.block.0``). Operators outside
any layer belong to the layer before them, in execution order, or to the first one, unless blocks are asked for.
Problems without module names have one layer per operator class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.graph_arrays import lists
from partita.ground.dags import row_of_blocks
from partita.ground.rounding import SUMMED, raised
from partita.nouns.pipeline import Contiguity, Plan, Stage
from partita.problems.throughput.contraction.instance import Instance, build_instance, operators_at, pooled
from partita.problems.throughput.problem import ThroughputProblem

_NUMBERED = re.compile(r"(?:^|\.)\d+(?=\.|$)")


@dataclass(frozen=True)
class Layers:
    """Layers of the items of a contracted problem, in execution order: ``layer_of`` (items,) rises along its edges.

    ``before`` and ``after`` are 1 if the first layer is an input part, or the last an output part: neither of them is a
    repeated block.
    """

    instance: Instance
    layer_of: Longs
    count: int
    before: int = 0
    after: int = 0

    @property
    def blocks(self) -> int:
        """Number of repeated blocks."""
        return self.count - self.before - self.after

    def total(self, values: Floats) -> Floats:
        """Sum of an item property over each layer."""
        return pooled(values, self.layer_of, self.count)

    def stored(self, problem: ThroughputProblem, *, copies: bool) -> Floats:
        """Bytes of parameters, and the operators' own, in each layer.

        A shared parameter counts in every layer that reads it with ``copies``, otherwise where its first item is.
        """
        group = self.instance.group
        place_of = {op.id: place for place, op in enumerate(problem.operators)}
        result = pooled(np.array([op.memory_bytes for op in problem.operators]), self.layer_of[group], self.count)
        for parameter in problem.parameters:
            items = sorted({int(group[place_of[user]]) for user in parameter.users})
            for layer in set(self.layer_of[items if copies else items[:1]].tolist()):
                result[layer] += parameter.weight_bytes
        return result


def item_layers(problem: ThroughputProblem, instance: Instance) -> list[str]:
    """Name of the layer that each item is in, empty outside the layers; where there are no names, each item is a layer.

    Where the outermost numbered children are fewer than the accelerators (Swin has four numbered groups of numbered
    blocks), the next numbered level is used.
    """
    devices = len(accelerator_devices(problem))
    # Behind every number of an operator's path, the name of the layer that is numbered so.
    levels = [[op.module[: match.end()] for match in _NUMBERED.finditer(op.module)] for op in problem.operators]
    names: list[str] = []
    for depth in (1, 2, 3):
        names = [row[min(depth, len(row)) - 1] if row else "" for row in levels]
        if len({name for name in names if name}) >= devices:
            break
    # An item is where its first forward operator is.
    found: dict[int, str] = {}
    for op, item, name in zip(problem.operators, instance.group.tolist(), names, strict=True):
        if not op.backward:
            found.setdefault(item, name)
    unnamed = not any(found.values())
    return [str(item) if unnamed else found.get(item, "") for item in range(instance.items)]


def find_items(problem: ThroughputProblem) -> Layers:
    """Every item of the contracted problem as a layer of its own."""
    instance = build_instance(problem)
    return Layers(instance, np.arange(instance.items), instance.items)


def find_blocks(problem: ThroughputProblem) -> Layers:
    """The layers as runtimes see them: operators before the first one and behind the last are parts of their own.

    Problems without module names have one block per operator class, and no such parts.
    """
    instance = build_instance(problem)
    preds = lists(instance.graph.pred_ptr, instance.graph.pred)
    places, blocks = row_of_blocks(item_layers(problem, instance), preds)
    place, last = np.array(places, dtype=np.int64), len(blocks)
    before, after = int((place == 0).any()), int((place > last).any())
    return Layers(instance, place - (1 - before), last + before + after, before, after)


def find_layers(problem: ThroughputProblem) -> Layers:
    """The layers of a problem; operators outside the layers follow the layer before them."""
    instance = build_instance(problem)
    names = item_layers(problem, instance)
    number: dict[str, int] = {}
    layer_of = np.zeros(instance.items, dtype=np.int64)
    for item, name in enumerate(names):
        if name:
            number.setdefault(name, len(number))
        before = instance.graph.before(item)
        layer_of[item] = layer_of[before].max(initial=number.get(name, 0))
    return Layers(instance, layer_of, max(1, len(number)))


def accelerator_devices(problem: ThroughputProblem) -> list[tuple[str, int]]:
    """Name and kind index of the accelerators, or of all devices where there is none."""
    devices = problem.device_names()
    chosen = [(name, kind) for name, kind in devices if problem.kinds[kind].accelerator]
    return chosen or devices


def first_kind_work(problem: ThroughputProblem, instance: Instance) -> Floats:
    """Work of every item on the first accelerator kind; 0 where it cannot run."""
    work = instance.work[:, accelerator_devices(problem)[0][1]]
    return np.where(np.isfinite(work), work, 0.0)


def balanced_boundaries(values: Floats, parts: int) -> list[int]:
    """First index of every run after the first, for at most ``parts`` runs with the smallest largest sum of values."""
    low, high = float(values.max(initial=0.0)), float(values.sum())

    def cuts(limit: float) -> list[int]:
        found: list[int] = []
        load = 0.0
        for place, weight in enumerate(values):
            if load + weight > limit and place > 0:
                found.append(place)
                load = 0.0
            load += float(weight)
        return found

    for _ in range(100):
        middle = (low + high) / 2
        if len(cuts(middle)) < parts:
            high = middle
        else:
            low = middle
        if high - low <= SUMMED * high:
            break
    return cuts(raised(high))


def plan_from_labels(
    problem: ThroughputProblem, instance: Instance, label: npt.ArrayLike, contiguity: Contiguity = "acyclic"
) -> Plan:
    """Put every item on the accelerator whose place ``label`` gives; accelerators left empty are not listed."""
    devices = accelerator_devices(problem)
    rows = operators_at(problem, instance.group, np.asarray(label), len(devices))
    return Plan(
        stages=tuple(
            Stage(kind=problem.kinds[kind].name, devices=(name,), operators=ids)
            for (name, kind), ids in zip(devices, rows, strict=True)
            if ids
        ),
        contiguity=contiguity,
    )
