"""Decisions about plans on machines of several devices: the fewest machines that run a suffix set within a target.

A group of stages shares machines. What it can be is found per inner set and number of machines, by a table over the
devices and replicas used inside one machine; its value is the most microbatches of later groups that memory leaves room
for. The table of a decision then has the fewest machines, as that of single stages has the fewest devices.

Source: Piper (NeurIPS 2021), Appendix E, with two levels; the decision form replaces its tables of times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import called, compiled, inlined
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridWork, StageIndex
from partita.engines.kernels.hybrid.device_table import DeviceTable, Falls
from partita.engines.kernels.hybrid.stages import (
    between,
    boundary,
    crossing,
    known_to_fit,
    lacking,
    least_work,
    plain_boundary,
    reach,
    subset,
    sync_factor,
)

#: Quotients this close to a whole number of devices are that.
WHOLE = 1e-6


class Machines(NamedTuple):
    """What a problem with machines has beside ``HybridArrays``, over the same suffix sets; a machine has K devices."""

    weight: Floats  #: (1, Z, 2) time to move the whole weights of the set between machines once.
    edge_time: Floats  #: (m,) time between machines of each edge.
    size: Longs  #: [devices per machine; machines].
    #: (Z, S + 1) how a set runs on the fewest machines with degrees that add up to at most s: (inner set · (machines +
    #: 1) + machines of the group) · (K + 1) + replicas in one machine.
    group: Longs
    #: (Z, K + 1, K + 1) of one group: most microbatches of later groups, per machine replica, for which the layers
    #: between the inner set and this one run on so many devices with so many replicas in a machine; -1 for none.
    room: Ints
    stage: Longs  #: (Z, K + 1, K + 1) how: (set before · R + degree number) · (K + 1) + replicas of the last stage.


@called
def link_time(h: HybridArrays, m: Machines, inner: int, outer: int, machines: int) -> float:
    """Time per sample that the link of each machine of a group is busy."""
    moved = crossing(h, m.edge_time, m.edge_time, inner, outer)
    return float((moved + sync_factor(h, machines) * between(m.weight, 0, inner, outer)) / machines)


@inlined
def left_in_machine(devices: int, rest: float, outside: float, within: float) -> int:
    """Devices of each machine of a group that layers outside leave, where ``outside`` is done elsewhere."""
    if not rest > outside or within == np.inf:
        return devices
    return int(devices + WHOLE - (rest - outside) / within)


@compiled
def fill_group(
    w: HybridWork,
    m: Machines,
    inner: int,
    last: int,
    machines: int,
    target: float,
    outside: float,
    low_q: int,
    high_q: int,
) -> None:
    """Fill ``room`` and ``stage`` from one inner set up to set number ``last``, for a group on so many machines.

    ``low_q`` to ``high_q`` microbatches of later groups, per machine replica, are of interest. ``outside`` is the
    device time of the devices that neither the group nor later groups have: layers outside must fit into that.
    """
    h, known, room, how = w.arrays, w.known, m.room, m.stage
    devices, ranks, sets = m.size[0], h.degree.shape[0], h.work.shape[0]
    room[inner : last + 1] = -1
    room[inner, 0, 0] = high_q
    within = machines * target
    per_batch, batch = h.limits[2] != 0.0, h.limits[1]
    remember = known.ptr.shape[0] > 1
    for j in range(inner, last):
        if w.stop[0] != 0:
            return
        # Devices of the machine that layers outside the set leave to those inside.
        most = left_in_machine(devices, h.rest[j], outside, within)
        least_k, least_x, most_x, best = devices + 1, devices + 1, 0, -1
        for k in range(most + 1):
            for x in range(k + 1):
                if room[j, k, x] >= low_q:
                    least_k, least_x, most_x = min(least_k, k), min(least_x, x), max(most_x, x)
                    best = max(best, room[j, k, x])
        if best < low_q:
            continue
        for o in range(j + 1, last + 1):
            spare = left_in_machine(devices, h.rest[o], outside, within) - least_k
            if spare < 1 or least_work(h, j, o) > spare * within or not subset(h.members, j, o):
                continue
            for r in range(ranks):
                t = h.degree[r]
                compute = between(h.time, r, j, o)
                if t > spare or lacking(h, r, j, o) or compute > (spare // t) * within:
                    continue
                uniform = h.uniform[r] != 0
                one = compute + boundary(h, j, o, r)
                weight, shared = between(h.weight, r, j, o), between(h.sharded, r, j, o)
                active, fixed = between(h.active, r, j, o), between(h.fixed, r, j, o)
                entry = known.kind[j * sets + o] * ranks + r if remember else 0
                for d in range(1, spare // t + 1):
                    if per_batch and batch % (d * machines) != 0:
                        continue
                    # Inside a machine, a batch is what one of the group's machines has of it.
                    sync = sync_factor(h, d) * (machines if per_batch else 1)
                    if one + sync * weight > d * within:
                        continue
                    # Microbatches in flight, from the fewest that help to the most that any state asks for.
                    low, high = -(-(low_q + least_x + d) // d), -(-(best + most_x + d) // d)
                    budget, total = d * within - (one - compute + sync * weight), d * machines
                    high = min(high, h.segment.shape[1] - 1)
                    if not uniform:
                        budget = d * within - plain_boundary(h, j, o)
                    if uniform and active * high + fixed + shared / total <= h.limits[0]:
                        held = high
                    elif uniform and remember:
                        held, floor = high, max(low, known.free[entry] + 1)
                        while floor <= held:
                            y = (floor + held + 1) // 2
                            if known_to_fit(w, entry, StageIndex(j, o, r), y, budget):
                                floor = y + 1
                            else:
                                held = y - 1
                    else:
                        held = reach(w, StageIndex(j, o, r), sync, total, low, high, budget)
                    if held < low:
                        continue
                    code = (j * ranks + r) * (devices + 1) + d
                    for k in range(least_k, min(most, devices - d * t) + 1):
                        for x in range(least_x, min(k, most_x) + 1):
                            value = min(room[j, k, x], d * held - x - d)
                            if value >= low_q and value > room[o, k + d * t, x + d]:
                                room[o, k + d * t, x + d] = value
                                how[o, k + d * t, x + d] = code


@called
def extend_by_groups(
    w: HybridWork, m: Machines, table: DeviceTable, falls: Falls, points: int, inner: int, outers: Ints, target: float
) -> None:
    """Try the groups of stages between one set and some supersets, on every number of machines."""
    h, fewest, how, room = w.arrays, table.fewest, m.group, m.room
    row, width = fewest[inner], fewest.shape[1]
    top, devices, total = width - 1, m.size[0], m.size[1]
    low_s, high_s, best = falls.at[0], falls.at[points - 1], falls.held[points - 1]
    per_batch, batch = h.limits[2] != 0.0, int(h.limits[1])
    one_machine = devices * target
    useful = np.empty_like(outers)
    for d in range(1, min(total - best, top - low_s) + 1):
        if w.stop[0] != 0:
            return
        if per_batch and batch % d != 0:
            continue
        count = 0
        for o in outers:
            possible = best + d + table.ahead[o] <= total and least_work(h, inner, o) <= d * one_machine
            if possible and fewest[o, low_s + d] > best + d and link_time(h, m, inner, o, d) <= target:
                useful[count] = o
                count += 1
        if count == 0:
            continue
        outside = (total - best - d) * one_machine
        low_q, high_q = -(-low_s // d), -(-high_s // d)
        fill_group(w, m, inner, useful[count - 1], d, target, outside, low_q, high_q)
        for o in useful[:count]:
            into = fewest[o]
            for x in range(1, devices + 1):
                held = -1
                for k in range(x, devices + 1):
                    held = max(held, room[o, k, x])
                if held < low_q:
                    continue
                shift = d * x
                code = (inner * (total + 1) + d) * (devices + 1) + x
                for k in range(low_s, min(high_s, held * d, top - shift) + 1):
                    if row[k] + d < into[k + shift]:
                        into[k + shift] = row[k] + d
                        how[o, k + shift] = code
                # Larger sums are as good, which is known early so that fewer groups are tried.
                value = into[min(min(high_s, held * d) + shift, top)]
                for k in range(min(min(high_s, held * d) + shift, top) + 1, width):
                    if into[k] <= value:
                        break
                    into[k] = value
                    how[o, k] = -1
