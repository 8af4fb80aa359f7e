"""A makespan problem as plain arrays, and the room that its list scheduler works in."""

from __future__ import annotations

from typing import NamedTuple

from partita.engines.kernels.arrays import Bools, Floats, Ints, zeros
from partita.engines.kernels.graph_arrays import GraphArrays, Partition


class MakespanArrays(NamedTuple):
    """Operators 0, …, n − 1, devices 0, …, D − 1, flows 0, …, F − 1."""

    time: Floats  #: (n, D) Time of every operator on every device; infinite where it cannot run.
    #: (n,) What each operator holds; (D,) what each device has, infinite without a limit.
    memory: Floats
    limit: Floats
    cost: Floats  #: (F, D, D) Time of every flow from the first device to the second; 0 on the diagonal.
    graph: GraphArrays  #: What waits for what.
    #: (e,) The flow of every entry of ``graph.pred`` and of ``graph.succ``; −1 for none.
    in_flow: Ints
    out_flow: Ints
    group: Partition  #: Operators that stay together.
    tail: Floats  #: (n, D) A lower bound on what follows the end of an operator that ran on a device.
    #: (3,) Whether operators on one device, flows that leave one, and flows that enter one exclude each other.
    serial: Bools


class Room(NamedTuple):
    """Scratch of one thread, and the times of the schedule that was made last."""

    #: (n,) Of operators.
    start: Floats
    end: Floats
    #: (F,) Of flows; what does not cross devices starts and ends with its producer.
    flow_start: Floats
    flow_end: Floats
    #: (3·D, k) Ascending spans in which each device works, sends, receives, and (3·D,) how many there are.
    busy_start: Floats
    busy_end: Floats
    busy: Ints
    slots: Ints  #: (n + 1,) For sorting.
    #: Like ``busy_start``, …: spans that are there before a part of the order is scheduled; none at first.
    base_start: Floats
    base_end: Floats
    base: Ints
    #: (n, D), (3·D,) What is to follow the end of an operator on a device, and the last span of a row; 0 at first.
    lag: Floats
    row_lag: Floats


def new_room(arrays: MakespanArrays) -> Room:
    """Room for one thread."""
    n, devices = arrays.time.shape
    flows = arrays.cost.shape[0]
    wide = max(n, flows) + 1
    return zeros(
        Room,
        ("start end", n),
        ("flow_start flow_end", flows),
        ("busy_start busy_end base_start base_end", (3 * devices, wide)),
        ("busy base row_lag", 3 * devices),
        ("slots", max(n, len(arrays.graph.pred)) + 1),
        ("lag", (n, devices)),
    )
