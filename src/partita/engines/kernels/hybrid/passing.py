"""What stages of a step cost: passing times within caps, handovers, and the time that memory makes them lose.

All stages of a mesh are filled at once: what they do and exchange, with the fastest configurations and all memory there
may be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import called, compiled, inlined
from partita.engines.kernels.hybrid.arrays import HybridWork, StageIndex
from partita.engines.kernels.hybrid.knapsack import cheapest, fill_items
from partita.engines.kernels.hybrid.stages import lacking, subset
from partita.engines.kernels.rows import row_of
from partita.ground.rounding import SUMMED_FEW

#: Schedules as numbers.
IN_TURN, ALL_FORWARD, SPLIT_BACKWARD = 0, 1, 2
#: Caps are kept but for this share.
_WITHIN = 1.0 + SUMMED_FEW


class StageOptions(NamedTuple):
    """Ways to run a stage, O of them by number of devices, over Z suffix sets."""

    #: (O,) devices, replicas, microbatches of each replica, row of the arrays' degrees, and group of devices.
    width: Longs
    replicas: Longs
    microbatches: Longs
    degree: Longs
    group: Longs
    #: (O, joints, 2) what a byte costs that is handed over, and a call. Joint 0 is to a stage in the same machine, g +
    #: 1 to others on devices of group g; in a uniform mesh, j is between the stages of rank j and j + 1.
    price: Floats
    #: (Z, Z, O) time of one microbatch with the fastest configurations, what waits for replicas and the group's traffic
    #: at both ends included; what of the backward part makes gradients of weights; and what is exposed once in a step,
    #: with the update. Forward is infinite where there is no stage.
    forward: Floats
    backward: Floats
    gradients: Floats
    once: Floats
    sack: Ints  #: (Z, Z, O) entry in ``Sacks``.
    #: (Z, Z) bytes handed over.
    enter: Floats
    leave: Floats
    #: (G,) devices of each group, and of one of its machines.
    devices: Longs
    machine: Longs


class Sacks(NamedTuple):
    """Time that memory costs stages: (S,) an example of each, and ``extra`` (S, columns), NaN while unknown.

    ``room`` is what the state leaves to layers; the columns are for ``first`` microbatches in flight and more.
    """

    inner: Ints
    outer: Ints
    degree: Longs
    room: Floats
    extra: Floats
    first: int = 0


class PipelineTask(NamedTuple):
    """What is asked: a schedule, caps, and a sum of passing times that is of no use, ``limit``.

    ``holding`` caps κ, ``ahead`` that of forward parts where they come first, ``once`` what happens once. All stages
    together have ``least`` to ``most`` replicas, each stage ``data`` of them, 0 for any number. ``effort`` is how many
    labels to look at, kept or not.
    """

    schedule: int
    holding: float
    ahead: float
    once: float
    limit: float
    least: int
    most: int
    data: int = 0
    effort: int = 0


@inlined
def flying_of(p: StageOptions, task: PipelineTask, o: int, behind: int) -> int:
    """Microbatches that each replica of a stage holds, given the replicas of it and of all stages behind it."""
    if task.schedule == ALL_FORWARD:
        return int(p.microbatches[o])
    # A split backward part makes all stages hold what the first one does.
    counted = behind if task.schedule == IN_TURN else max(behind, task.least)
    return int(min(-(-counted // p.replicas[o]), p.microbatches[o]))


@compiled
def lost_time(w: HybridWork, stage: StageIndex, room: float, in_flight: int) -> float:
    """The least time that a stage loses to fit into so much room, for one microbatch; infinite if it cannot."""
    count, _, missing, later = fill_items(w.arrays, w.scratch, stage, 1, in_flight, 0.0, room)
    return float(later + cheapest(w.scratch, w.arrays.kind[stage.r], count, missing, np.inf, False, w.stop))


@called
def _learn_loss(w: HybridWork, s: Sacks, number: int, in_flight: int) -> float:
    lost = lost_time(w, StageIndex(s.inner[number], s.outer[number], s.degree[number]), s.room[number], in_flight)
    if s.first <= in_flight < s.first + s.extra.shape[1] and w.stop[0] == 0:
        s.extra[number, in_flight - s.first] = lost
    return lost


@inlined
def loss_of(w: HybridWork, s: Sacks, number: int, in_flight: int) -> float:
    """Time that a stage loses to fit into memory, remembered where there is a place for it."""
    column = in_flight - s.first
    lost = float(s.extra[number, column]) if 0 <= column < s.extra.shape[1] else np.nan
    if np.isnan(lost):
        lost = _learn_loss(w, s, number, in_flight)
    return lost


@inlined
def passing_of(
    w: HybridWork,
    p: StageOptions,
    s: Sacks,
    task: PipelineTask,
    o: int,
    inner: int,
    outer: int,
    moved: float,
    in_flight: int,
    limit: float,
) -> float:
    """φ of a stage, ``moved`` being each direction's time for what it hands over; infinite beyond a cap or the limit.

    The limit is on φ without what memory costs.
    """
    result: float = np.inf
    forward = p.forward[inner, outer, o] + moved
    if forward < np.inf and p.once[inner, outer, o] <= task.once * _WITHIN:
        backward, gradients = p.backward[inner, outer, o] + moved, p.gradients[inner, outer, o]
        most = task.holding * _WITHIN
        passing, m = delay(task.schedule, forward, backward, gradients), p.microbatches[o]
        within = task.schedule != ALL_FORWARD or (m - 1) * forward <= task.ahead * _WITHIN
        if within and held_time(task.schedule, m, forward, backward, gradients) <= most and passing <= limit:
            lost = loss_of(w, s, p.sack[inner, outer, o], in_flight)
            if lost < np.inf:
                backward += lost
                passing = delay(task.schedule, forward, backward, gradients)
                if held_time(task.schedule, m, forward, backward, gradients) <= most:
                    result = passing
    return result


@inlined
def handed(p: StageOptions, o: int, inner: int, outer: int, entering: int, leaving: int) -> float:
    """Time of what a stage hands over in each direction; the joints say where its neighbours are."""
    enter, leave = p.enter[inner, outer], p.leave[inner, outer]
    moved = p.price[o, entering, 0] * enter + p.price[o, leaving, 0] * leave
    moved += p.price[o, entering, 1] if enter > 0.0 else 0.0
    return float(moved + (p.price[o, leaving, 1] if leave > 0.0 else 0.0))


@compiled
def delay(schedule: int, forward: float, backward: float, gradients: float) -> float:
    """φ of a stage: see ``step.pipeline``."""
    if schedule == SPLIT_BACKWARD:
        inputs = backward - gradients
        return max(max(forward, inputs), forward + inputs - gradients)
    return forward + backward


@compiled
def held_time(schedule: int, microbatches: int, forward: float, backward: float, gradients: float) -> float:
    """κ of a stage: see ``step.pipeline``."""
    if schedule == ALL_FORWARD:
        return (microbatches - 1) * backward
    return microbatches * (forward + backward) - delay(schedule, forward, backward, gradients)


class ReplicaExchanges(NamedTuple):
    """What replicas of a mesh exchange, (n,) by layer in topological order: see ``step.costs.Exchanges``.

    ``overlap`` and ``occupied`` are (1,).
    """

    forward: Floats
    backward: Floats
    weight_gradients: Floats
    gather_each: Floats
    reduce_each: Floats
    gather_once: Floats
    reduce_once: Floats
    update: Floats
    state: Floats
    whole_weights: Floats
    whole_gradients: Floats
    edge_bytes: Floats
    edge_in: Floats
    edge_out: Floats
    overlap: Bytes
    occupied: Floats


@compiled
def fill_option(w: HybridWork, e: ReplicaExchanges, p: StageOptions, o: int, state: Floats) -> None:
    """Fill all stages of an option whose layers have its degree, and ``state`` (Z, Z), the bytes they always hold.

    The same sums as ``step.mesh.DeviceMesh.cost``, of the fastest configurations.
    """
    h, r = w.arrays, p.degree[o]
    sets, n = h.members.shape[0], e.forward.shape[0]
    row = np.empty(n, dtype=np.int64)
    for inner in range(sets):
        if w.stop[0] != 0:
            return
        for outer in range(inner + 1, sets):
            if not subset(h.members, inner, outer) or lacking(h, r, inner, outer):
                continue
            count = 0
            for v in range(n):
                if has(h.members[outer], v) and not has(h.members[inner], v):
                    row[count] = v
                    count += 1
            forward, backward, gradients, held, once = 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(count):
                v = row[k]
                forward += e.forward[v]
                backward += e.backward[v]
                gradients += e.weight_gradients[v]
                held += e.state[v]
                once += e.update[v]
            pair, whole = e.whole_weights[row[0]], 0.0
            for k in range(count):
                v = row[k]
                if k == 0:
                    forward += e.gather_each[v]
                else:
                    forward += exposed(e.gather_each[v], e.forward[row[k - 1]], e.occupied[0])
                    pair = max(pair if k > 1 else 0.0, e.whole_weights[row[k - 1]] + e.whole_weights[v])
                    behind = e.reduce_each[row[k + 1]] if k + 1 < count else 0.0
                    backward += exposed(e.gather_each[row[k - 1]] + behind, e.backward[v], e.occupied[0])
                whole = max(whole, e.whole_gradients[v])
            if count > 1:
                backward += exposed(e.reduce_each[row[1]], e.backward[row[0]], e.occupied[0])
            once += e.reduce_each[row[0]]
            if e.overlap[0]:
                left, there, end, busy, whole_exchange = 0.0, 0.0, 0.0, 0.0, 0.0
                for k in range(count - 1, -1, -1):
                    left = max(0.0, left - e.backward[row[k]]) + e.reduce_once[row[k]]
                for k in range(count):
                    v = row[k]
                    there += e.gather_once[v]
                    end = max(end, there) + e.forward[v]
                    busy += e.forward[v]
                    whole_exchange += e.reduce_once[v] + e.gather_once[v]
                waited = left + end - busy
                once += waited + e.occupied[0] * (whole_exchange - waited)
            else:
                for k in range(count):
                    once += e.reduce_once[row[k]] + e.gather_once[row[k]]
            state[inner, outer] = held + pair + whole
            enter, leave, gathered, returned = 0.0, 0.0, 0.0, 0.0
            for edge in row_of(h.cross_ptr, h.cross, outer):
                if not has(h.members[inner], h.target[edge]):
                    enter += e.edge_bytes[edge]
                    gathered += e.edge_in[edge]
            for edge in row_of(h.cross_ptr, h.cross, inner):
                if has(h.members[outer], h.source[edge]):
                    leave += e.edge_bytes[edge]
                    returned += e.edge_out[edge]
            p.forward[inner, outer, o], p.backward[inner, outer, o] = forward + gathered, backward + returned
            p.gradients[inner, outer, o], p.once[inner, outer, o] = gradients, once
            p.enter[inner, outer], p.leave[inner, outer] = enter, leave


@compiled
def exposed(exchange: float, work: float, occupied: float) -> float:
    """By how much an exchange makes the work longer that hides it: see ``costs.collectives``."""
    return max(occupied * exchange, exchange - (1.0 - occupied) * work)
