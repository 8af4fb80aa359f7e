"""Which configuration each layer of a stage takes: an exact multiple-choice knapsack.

Every layer starts with its fastest option; other options gain memory and lose time. The least loss that gains what is
missing is wanted. Bounds come from the linear relaxation, the answer from a depth-first search in order of efficiency,
in which layers with equal memory and a time that grows no slower never take more than the one before them.

Source: the problem is Piper's (NeurIPS 2021, §4), which solves it by a greedy rule; the relaxation is Sinha and
Zoltners (Operations Research 27, 1979).
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import called, compiled, inlined
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridScratch, StageIndex
from partita.ground.rounding import UNIT


@compiled
def fill_items(
    h: HybridArrays, s: HybridScratch, stage: StageIndex, replicas: int, in_flight: int, sync: float, room: float
) -> tuple[int, float, float, float]:
    """List the layers of a stage with their options; those that need more than ``room`` alone are none.

    So all memory is of the size of the room, and nothing is lost in what is left of far larger numbers. Returns the
    number of layers that have a choice, the time of the fastest options, the memory they take too much (infinite if a
    layer has none), and what they take longer than options that need more room.
    Times include synchronisation where the degree is not uniform; ``sync`` is the factor of the weights. ``replicas``
    counts all of the stage, which share out the sharded memory.
    """
    inside, outside = h.members[stage.outer], h.members[stage.inner]
    uniform, ptr = h.uniform[stage.r], h.option_ptr[stage.r]
    count, size = 0, 0
    total, missing, later = 0.0, -room, 0.0
    for v in range(h.kind.shape[1]):
        if not has(inside, v) or has(outside, v):
            continue
        begin, fastest = size, np.inf
        for o in range(ptr[v], ptr[v + 1]):
            cost = h.option_time[o]
            if not uniform:
                cost += sync * h.option_weight[o]
                for k in range(h.in_ptr[v], h.in_ptr[v + 1]):
                    if not has(inside, h.source[h.in_edges[k]]):
                        cost += h.option_in[h.option_in_ptr[o] + k - h.in_ptr[v]]
                for k in range(h.out_ptr[v], h.out_ptr[v + 1]):
                    if has(outside, h.target[h.out_edges[k]]):
                        cost += h.option_out[h.option_out_ptr[o] + k - h.out_ptr[v]]
            memory = h.option_active[o] * in_flight + h.option_fixed[o] + h.option_sharded[o] / replicas
            fastest = min(fastest, cost)
            if memory > room:
                continue
            # Kept sorted by cost for now, so that one pass finds the options worth having.
            place = size
            while place > begin:
                last = place - 1
                if s.loss[last] < cost or (s.loss[last] == cost and s.gain[last] <= memory):
                    break
                s.loss[place], s.gain[place], s.option[place] = s.loss[last], s.gain[last], s.option[last]
                place = last
            s.loss[place], s.gain[place], s.option[place] = cost, memory, o
            size += 1
        if size == begin:
            return 0, np.inf, np.inf, np.inf
        base_cost, base_memory, base = s.loss[begin], s.gain[begin], s.option[begin]
        total += base_cost
        missing += base_memory
        later += base_cost - fastest
        kept = begin
        most = 0.0
        for k in range(begin + 1, size):
            # Sizes that differ may gain equally much, rounded.
            gain = base_memory - s.gain[k]
            if gain > most:
                most = gain
                s.loss[kept], s.gain[kept], s.option[kept] = s.loss[k] - base_cost, gain, s.option[k]
                kept += 1
        size = kept
        # The base option of every layer is remembered; a layer with options beside it is an item.
        s.best[v] = base
        if kept > begin:
            s.item[count] = v
            s.first[count] = begin
            s.ratio[count] = np.inf
            for k in range(begin, kept):
                s.ratio[count] = min(s.ratio[count], s.loss[k] / s.gain[k])
            count += 1
    s.first[count] = size
    return count, total, missing, later


@compiled
def _sort(keys: Floats, order: Ints, size: int) -> None:
    """Stable insertion sort of ``order[:size]`` by key: the lists are short and nearly sorted."""
    for k in range(1, size):
        value = order[k]
        key = keys[value]
        place = k
        while place > 0 and keys[order[place - 1]] > key:
            order[place] = order[place - 1]
            place -= 1
        order[place] = value


@called
def _relax(s: HybridScratch, count: int, need: float) -> tuple[float, float, float]:
    """The linear relaxation: its value, its multiplier (time per memory), and the loss of a rounded solution.

    Steps of each item's lower convex hull are taken in order of time per memory; infinite values if all steps together
    gain too little.
    """
    steps = 0
    for i in range(count):
        at_gain, at_loss = 0.0, 0.0
        k = s.first[i]
        while k < s.first[i + 1]:
            # The next corner of the hull: the option with the least slope from here, the largest gain among equals.
            best, slope = -1, np.inf
            for c in range(k, s.first[i + 1]):
                here = (s.loss[c] - at_loss) / (s.gain[c] - at_gain)
                if here <= slope:
                    best, slope = c, here
            s.step_gain[steps] = s.gain[best] - at_gain
            s.step_loss[steps] = slope
            s.step_order[steps] = steps
            at_gain, at_loss = s.gain[best], s.loss[best]
            k = best + 1
            steps += 1
    _sort(s.step_loss, s.step_order, steps)
    left, value = need, 0.0
    for k in range(steps):
        step = s.step_order[k]
        slope, gain = s.step_loss[step], s.step_gain[step]
        if gain >= left:
            return value + slope * left, slope, value + slope * gain
        value += slope * gain
        left -= gain
    return np.inf, np.inf, np.inf


@compiled
def bracket(s: HybridScratch, count: int, need: float) -> tuple[float, float]:
    """A lower and an upper bound of the least loss that gains ``need``; infinite if nothing does."""
    if need <= 0.0:
        return 0.0, 0.0
    if count == 0:
        return np.inf, np.inf
    value, _, rounded = _relax(s, count, need)
    return value * (1.0 - _slack(s, count)), rounded


@called
def _slack(s: HybridScratch, count: int) -> float:
    """Relative rounding of sums over all options of a stage, whichever way they are added up."""
    return float(2.0 * (3.0 * s.first[count] + count + 8.0) * UNIT)


@inlined
def _line_up(s: HybridScratch, kinds: Ints, count: int, slope: float) -> None:
    """Sort the layers by efficiency; find whom each one follows, and what it and those after it gain at most."""
    for i in range(count):
        s.order[i] = i
        s.last[kinds[s.item[i]]] = -1
    _sort(s.ratio, s.order, count)
    for depth in range(count):
        i = s.order[depth]
        kind = kinds[s.item[i]]
        s.follow[depth] = -1
        p = s.last[kind]
        if p >= 0:
            j = s.order[p]
            size = s.first[i + 1] - s.first[i]
            same = s.first[j + 1] - s.first[j] == size
            ahead = 0.0
            for k in range(size):
                if not same:
                    break
                a, b = s.first[j] + k, s.first[i] + k
                difference = s.loss[b] - s.loss[a]
                same = s.gain[a] == s.gain[b] and difference >= ahead
                ahead = difference
            if same:
                s.follow[depth] = p
        s.last[kind] = depth
    s.suffix_gain[count] = 0.0
    s.suffix_best[count] = 0.0
    for depth in range(count - 1, -1, -1):
        i = s.order[depth]
        most = 0.0
        for k in range(s.first[i], s.first[i + 1]):
            most = max(most, slope * s.gain[k] - s.loss[k])
        s.suffix_best[depth] = s.suffix_best[depth + 1] + most
        s.suffix_gain[depth] = s.suffix_gain[depth + 1] + s.gain[s.first[i + 1] - 1]


@compiled
def cheapest(s: HybridScratch, kinds: Ints, count: int, need: float, limit: float, first: bool, stop: Longs) -> float:
    """The least loss that gains ``need``, if it is at most ``limit``; infinity otherwise.

    ``kinds`` is the degree's row of ``HybridArrays.kind``. With ``first`` any loss within the limit will do. Otherwise
    ``s.best`` holds the option of every layer afterwards. Infinity, too, when ``stop`` is set: the caller must look.
    """
    if need <= 0.0:
        return 0.0 if limit >= 0.0 else np.inf
    if count == 0 or limit < 0.0:
        return np.inf
    value, slope, rounded = _relax(s, count, need)
    # Hull sums differ from the sums the search forms by rounding only.
    slack = _slack(s, count) * (abs(limit) if limit < np.inf else value)
    if value == np.inf or value > limit + slack:
        return np.inf
    if first and rounded <= limit:
        return rounded
    s.counters[0] += 1
    _line_up(s, kinds, count, slope)
    best, found = limit + slack, np.inf
    depth, nodes = 0, 0
    s.acc_gain[0], s.acc_loss[0] = 0.0, 0.0
    i = s.order[0]
    s.choice[0] = s.first[i + 1] - s.first[i]
    while depth >= 0:
        nodes += 1
        if nodes & 1023 == 0 and stop[0] != 0:
            return np.inf
        if s.choice[depth] < 0:
            depth -= 1
            if depth >= 0:
                s.choice[depth] -= 1
            continue
        i = s.order[depth]
        gain, loss = s.acc_gain[depth], s.acc_loss[depth]
        if s.choice[depth] > 0:
            k = s.first[i] + s.choice[depth] - 1
            gain += s.gain[k]
            loss += s.loss[k]
        bound = loss + max(0.0, slope * (need - gain) - s.suffix_best[depth + 1])
        if bound > best or (found < np.inf and bound >= found) or gain + s.suffix_gain[depth + 1] < need:
            s.choice[depth] -= 1
            continue
        if gain >= need:
            found = loss
            for k in range(depth + 1):
                s.top[k] = s.choice[k]
            for k in range(depth + 1, count):
                s.top[k] = 0
            if first:
                break
            s.choice[depth] -= 1
            continue
        depth += 1
        s.acc_gain[depth], s.acc_loss[depth] = gain, loss
        i = s.order[depth]
        s.choice[depth] = s.first[i + 1] - s.first[i]
        if s.follow[depth] >= 0:
            s.choice[depth] = min(s.choice[depth], s.choice[s.follow[depth]])
    s.counters[1] += nodes
    if not first and found < np.inf:
        for depth in range(count):
            i = s.order[depth]
            if s.top[depth] > 0:
                s.best[s.item[i]] = s.option[s.first[i] + s.top[depth] - 1]
    return found
