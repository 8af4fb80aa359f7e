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
class AlikeDevices:
    """Devices that are alike: a kind of them in the problem, the group they are in, names and names of their kinds."""

    kind: int
    group: int
    devices: list[tuple[str, str]]


@dataclass(eq=False)
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

    def __post_init__(self) -> None:
        problem, instance = self.problem, self.instance
        self.items = instance.items
        #: Whether forward and backward loads have limits of their own.
        self.gpipe = self.variants and problem.gpipe
        #: Whether memory depends on the order of operators, so that the items of stages are in one.
        self.ordered = self.variants and problem.working_memory == "peak"
        #: Most devices of a stage.
        self.max_replicas = problem.max_replicas if self.variants else 1
        #: Lines with limits of their own that a load has.
        self.line_count = 1
        #: The group that is filled first.
        self.filled = 1 - self.first if self.backwards else self.first
        order = np.arange(self.items, dtype=np.int32)
        #: (n,) item of the instance for every item searched, and the other way round.
        self.original = order[::-1].copy() if self.backwards else order

    def turned(self) -> Self:
        """The view of the same problem in the other direction."""
        return replace(self, backwards=not self.backwards)

    @cached_property
    def pools(self) -> list[AlikeDevices]:
        """Devices that nothing tells apart; of the group filled first, the most become pool 0, which needs no code."""
        problem, instance = self.problem, self.instance
        group_of = problem.group_of() if self.variants else {}
        columns = (instance.work, instance.work_backward, instance.net_cost, instance.net_backward)
        # Replicas are of one kind, so with them alike kinds stay apart.
        alike: list[object] = list(range(len(problem.kinds)))
        for k, kind in enumerate(problem.kinds if self.max_replicas == 1 else ()):
            reload = kind.reload_time_per_byte if problem.streaming else 0.0
            alike[k] = float(instance.memory[k]), reload, *((column[:, k] + 0.0).tobytes() for column in columns)
        pools: dict[object, AlikeDevices] = {}
        for name, k in problem.device_names():
            group = group_of.get(name, 0)
            pool = pools.setdefault((alike[k], group), AlikeDevices(k, group, []))
            pool.devices.append((name, problem.kinds[k].name))
        return sorted(pools.values(), key=lambda pool: (pool.group != self.filled, -len(pool.devices)))

    @cached_property
    def early(self) -> Longs:
        """(K,) 1 for pools of the group that is filled first; for all if there are no others."""
        early = np.array([pool.group == self.filled for pool in self.pools])
        return np.where(early.any(), early, True).astype(np.int64)

    @cached_property
    def counts(self) -> list[int]:
        """How many devices of each pool can be used."""
        return [min(self.items * self.max_replicas, len(pool.devices)) for pool in self.pools]

    @property
    def replicas(self) -> Longs:
        """(K,) most devices of a stage."""
        return np.minimum(self.max_replicas, np.array(self.counts, dtype=np.int64))

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
        source, memory = instance.net_source[nets], instance.memory[kinds]
        if not (self.variants and self.problem.streaming):
            memory = up_to(memory)
        own = {
            "graph": graph.numbered(original),
            "net": instance.net.chosen(nets, original),
            "cover": instance.cover.chosen(np.arange(len(instance.cover_fixed)), original),
            "work": instance.work[original][:, kinds].T,
            "net_cost": instance.net_cost[nets][:, kinds].T,
            "net_source": np.where(source >= 0, original[source], -1),
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
        return operators_at(self.problem, self.instance.group, self.label(split)[self.original], len(split))

    def adopt(self, found: ViewedSplit) -> Split:
        """A split found in another view of the same items, in the numbers and the direction of this one."""
        other = found.view
        if other is self:
            return found.split
        pool_of = {pool.devices[0]: number for number, pool in enumerate(self.pools)}
        step = 1 if self.backwards == other.backwards else -1
        split = []
        for pool, replicas, items in found.split[::step]:
            moved = self.original[other.original[items]][::step]
            items = moved.copy() if self.ordered else np.sort(moved)
            split.append(SplitStage(pool_of[other.pools[pool].devices[0]], replicas, items))
        return split
