"""Pipelines: the least sum of passing times within caps and, where degrees may differ, the devices there are.

In a uniform mesh the number of stages from the end is all that a set has to remember. With degrees of their own, labels
(devices used, replicas, sum of passing times) of every suffix set are extended stage by stage, as in resource
constrained shortest paths (Irnich and Desaulniers, in "Column Generation", 2005, §2). A first pass that takes memory
for what it is at least gives bounds on what is left, which prune labels. ``docs/hybrid.md`` says what caps are for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.hybrid.arrays import HybridWork
from partita.engines.kernels.hybrid.passing import (
    ALL_FORWARD,
    PipelineTask,
    Sacks,
    StageOptions,
    flying_of,
    handed,
    held_time,
    loss_of,
    passing_of,
)

#: What ``extend_pipelines`` returns if there are more labels than room for them, or than it should look at.
#: The label is -1 in the first case, -2 in the second.
FULL = -2.0


class Entries(NamedTuple):
    """Stages worth a look: of inner set and outer set, the option and its least passing time."""

    ptr: Longs
    option: Ints
    passing: Floats


class Left(NamedTuple):
    """Bounds: fewest devices and replicas of each set's stages, (Z,), and the least sum of passing times of all others.

    The last is (Z, V) by what is left for them of every group of devices, in whole units: 0 to ``most`` of them, with
    ``step`` columns from one number of units to the next. Of a group with ``most`` 0 nothing is counted.
    """

    needed: Longs
    fewest: Longs
    rest: Floats
    #: (G,) each.
    unit: Longs
    most: Longs
    step: Longs


class Labels(NamedTuple):
    """Beginnings of pipelines, from the last stage: (C, G) devices used, and (C,) what else is known of each.

    ``joint`` is what the next stage must be: 0 in the same machine, g + 1 in another one, of group g. ``narrow`` says
    whether the label's first stage fits into a machine. ``same`` is the option of all stages, -1 where they differ.
    """

    used: Longs
    replicas: Longs
    passing: Floats
    joint: Longs
    group: Longs
    narrow: Longs
    same: Longs
    parent: Longs
    option: Ints
    place: Ints
    following: Longs


@compiled
def best_pipeline(
    w: HybridWork,
    p: StageOptions,
    s: Sacks,
    task: PipelineTask,
    rest: Floats,
    least: Floats,
    parent: Ints,
    steps: Ints,
    costs: Floats,
) -> float:
    """The least sum of passing times of the stages of a uniform mesh; infinite if no pipeline is within the caps.

    All stages have the one option there is. ``rest`` (Z,) is what the layers outside each set add at least. ``least``
    and ``parent`` (stages + 1, Z) become, by the number of stages from the end, that sum for every set and the set
    inside the first stage of it; ``steps`` (stages + 1,) its sets, the whole first, and ``costs`` (3,) the
    largest of what the task caps.
    """
    sets, stages = rest.shape[0], least.shape[0] - 1
    least[:] = np.inf
    least[0, 0] = 0.0
    for k in range(1, stages + 1):
        rank, flying = stages - k, flying_of(p, task, 0, k * p.replicas[0])
        for inner in range(sets - 1):
            begin = least[k - 1, inner]
            if begin == np.inf:
                continue
            if w.stop[0] != 0:
                return np.inf
            for outer in range(sets - 1 if k == stages else inner + 1, sets):
                if p.forward[inner, outer, 0] == np.inf:
                    continue
                moved = handed(p, 0, inner, outer, (rank - 1) % stages, rank)
                limit = min(least[k, outer], task.limit - rest[outer]) - begin
                reached = begin + passing_of(w, p, s, task, 0, inner, outer, moved, flying, limit)
                if reached < least[k, outer]:
                    least[k, outer] = reached
                    parent[k, outer] = inner
    found = float(least[stages, sets - 1])
    if found == np.inf:
        return found
    costs[:] = 0.0
    steps[0] = sets - 1
    for rank in range(stages):
        k, outer, inner = stages - rank, steps[rank], parent[stages - rank, steps[rank]]
        steps[rank + 1] = inner
        moved = handed(p, 0, inner, outer, (rank - 1) % stages, rank)
        forward, backward = p.forward[inner, outer, 0] + moved, p.backward[inner, outer, 0] + moved
        backward += loss_of(w, s, p.sack[inner, outer, 0], flying_of(p, task, 0, k * p.replicas[0]))
        m, gradients = p.microbatches[0], p.gradients[inner, outer, 0]
        costs[0] = max(costs[0], held_time(task.schedule, m, forward, backward, gradients))
        costs[1] = max(costs[1], (m - 1) * forward if task.schedule == ALL_FORWARD else 0.0)
        costs[2] = max(costs[2], p.once[inner, outer, 0])
    return found


@compiled
def bound_pipelines(
    w: HybridWork, p: StageOptions, s: Sacks, task: PipelineTask, cheap: Floats, e: Entries, left: Left
) -> int:
    """Fill entries and bounds; the number of entries, negative if there is no room for them or the search has to stop.

    ``cheap`` (O, 2) is the least price of what an option hands over, a byte and a call.
    """
    sets, options, groups = p.enter.shape[0], p.width.shape[0], p.devices.shape[0]
    room = p.devices.sum()
    left.needed[:] = room + 1
    left.fewest[:] = task.most + 1
    left.needed[0] = 0
    left.fewest[0] = 0
    count = 0
    for inner in range(sets):
        for outer in range(sets):
            e.ptr[inner * sets + outer] = count
            if outer <= inner or left.needed[inner] > room or left.fewest[inner] > task.most:
                continue
            if w.stop[0] != 0:
                return -1
            enter, leave = p.enter[inner, outer], p.leave[inner, outer]
            for o in range(options):
                needed, behind = left.needed[inner] + p.width[o], left.fewest[inner] + p.replicas[o]
                if p.forward[inner, outer, o] == np.inf or needed > room or behind > task.most:
                    continue
                if task.data > 0 and p.replicas[o] != task.data:
                    continue
                moved = cheap[o, 0] * (enter + leave)
                moved += (cheap[o, 1] if enter > 0.0 else 0.0) + (cheap[o, 1] if leave > 0.0 else 0.0)
                flying = flying_of(p, task, o, behind)
                passing = passing_of(w, p, s, task, o, inner, outer, moved, flying, task.limit)
                if passing > task.limit:
                    continue
                if count == e.option.shape[0]:
                    return -1
                e.option[count], e.passing[count] = o, passing * (1.0 - 1e-13)
                count += 1
                left.needed[outer] = min(left.needed[outer], needed)
                left.fewest[outer] = min(left.fewest[outer], behind)
    e.ptr[sets * sets] = count
    left.rest[:] = np.inf
    left.rest[sets - 1, :] = 0.0
    columns, least = left.rest.shape[1], np.empty(groups)
    for inner in range(sets - 2, -1, -1):
        if left.needed[inner] > room:
            continue
        # Of one group at least so much is in use; more is never left.
        end = columns - left.needed[inner] // left.unit[0] if groups == 1 and left.most[0] > 0 else columns
        for outer in range(inner + 1, sets):
            least[:] = np.inf
            for k in range(e.ptr[inner * sets + outer], e.ptr[inner * sets + outer + 1]):
                passing, g = e.passing[k], p.group[e.option[k]]
                # Wider options come later.
                if passing >= least[g]:
                    continue
                least[g] = passing
                units = p.width[e.option[k]] // left.unit[g] if left.most[g] > 0 else 0
                taken, block = units * left.step[g], (left.most[g] + 1) * left.step[g]
                for begin in range(0, end, block):
                    for column in range(begin + taken, min(begin + block, end)):
                        reached = passing + left.rest[outer, column - taken]
                        if reached < left.rest[inner, column]:
                            left.rest[inner, column] = reached
    return count


@inlined
def _column(p: StageOptions, left: Left, n: Labels, label: int, group: int, used: int) -> int:
    """The column of what a label leaves, with so many devices of one group in use instead; no group if negative."""
    column = 0
    for g in range(p.devices.shape[0]):
        if left.most[g] > 0:
            free = p.devices[g] - (used if g == group else n.used[label, g])
            column += min(max(free // left.unit[g], 0), left.most[g]) * left.step[g]
    return column


@compiled
def rules(p: StageOptions, n: Labels, fewest: int, a: int, b: int) -> bool:
    """Whether label a can become whatever label b can, and no later, among pipelines of ``fewest`` replicas or more."""
    if n.joint[a] != n.joint[b] or n.group[a] != n.group[b] or n.narrow[a] != n.narrow[b]:
        return False
    if n.replicas[a] > n.replicas[b] or n.passing[a] > n.passing[b]:
        return False
    if n.replicas[a] < min(n.replicas[b], fewest):
        # It may end with too few.
        return False
    if n.same[a] >= 0 and n.same[a] != n.same[b]:
        return False
    for g in range(p.devices.shape[0]):
        more = n.used[b, g] - n.used[a, g]
        if more < 0 or more % p.machine[g] != 0:
            return False
    return True


@inlined
def _keep_label(p: StageOptions, n: Labels, head: Longs, fewest: int, outer: int, label: int) -> tuple[bool, int]:
    """Whether a new label is put before those of its set, instead of those it rules; how many it was compared with."""
    before, other, looked = -1, head[outer], 0
    while other >= 0:
        looked += 1
        after = n.following[other]
        if rules(p, n, fewest, other, label):
            return False, looked
        if not rules(p, n, fewest, label, other):
            before = other
        elif before < 0:
            head[outer] = after
        else:
            n.following[before] = after
        other = after
    n.following[label] = head[outer]
    head[outer] = label
    return True, looked


@compiled
def extend_pipelines(
    w: HybridWork, p: StageOptions, s: Sacks, task: PipelineTask, e: Entries, left: Left, n: Labels, head: Longs
) -> tuple[float, int]:
    """The least sum of passing times of a pipeline of the whole model, and its label; infinite if none meets the limit.

    Pipelines whose stages all have the same option are left out: they are uniform meshes, laid out in another way.
    ``head`` (Z,) becomes the first label of every set. ``FULL`` instead if it takes too many.
    """
    sets, groups = p.enter.shape[0], p.devices.shape[0]
    best, found = task.limit, -1
    head[:] = -1
    n.used[0, :] = 0
    n.replicas[0], n.passing[0], n.joint[0], n.group[0], n.narrow[0] = 0, 0.0, -1, -1, 0
    n.same[0] = -1
    n.parent[0], n.option[0], n.place[0], n.following[0] = -1, -1, 0, -1
    head[0] = 0
    count, looked = 1, 0
    for inner in range(sets - 1):
        label = head[inner]
        while label >= 0:
            if w.stop[0] != 0:
                return np.inf, -1
            if n.passing[label] + left.rest[inner, _column(p, left, n, label, -1, 0)] > best:
                label = n.following[label]
                continue
            for outer in range(inner + 1, sets):
                for k in range(e.ptr[inner * sets + outer], e.ptr[inner * sets + outer + 1]):
                    o = e.option[k]
                    width, g = p.width[o], p.group[o]
                    size = p.machine[g]
                    used = n.used[label, g]
                    idle = -used % size
                    fits = idle == 0 or width <= idle
                    start = used if fits else used + idle
                    if start + width > p.devices[g]:
                        continue
                    joint = n.joint[label]
                    if joint >= 0:
                        inside = idle > 0 and fits and n.group[label] == g and n.narrow[label] == 1
                        if (joint == 0) != inside or (joint > 0 and joint != g + 1):
                            continue
                    ahead = n.passing[label] + left.rest[outer, _column(p, left, n, label, g, start + width)]
                    if ahead + e.passing[k] > best:
                        continue
                    behind = n.replicas[label] + p.replicas[o]
                    if behind > task.most:
                        continue
                    flying = flying_of(p, task, o, behind)
                    end = outer == sets - 1
                    same = o if inner == 0 or n.same[label] == o else -1
                    if end and same >= 0:
                        continue
                    narrow = width <= size
                    for entering in range(1 if end else 0, 2 if end else groups + 1):
                        if entering == 0 and not (narrow and (start + width) % size != 0):
                            continue
                        looked += 1
                        leaving = n.group[label] + 1 if joint > 0 else 0
                        moved = handed(p, o, inner, outer, entering, leaving)
                        passing = passing_of(w, p, s, task, o, inner, outer, moved, flying, task.limit)
                        if ahead + passing > best:
                            continue
                        if count == n.passing.shape[0] or looked > task.effort:
                            return FULL, -2 if looked > task.effort else -1
                        for other in range(groups):
                            n.used[count, other] = n.used[label, other]
                        n.used[count, g] = start + width
                        n.replicas[count], n.passing[count] = behind, n.passing[label] + passing
                        n.joint[count], n.group[count], n.narrow[count] = entering, g, 1 if narrow else 0
                        n.parent[count], n.option[count], n.place[count] = label, o, outer
                        n.same[count] = same
                        if end:
                            if behind >= task.least and n.passing[count] < best:
                                best, found = n.passing[count], count
                                count += 1
                            continue
                        kept, compared = _keep_label(p, n, head, task.least, outer, count)
                        looked += compared
                        count += kept
            label = n.following[label]
    return (best if found >= 0 else np.inf), found
