"""A makespan problem as searches see it: arrays, an order, and what must pass before and after every operator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.graph_arrays import graph_of, partition_of, rows_of
from partita.engines.kernels.makespan.arrays import MakespanArrays, Room, new_room
from partita.ground.rounding import clearly_below, rounded_up, up_to
from partita.problems.makespan.problem import MakespanProblem


@dataclass(frozen=True)
class MakespanInstance:
    """Operators are numbered as in the problem."""

    #: What it is, and as arrays; their limits are what searches may fill, ``most_held`` what claims must allow for.
    problem: MakespanProblem
    arrays: MakespanArrays
    order: list[int]  #: Operators in topological order.
    edges: list[tuple[int, int, int]]  #: Source, target and flow (−1 for none) of every edge, flows first.
    #: For every operator those it waits for, and those that wait for it, each with the flow.
    before: list[list[tuple[int, int]]]
    after: list[list[tuple[int, int]]]
    head: Floats  #: (n, D) Lower bound on the end of every operator, if it runs on a device; infinite where it cannot.

    @property
    def count(self) -> int:
        """Operators."""
        return len(self.problem.operators)

    @property
    def devices(self) -> int:
        """Devices."""
        return len(self.problem.devices)

    @cached_property
    def most_held(self) -> Floats:
        """(D,) The most that a device holds in any schedule that the evaluator takes, infinite without a limit.

        Searches fill no more than ``arrays.limit``, which is less; whoever claims that something fits nowhere must ask
        here, whatever the order in which the evaluator adds up.
        """
        return rounded_up(self.arrays.limit, self.arrays.limit, self.count)

    @cached_property
    def choices(self) -> list[list[int]]:
        """For every class of operators that run together the devices on which all of them can and may fit."""
        a = self.arrays
        able = self.by_class(np.isfinite(a.time))
        sizes = [a.memory[members].sum() for members in self.problem.classes()]
        return [np.flatnonzero(row & (held <= self.most_held)).tolist() for row, held in zip(able, sizes, strict=True)]

    def by_class(self, able: Bools) -> Bools:
        """(classes, D) Devices that all of a class have, of those (n, D) that operators have."""
        group = self.arrays.group
        found = np.ones((len(group.ptr) - 1, self.devices), dtype=np.bool_)
        np.logical_and.at(found, group.of, able)
        return found

    @cached_property
    def sizes(self) -> Floats:
        """(classes,) What a class holds."""
        a = self.arrays
        return np.bincount(a.group.of, weights=a.memory, minlength=len(a.group.ptr) - 1).astype(np.float64)

    @cached_property
    def ordered(self) -> Longs:
        """``order`` for kernels."""
        return np.array(self.order, dtype=np.int64)

    @cached_property
    def able(self) -> Bools:
        """(n, D) Whether an operator can be on a device, with all of its class."""
        found = np.zeros((len(self.choices), self.devices), dtype=np.bool_)
        for row, choices in zip(found, self.choices, strict=True):
            row[choices] = True
        able: Bools = found[self.arrays.group.of]
        return able

    @property
    def critical(self) -> float:
        """The longest chain of operators and transfers, each operator on the device that is best for the chain.

        In any schedule an operator v on device d ends no earlier than ``head[v, d]``: by induction along the order,
        since for every edge u → v its producer is on some device c, ends no earlier than head[u, c], and the flow takes
        its time from c to d after that; the least over c is below. The same holds backwards for ``tail``. Both are of
        one device of v, so that the makespan is at least min over d of head + tail, for every v. Producers and readers
        that must queue raise both (``partita.engines.kernels.makespan.relaxations``).
        """
        return critical_of(self.head, self.arrays.tail)

    @cached_property
    def mean_times(self) -> Floats:
        """The mean time of every operator over the devices on which it can run."""
        time = self.arrays.time
        able = np.isfinite(time)
        found: Floats = np.where(able, time, 0.0).sum(axis=1) / able.sum(axis=1)
        return found

    @cached_property
    def mean_transfers(self) -> list[float]:
        """The mean time of every flow over pairs of different devices."""
        pairs, cost = self.devices * (self.devices - 1), self.arrays.cost
        return (cost.sum(axis=(1, 2)) / pairs).tolist() if pairs else [0.0] * len(cost)

    @cached_property
    def costliest(self) -> list[tuple[int, int]]:
        """The ends of all flows, by falling mean transfer time."""
        moved = self.mean_transfers
        return [(u, v) for u, v, _ in sorted((e for e in self.edges if e[2] >= 0), key=lambda e: -moved[e[2]])]

    @cached_property
    def upward_ranks(self) -> list[float]:
        """HEFT's priority: mean time of an operator and the longest chain after it, transfers by their mean.

        Source: Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
        computing" (2002), §4.1; the mean of a transfer is over pairs of different devices.
        """
        means, moved = self.mean_times.tolist(), self.mean_transfers
        rank = [0.0] * self.count
        for v in reversed(self.order):
            after = (rank[w] + (moved[f] if f >= 0 else 0.0) for w, f in self.after[v])
            rank[v] = means[v] + max(after, default=0.0)
        return rank

    @cached_property
    def by_rank(self) -> Ints:
        """(n,) Operators by falling upward rank, each after what it waits for."""
        return np.array(sorted(self.order, key=lambda v: -self.upward_ranks[v]), dtype=np.int32)

    def room(self) -> Room:
        """Scratch for one thread."""
        return new_room(self.arrays)


def build_instance(problem: MakespanProblem) -> MakespanInstance:
    """The arrays of a problem."""
    n, devices = len(problem.operators), len(problem.devices)
    order = problem.order()
    time = np.array([[math.inf if t is None else t for t in op.times] for op in problem.operators], dtype=np.float64)
    cost = np.array([flow.times for flow in problem.flows], dtype=np.float64).reshape(-1, devices, devices)
    links = problem.links()
    edges = [(u, v, e if e < len(problem.flows) else -1) for e, (u, v) in enumerate(links)]
    before: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    after: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for u, v, f in edges:
        before[v].append((u, f))
        after[u].append((v, f))
    source, target, flow = np.array(edges, dtype=np.int64).reshape(-1, 3).T
    classes = problem.classes()
    group = np.zeros(n, dtype=np.int32)
    for number, members in enumerate(classes):
        group[members] = number
    limit = np.array([math.inf if d.memory is None else d.memory for d in problem.devices], dtype=np.float64)
    arrays = MakespanArrays(
        time=time,
        memory=np.array([op.memory for op in problem.operators], dtype=np.float64),
        limit=up_to(limit),
        cost=cost,
        graph=graph_of(links, n),
        in_flow=rows_of(target, flow, n)[1],
        out_flow=rows_of(source, flow, n)[1],
        group=partition_of(group, len(classes)),
        tail=np.zeros((n, devices)),
        serial=np.array([problem.serial_operators, problem.sender_congestion, problem.receiver_congestion]),
    )
    head, tail = labels(arrays, np.array(order, dtype=np.int64), time)
    # A little less, so that rounding never hides a schedule.
    return MakespanInstance(problem, arrays._replace(tail=clearly_below(tail)), order, edges, before, after, head)


def labels(arrays: MakespanArrays, order: Longs, time: Floats) -> tuple[Floats, Floats]:
    """Heads and tails with other times than the problem's; see ``MakespanInstance``."""
    from partita.engines.kernels.makespan.relaxations import find_labels

    head, tail = np.zeros(time.shape), np.zeros(time.shape)
    find_labels(arrays, order, time, head, tail)
    return head, tail


def critical_of(head: Floats, tail: Floats) -> float:
    """What the longest chain takes, by heads and tails."""
    return clearly_below(float(np.min(head + tail, axis=1).max()))
