"""Rows of stages of a uniform mesh: the least sum of passing times with every stage within two caps.

Source: the dynamic program over suffix sets is that of ``decide``, with stages as the axis; ``docs/hybrid.md`` says
what caps are for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.kernels.arrays import Bytes, Floats, Ints
from partita.kernels.bits import has
from partita.kernels.compiled import compiled
from partita.kernels.hybrid.arrays import HybridWork, Stage
from partita.kernels.hybrid.knapsack import cheapest, fill_items
from partita.kernels.hybrid.stages import lacking, subset

#: Schedules as numbers.
IN_TURN, ALL_FORWARD, SPLIT_BACKWARD = 0, 1, 2


class Replicas(NamedTuple):
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


class MeshStages(NamedTuple):
    """Stages between an inner and an outer set, (Z, Z) each, of the fastest configurations.

    Attributes
    ----------
    forward, backward
        Time of one microbatch, what waits for other replicas included, transfers not.
    weight_gradients
        What of the backward part makes gradients of weights.
    once
        What is exposed once in a step, and the update.
    state
        Bytes that are always held.
    enter, leave
        Bytes handed over.
    gathered, returned
        Time in the group to have these whole: forward, and backward.
    """

    forward: Floats
    backward: Floats
    weight_gradients: Floats
    once: Floats
    state: Floats
    enter: Floats
    leave: Floats
    gathered: Floats
    returned: Floats


class Knapsacks(NamedTuple):
    """What is known of the time that memory costs stages: (kinds, columns) ``extra``, NaN while unknown.

    ``kind`` (Z, Z) says which stages share it, -1 where there is no stage; ``inner`` and ``outer`` are an example.
    """

    kind: Ints
    inner: Ints
    outer: Ints
    extra: Floats


class Row(NamedTuple):
    """What is asked of a row: ``stages`` of them, ``microbatches`` of each replica, the schedule, and two caps.

    ``rates`` (stages, 4): what a byte costs that enters, and one that leaves, and a call of each. ``holding`` caps κ,
    ``ahead`` that of forward parts where they come first, ``once`` what happens once; ``limit`` is a sum of passing
    times that is of no use.
    """

    stages: int
    microbatches: int
    schedule: int
    rates: Floats
    holding: float
    ahead: float
    once: float
    limit: float


@compiled
def fill_stages(w: HybridWork, e: Replicas, s: MeshStages) -> None:
    """Fill all stages; the same sums as ``step.mesh.Mesh.cost``."""
    h = w.arrays
    sets, n = h.members.shape[0], e.forward.shape[0]
    row = np.empty(n, dtype=np.int64)
    for inner in range(sets):
        if w.stop[0] != 0:
            return
        for outer in range(inner + 1, sets):
            if not subset(h.members, inner, outer) or lacking(h, 0, inner, outer):
                s.forward[inner, outer] = np.inf
                continue
            count = 0
            for v in range(n):
                if has(h.members[outer], v) and not has(h.members[inner], v):
                    row[count] = v
                    count += 1
            forward, backward, gradients, state, once = 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(count):
                v = row[k]
                forward += e.forward[v]
                backward += e.backward[v]
                gradients += e.weight_gradients[v]
                state += e.state[v]
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
            s.forward[inner, outer], s.backward[inner, outer] = forward, backward
            s.weight_gradients[inner, outer], s.once[inner, outer] = gradients, once
            s.state[inner, outer] = state + pair + whole
            enter, leave, gathered, returned = 0.0, 0.0, 0.0, 0.0
            for k in range(h.cross_ptr[outer], h.cross_ptr[outer + 1]):
                edge = h.cross[k]
                if not has(h.members[inner], h.target[edge]):
                    enter += e.edge_bytes[edge]
                    gathered += e.edge_in[edge]
            for k in range(h.cross_ptr[inner], h.cross_ptr[inner + 1]):
                edge = h.cross[k]
                if has(h.members[outer], h.source[edge]):
                    leave += e.edge_bytes[edge]
                    returned += e.edge_out[edge]
            s.enter[inner, outer], s.leave[inner, outer] = enter, leave
            s.gathered[inner, outer], s.returned[inner, outer] = gathered, returned


@compiled
def exposed(exchange: float, work: float, occupied: float) -> float:
    """By how much an exchange makes the work longer that hides it: see ``costs.exposure``."""
    return max(occupied * exchange, exchange - (1.0 - occupied) * work)


@compiled
def extra_time(w: HybridWork, state: float, inner: int, outer: int, in_flight: int) -> float:
    """The least time that a stage loses to fit into memory, for one microbatch; infinite if it cannot."""
    s = w.scratch
    room = w.arrays.limits[0] - state
    count, _, missing, later = fill_items(w.arrays, s, Stage(inner, outer, 0), 1, in_flight, 0.0, room)
    return float(later + cheapest(s, w.arrays.kind[0], count, missing, np.inf, False, w.stop))


@compiled
def best_row(
    w: HybridWork, s: MeshStages, known: Knapsacks, row: Row, least: Floats, parent: Ints, rest: Floats
) -> float:
    """The least sum of passing times of a row of stages for the whole model, each within the caps; infinite if none is.

    ``least`` and ``parent`` (stages + 1, Z) hold, by the number of stages from the end, that sum for every set and the
    set inside the first stage of it. ``rest`` (Z,) is what the layers outside each set add at least.
    """
    sets, m = rest.shape[0], row.microbatches
    least[:] = np.inf
    least[0, 0] = 0.0
    holding, once, ahead = row.holding * (1.0 + 1e-12), row.once * (1.0 + 1e-12), row.ahead * (1.0 + 1e-12)
    for k in range(1, row.stages + 1):
        rank = row.stages - k
        come, go = row.rates[rank, 0], row.rates[rank, 1]
        if row.schedule == IN_TURN:
            in_flight = min(k, m)
        elif row.schedule == ALL_FORWARD:
            in_flight = m
        else:
            in_flight = min(row.stages, m)
        column = min(in_flight, known.extra.shape[1] - 1)
        for inner in range(sets - 1):
            begin = least[k - 1, inner]
            if begin == np.inf:
                continue
            if w.stop[0] != 0:
                return np.inf
            for outer in range(sets - 1 if k == row.stages else inner + 1, sets):
                forward = s.forward[inner, outer]
                if forward == np.inf or s.once[inner, outer] > once:
                    continue
                moved = come * s.enter[inner, outer] + go * s.leave[inner, outer]
                moved += row.rates[rank, 2] if s.enter[inner, outer] > 0.0 else 0.0
                moved += row.rates[rank, 3] if s.leave[inner, outer] > 0.0 else 0.0
                forward += moved + s.gathered[inner, outer]
                backward = s.backward[inner, outer] + moved + s.returned[inner, outer]
                gradients = s.weight_gradients[inner, outer]
                passing = delay(row.schedule, forward, backward, gradients)
                reached = begin + passing
                if held_time(row.schedule, m, forward, backward, gradients) > holding or reached >= least[k, outer]:
                    continue
                if row.schedule == ALL_FORWARD and (m - 1) * forward > ahead:
                    continue
                if reached + rest[outer] > row.limit:
                    continue
                kind = known.kind[inner, outer]
                lost = known.extra[kind, column]
                if np.isnan(lost):
                    a, b = known.inner[kind], known.outer[kind]
                    lost = extra_time(w, s.state[a, b], a, b, in_flight)
                    known.extra[kind, column] = lost
                if lost == np.inf:
                    continue
                if lost > 0.0:
                    backward += lost
                    passing = delay(row.schedule, forward, backward, gradients)
                    if held_time(row.schedule, m, forward, backward, gradients) > holding:
                        continue
                    if begin + passing >= least[k, outer]:
                        continue
                least[k, outer] = begin + passing
                parent[k, outer] = inner
    return float(least[row.stages, sets - 1])


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
