"""A makespan problem as plain arrays, and the room that its list scheduler works in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.kernels.graph_arrays import Graph, Partition


class MakespanArrays(NamedTuple):
    """Operators 0, …, n − 1, devices 0, …, D − 1, flows 0, …, F − 1.

    Attributes
    ----------
    time
        (n, D) Time of every operator on every device; infinite where it cannot run.
    memory, limit
        (n,) What each operator holds; (D,) what each device has, infinite without a limit.
    cost
        (F, D, D) Time of every flow from the first device to the second; 0 on the diagonal.
    graph
        What waits for what.
    in_flow, out_flow
        (e,) The flow of every entry of ``graph.pred`` and of ``graph.succ``; −1 for none.
    group
        Operators that stay together.
    tail
        (n, D) A lower bound on what follows the end of an operator that ran on a device.
    serial
        (3,) Whether operators on one device, flows that leave one, and flows that enter one exclude each other.
    """

    time: Floats
    memory: Floats
    limit: Floats
    cost: Floats
    graph: Graph
    in_flow: Ints
    out_flow: Ints
    group: Partition
    tail: Floats
    serial: Bools


class Room(NamedTuple):
    """Scratch of one thread, and the times of the schedule that was made last.

    Attributes
    ----------
    start, end
        (n,) Of operators.
    flow_start, flow_end
        (F,) Of flows; what does not cross devices starts and ends with its producer.
    busy_start, busy_end, busy
        (3·D, k) Ascending spans in which each device works, sends, receives, and (3·D,) how many there are.
    slots
        (n + 1,) For sorting.
    base_start, base_end, base
        Like ``busy_start``, …: spans that are there before a part of the order is scheduled; none at first.
    lag, row_lag
        (n, D), (3·D,) What is to follow the end of an operator on a device, and the last span of a row; 0 at first.
    """

    start: Floats
    end: Floats
    flow_start: Floats
    flow_end: Floats
    busy_start: Floats
    busy_end: Floats
    busy: Ints
    slots: Ints
    base_start: Floats
    base_end: Floats
    base: Ints
    lag: Floats
    row_lag: Floats


def new_room(arrays: MakespanArrays) -> Room:
    """Room for one thread."""
    n, devices = arrays.time.shape
    flows = arrays.cost.shape[0]
    wide = max(n, flows) + 1
    return Room(
        start=np.zeros(n),
        end=np.zeros(n),
        flow_start=np.zeros(flows),
        flow_end=np.zeros(flows),
        busy_start=np.zeros((3 * devices, wide)),
        busy_end=np.zeros((3 * devices, wide)),
        busy=np.zeros(3 * devices, dtype=np.int32),
        slots=np.zeros(max(n, len(arrays.graph.pred)) + 1, dtype=np.int32),
        base_start=np.zeros((3 * devices, wide)),
        base_end=np.zeros((3 * devices, wide)),
        base=np.zeros(3 * devices, dtype=np.int32),
        lag=np.zeros((n, devices)),
        row_lag=np.zeros(3 * devices),
    )
