"""Schedules from decisions: from devices and an order, or from another schedule, moved to the left."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.makespan.arrays import Room
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.problem import MakespanPlan, PlacedOperator, Sent


def list_schedule(
    instance: MakespanInstance, device: Sequence[int], order: Sequence[int], *, insertion: bool = True
) -> MakespanPlan:
    """The schedule of the list scheduler (``partita.engines.kernels.makespan.lists``)."""
    from partita.engines.kernels.makespan.lists import schedule

    room = instance.room()
    devices = np.array(device, dtype=np.int32)
    schedule(instance.arrays, devices, np.array(order, dtype=np.int32), insertion, math.inf, room)
    return from_room(instance, devices.tolist(), room)


def from_room(instance: MakespanInstance, device: Sequence[int], room: Room) -> MakespanPlan:
    """The schedule that a kernel left behind."""
    starts, ends = room.start.tolist(), room.end.tolist()
    flow_times = list(zip(room.flow_start.tolist(), room.flow_end.tolist(), strict=True))
    return _schedule(instance, device, list(zip(starts, ends, strict=True)), flow_times)


def left_shifted(
    instance: MakespanInstance, device: Sequence[int], start: Sequence[float], flow_start: Sequence[float]
) -> MakespanPlan:
    """A schedule in which everything starts as early as the order of the given starts allows: no later than there.

    Starts of flows are not read where nothing is moved.
    """
    a, n = instance.arrays, instance.count
    waits = [len(row) for row in instance.before] + [1] * len(instance.problem.flows)
    rank = {v: place for place, v in enumerate(instance.order)}
    ready: list[tuple[float, float, int, int]] = []

    def push(task: int) -> None:
        if task < n:
            heapq.heappush(ready, (start[task], start[task] + a.time[task, device[task]], rank[task], task))
            return
        u, v, f = instance.edges[task - n]
        length = float(a.cost[f, device[u], device[v]])
        heapq.heappush(ready, (flow_start[f], flow_start[f] + length, rank[u], task))

    times = [(0.0, 0.0)] * n
    flow_times = [(0.0, 0.0)] * len(instance.problem.flows)
    free: dict[tuple[int, int], float] = {}
    arrived = [0.0] * n
    serial = a.serial.tolist()

    def reached(v: int, at: float) -> None:
        arrived[v] = max(arrived[v], at)
        waits[v] -= 1
        if waits[v] == 0:
            push(v)

    for v in range(n):
        if waits[v] == 0:
            push(v)
    while ready:
        *_, task = heapq.heappop(ready)
        if task < n:
            uses = [(0, device[task])] if serial[0] else []
            at, length = arrived[task], float(a.time[task, device[task]])
        else:
            u, v, f = instance.edges[task - n]
            c, d = device[u], device[v]
            uses = [(1, c)] * serial[1] + [(2, d)] * serial[2]
            at, length = times[u][1], float(a.cost[f, c, d])
        at = max([at, *(free.get(use, 0.0) for use in uses)])
        for use in uses:
            free[use] = at + length
        if task >= n:
            flow_times[f] = at, at + length
            reached(v, at + length)
            continue
        times[task] = at, at + length
        for w, f in instance.after[task]:
            if f >= 0 and device[w] != device[task]:
                push(n + f)
            else:
                reached(w, at + length)
    return _schedule(instance, device, times, flow_times)


def _schedule(
    instance: MakespanInstance,
    device: Sequence[int],
    times: Sequence[tuple[float, float]],
    flow_times: Sequence[tuple[float, float]],
) -> MakespanPlan:
    problem = instance.problem
    operators = {
        op.id: PlacedOperator(device=int(device[v]), start=times[v][0], end=times[v][1])
        for v, op in enumerate(problem.operators)
    }
    flows = {}
    for u, v, f in instance.edges:
        if f >= 0 and device[u] != device[v]:
            begun, ended = flow_times[f]
            flows[problem.flows[f].id] = Sent(source=int(device[u]), target=int(device[v]), start=begun, end=ended)
    return MakespanPlan(operators=operators, flows=flows)


def devices_of(instance: MakespanInstance, plan: MakespanPlan) -> list[int]:
    """The device of every operator of a schedule."""
    return [plan.operators[op.id].device for op in instance.problem.operators]


def starts_of(instance: MakespanInstance, plan: MakespanPlan) -> tuple[list[float], list[float]]:
    """The start of every operator, and of every flow (0 where nothing is moved)."""
    problem = instance.problem
    flows = [plan.flows[flow.id].start if flow.id in plan.flows else 0.0 for flow in problem.flows]
    return [plan.operators[op.id].start for op in problem.operators], flows


def order_of(instance: MakespanInstance, plan: MakespanPlan) -> list[int]:
    """Operators by their start, each after what it waits for."""
    start, _ = starts_of(instance, plan)
    rank = {v: place for place, v in enumerate(instance.order)}
    waits = [len(row) for row in instance.before]
    ready = [(start[v], rank[v], v) for v in range(instance.count) if not waits[v]]
    heapq.heapify(ready)
    order = []
    while ready:
        *_, v = heapq.heappop(ready)
        order.append(v)
        for w, _ in instance.after[v]:
            waits[w] -= 1
            if not waits[w]:
                heapq.heappush(ready, (start[w], rank[w], w))
    return order
