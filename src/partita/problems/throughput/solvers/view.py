"""A problem as the contiguous searches see it: items in search direction, pools of alike devices, and the way back.

There are two kinds of views, each for a compiled search of its own: ``PlainView`` for loads that are work and
transfers, ``VariantView`` for all variants. All else about splits, orders, targets and proofs is the same for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, as_arrays
from partita.engines.kernels.throughput.arrays import Arrays, Codes, SliceTable
from partita.ground.rounding import up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.contraction.instance import Instance, operators_at
from partita.problems.throughput.problem import ThroughputProblem


class SplitStage(NamedTuple):
    """A stage of a split: items on so many devices of a pool."""

    pool: int
    replicas: int
    items: Ints


#: Stages in search order.
Split = list[SplitStage]


@dataclass(frozen=True, eq=False)
class ViewedSplit:
    """A split and the view that its numbers are of."""

    view: SearchView
    split: Split

    @cached_property
    def value(self) -> PhaseLoads:
        """What it costs."""
        return self.view.value(self.split)


class PhaseLoads(NamedTuple):
    """A largest load, forward load and backward load: what a split has, what none is below, or what none may exceed.

    Without phases that peak apart (GPipe) a split has all three the same, and the last two bound nothing.
    """

    both: float
    forward: float = np.inf
    backward: float = np.inf


@dataclass(frozen=True)
class Effort:
    """How much a search of this kind of views tries, in nodes per direction."""

    leg: int  #: Of the first leg of a race.
    #: Of the first attempt just under the incumbent, and of the first round after it.
    first: int
    round: int
    #: Most orders that slicing starts with, and pairs (left, right) that it may cost before there are fewer.
    orders: int
    pairs: float
    code: float  #: Pairs that one count code costs.


@dataclass(frozen=True)
class CapacityRule:
    """A sum that what remains must fit into; see ``remaining_capacity``."""

    #: (K, n) and (K, m) weights of items (infinite where one cannot run) and of nets that cross, by pool.
    item: Floats
    net: Floats
    #: Place in ``PhaseLoads`` of what a device of weight 1 takes; None if it takes no more than its bonus.
    limit: int | None
    bonus: Floats  #: (K,) what a device takes beside.
    #: (n,) bytes that every device needs for an item and (K,) what a device has, where bytes may be traded for time;
    #: None where not.
    bytes: Floats | None = None
    memory: Floats | None = None


@dataclass(frozen=True)
class DevicePool:
    """Devices that are alike: a kind of them in the problem, the group they are in, names and names of their kinds."""

    kind: int
    group: int
    devices: list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class SearchView(ABC):
    """A problem ready to be searched."""

    #: What is searched.
    problem: ThroughputProblem
    instance: Instance
    backwards: bool  #: Whether the search runs from the outputs to the inputs.
    first: int = 0  #: The group that the pipeline starts with.

    effort: ClassVar[Effort]
    #: Whether what the problem states beyond work, transfers and limited memory counts.
    variants: ClassVar[bool]

    def turned(self) -> Self:
        """The view of the same problem in the other direction."""
        return replace(self, backwards=not self.backwards)

    @property
    def gpipe(self) -> bool:
        """Whether forward and backward loads have limits of their own."""
        return self.variants and self.problem.gpipe

    @property
    def ordered(self) -> bool:
        """Whether memory depends on the order of operators, so that the items of stages are in one."""
        return self.variants and self.problem.working_memory == "peak"

    @property
    def max_replicas(self) -> int:
        """Most devices of a stage."""
        return self.problem.max_replicas if self.variants else 1

    @property
    def items(self) -> int:
        """Number of items."""
        return self.instance.items

    @property
    def code_count(self) -> int:
        """Number of count codes."""
        return int(self.codes.digits.shape[0])

    @property
    def device_count(self) -> int:
        """Devices that can be used."""
        return sum(self.counts)

    @cached_property
    def original(self) -> Ints:
        """(n,) item of the instance for every item searched."""
        order = np.arange(self.items, dtype=np.int32)
        return order[::-1].copy() if self.backwards else order

    @cached_property
    def pools(self) -> list[DevicePool]:
        """Devices that nothing tells apart; of the group filled first, the most become pool 0, which needs no code."""
        problem, group_of = self.problem, self.problem.group_of() if self.variants else {}
        pools: dict[tuple[int, int], DevicePool] = {}
        for name, kind in problem.device_names():
            group = group_of.get(name, 0)
            pools.setdefault((kind, group), DevicePool(kind, group, [])).devices.append(
                (name, problem.kinds[kind].name)
            )
        merged: list[DevicePool] = []
        for pool in pools.values():
            # Replicas are of one kind, so with them alike kinds stay apart.
            twin = next((other for other in merged if self.max_replicas == 1 and self._alike(pool, other)), None)
            if twin is None:
                merged.append(pool)
            else:
                twin.devices.extend(pool.devices)
        return sorted(merged, key=lambda pool: (pool.group != self.filled, -len(pool.devices)))

    def _alike(self, one: DevicePool, other: DevicePool) -> bool:
        instance, kinds, j, k = self.instance, self.problem.kinds, one.kind, other.kind
        columns = (instance.work, instance.work_backward, instance.net_cost, instance.net_backward)
        return (
            one.group == other.group
            and instance.memory[j] == instance.memory[k]
            and (not self.problem.streaming or kinds[j].reload_time_per_byte == kinds[k].reload_time_per_byte)
            and all(np.array_equal(column[:, j], column[:, k]) for column in columns)
        )

    @property
    def filled(self) -> int:
        """The group that is filled first."""
        return 1 - self.first if self.backwards else self.first

    @cached_property
    def early(self) -> Longs:
        """(K,) 1 for pools of the group that is filled first; for all if there are no others."""
        early = np.array([pool.group == self.filled for pool in self.pools])
        return np.where(early.any(), early, True).astype(np.int64)

    @cached_property
    def counts(self) -> list[int]:
        """How many devices of each pool can be used."""
        return [min(self.items * self.max_replicas, len(pool.devices)) for pool in self.pools]

    @cached_property
    def replicas(self) -> Longs:
        """(K,) most devices of a stage."""
        return np.array([min(self.max_replicas, count) for count in self.counts], dtype=np.int64)

    @cached_property
    def codes(self) -> Codes:
        """Mixed radix code of the counts of the pools from 1 on."""
        sizes = np.array([count + 1 if pool else 1 for pool, count in enumerate(self.counts)], dtype=np.int64)
        stride = np.cumprod(sizes) // sizes
        digits = np.arange(np.prod(sizes))[:, None] // stride % sizes
        stride[:1] = 0
        phases = digits @ (1 - self.early) > 0
        return Codes(stride, digits, digits.sum(axis=1), phases.astype(np.int64))

    @cached_property
    def nets(self) -> Longs:
        """Net of the instance for every net searched."""
        return np.arange(self.instance.nets)

    @cached_property
    def arrays(self) -> Arrays:
        """The kernels' input, items numbered in search order; kinds are pools of devices.

        Memory limits include the evaluator's tolerance where they are never exceeded.
        """
        instance, original, nets, kinds = self.instance, self.original, self.nets, [pool.kind for pool in self.pools]
        graph = instance.graph.turned() if self.backwards else instance.graph
        rank = np.argsort(original).astype(np.int32)
        source, memory = instance.net_source[nets], instance.memory[kinds]
        if not (self.variants and self.problem.streaming):
            memory = up_to(memory)
        own = {
            "graph": graph.numbered(original),
            "net": instance.net.chosen(nets, rank),
            "cover": instance.cover.chosen(np.arange(len(instance.cover_fixed)), rank),
            "work": instance.work[original][:, kinds].T,
            "net_cost": instance.net_cost[nets][:, kinds].T,
            "net_source": np.where(source >= 0, rank[source], -1),
            "net_entering": instance.net_entering[nets],
            "fixed": instance.fixed[original],
            "active": instance.active[original],
            "workspace": instance.workspace[original],
            "memory": memory,
            "devices": np.array(self.counts),
            "limited": np.isfinite(memory).any(),
            "backwards": self.backwards,
        }
        return as_arrays(Arrays, vars(instance) | own)

    @property
    def pairs_of_slicing(self) -> float:
        """Pairs (left, right) that a decision about one order costs: segments as long as a stage, for every code."""
        width = max(1.0, self.items / max(1, self.device_count))
        return self.items * width * (2 + self.effort.code * self.code_count)

    @property
    @abstractmethod
    def most(self) -> float:
        """No objective can exceed this."""

    @abstractmethod
    def value(self, split: Split) -> PhaseLoads:
        """What a split costs."""

    @abstractmethod
    def rules(self) -> list[CapacityRule]:
        """What bounds the work of the devices that remain."""

    @abstractmethod
    def slice(self, order: Ints, limits: PhaseLoads, table: SliceTable, stop: Longs) -> bool:
        """Whether an order can be cut into stages within the limits; the cuts are left in the table."""

    def annealable(self, stages: int) -> bool:
        """Whether splits into so many stages can be annealed."""
        return False

    def label(self, split: Split) -> Ints:
        """(n,) number of the stage, in search order, of every item searched."""
        label = np.empty(self.items, dtype=np.int32)
        for number, placed in enumerate(split):
            label[placed.items] = number
        return label

    def stages_of_items(self, split: Split) -> Ints:
        """(n,) the same of every item of the instance."""
        places = np.empty(self.items, dtype=np.int32)
        places[self.original] = self.label(split)
        return places

    def plan(self, split: Split) -> Plan:
        """The plan of a split, stages first to last in the direction of the data."""
        used = [0] * len(self.pools)
        stages = []
        rows = list(zip(split, self._operators(split), strict=True))
        for placed, operators in reversed(rows) if self.backwards else rows:
            start = used[placed.pool]
            used[placed.pool] += placed.replicas
            names, kinds = zip(*self.pools[placed.pool].devices[start : used[placed.pool]], strict=True)
            stages.append(Stage(kind=kinds[0], devices=names, operators=operators, data_parallel=placed.replicas))
        return Plan(stages=tuple(stages), contiguity="acyclic")

    def _operators(self, split: Split) -> list[tuple[int, ...]]:
        """Ids of the operators of every stage."""
        return operators_at(self.problem, self.instance.group, self.stages_of_items(split), len(split))

    def adopt(self, found: ViewedSplit) -> Split:
        """A split found in another view of the same items, in the numbers and the direction of this one."""
        other = found.view
        if other is self:
            return found.split
        rank = np.argsort(self.original).astype(np.int32)
        pool_of = {pool.devices[0]: number for number, pool in enumerate(self.pools)}
        split = []
        for pool, replicas, items in found.split:
            moved = rank[other.original[items]]
            turned = moved[::-1].copy() if self.backwards != other.backwards else moved
            split.append(
                SplitStage(pool_of[other.pools[pool].devices[0]], replicas, turned if self.ordered else np.sort(moved))
            )
        return split if self.backwards == other.backwards else split[::-1]
