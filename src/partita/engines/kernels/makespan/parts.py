"""Equal parts of a block as arrays, what passes around what devices do for them, and weights at which that is dear."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays


class PartArrays(NamedTuple):
    """A part with operators 0, …, K − 1, in topological order, and its edges to operators with fixed devices."""

    row: Longs  #: (K,) Its operators, by their number in the block's problem.
    inner: Longs  #: (e, 3) Source and target in the part, and the flow, −1 for none.
    reads: Longs  #: (r, 3) A fixed source, a target in the part, and the flow.
    gives: Longs  #: (g, 3) A source in the part, a fixed target, and the flow.
    holders: Longs  #: (h,) What stays to the end.
    of: Longs  #: (D ** h,) How memory is divided, by devices of the holders, the first counts least; −1 for never.
    gone: Longs  #: (t,) Operators in the order in which they go.
    scope: Longs  #: (t, s) The neighbours that each has then, −1 for no more.
    into: Longs  #: (t,) Which of ``gone`` reads what is found for each, t for the end.
    met: Longs  #: (e,) The same of inner edges.
    #: (j, K), (j, e), (j, r), (j, g) What is on a chain.
    on_row: Bools
    on_inner: Bools
    on_reads: Bools
    on_gives: Bools


class PartLimits(NamedTuple):
    """What passes besides a part: (5, D) are as in ``around_parts``."""

    around: Floats  #: What passes before and after what devices do, at least.
    used: Bools  #: Whether they can do any of it.
    sure: Bools  #: What some part does in any case, and what some part does if a device is used at all.
    maybe: Bools
    few: int  #: How many devices are used at least; 0 where all that are looked at are, and ``sure`` says it all.
    beside: Floats  #: (j,) What chains take besides a part.


@compiled
def around_parts(a: MakespanArrays, part: PartArrays, time: Floats, head: Floats, tail: Floats, around: Floats) -> None:
    """Fill ``around`` (5, D) with what passes before and after all that a device does for a part, at least.

    Works, sends and receives, then sends to parts and receives from them, by others. ``time``, ``head`` and ``tail``
    (n, D) are as in ``find_labels``. Infinite where there is no such thing.
    """
    devices = time.shape[1]
    before, after = np.full((5, devices), math.inf), np.full((5, devices), math.inf)
    for v in part.row:
        for d in range(devices):
            if time[v, d] < math.inf:
                before[0, d] = min(before[0, d], head[v, d] - time[v, d])
                after[0, d] = min(after[0, d], tail[v, d])
    for kind in range(3):
        edges = part.inner if kind == 0 else part.reads if kind == 1 else part.gives
        for e in range(edges.shape[0]):
            if edges[e, 2] < 0:
                continue
            u = edges[e, 0] if kind == 1 else part.row[edges[e, 0]]
            v = edges[e, 1] if kind == 2 else part.row[edges[e, 1]]
            for c in range(devices):
                if time[u, c] == math.inf:
                    continue
                for d in range(devices):
                    if c == d or time[v, d] == math.inf:
                        continue
                    left = time[v, d] + tail[v, d]
                    for side in range(1, 5):
                        if (side == 3 and kind != 1) or (side == 4 and kind != 2):
                            continue
                        x = c if side % 2 == 1 else d
                        before[side, x] = min(before[side, x], head[u, c])
                        after[side, x] = min(after[side, x], left)
    around[:] = before + after


@compiled
def sure_parts(
    part: PartArrays,
    able: Bools,
    fixed: Longs,
    leads: Bools,
    comes: Bools,
    devs: Longs,
    few: int,
    sure: Bools,
    maybe: Bools,
) -> None:
    """Fill ``sure`` (5, D) with what devices do for parts in any case, ``maybe`` (5, D) with what each does if used.

    Parts are on all of ``devs`` if ``few`` is 0, else on at least so many of them, and on no others. ``able`` (K, D)
    says where a part's operators may be, ``fixed`` (n,) has devices of others, and ``leads`` (K, n) and ``comes``
    (K, n) say to and from which of these flows lead past operators of the part.
    """
    sure[:] = False
    maybe[:] = False
    many, size, n = part.row.shape[0], able.shape[1], fixed.shape[0]
    inside = np.zeros(size, dtype=np.bool_)
    inside[devs] = True
    most = devs.shape[0] if few == 0 else few
    for d in devs:
        sends, receives = True, True
        for k in range(many):
            if not able[k, d]:
                continue
            out, into = False, False
            for v in range(n):
                out = out or (leads[k, v] and fixed[v] != d)
                into = into or (comes[k, v] and fixed[v] != d)
            sends, receives = sends and out, receives and into
        maybe[0, d], maybe[1, d], maybe[2, d] = True, sends, receives
    for kind in range(2):
        edges, far = (part.reads, comes) if kind == 0 else (part.gives, leads)
        for e in range(edges.shape[0]):
            v = edges[e, kind]
            x = fixed[v]
            if edges[e, 2] < 0:
                continue
            if not inside[x]:
                sure[1 + kind, x] = sure[3 + kind, x] = True
            elif most > 1:
                # Some part is elsewhere.
                every = True
                for k in range(many):
                    every = every and far[k, v]
                if every:
                    sure[1 + kind, x] = True
    if few == 0:
        for side in range(3):
            for d in devs:
                sure[side, d] = sure[side, d] or maybe[side, d]
        maybe[:] = False
    maybe &= ~sure


@compiled
def climb(takes: Floats, cost: Floats, steps: int, smooth: float, weights: Floats) -> float:
    """Change ``weights`` (r,), which add up to 1, so that the least of ``takes`` (p, r) times them and ``cost`` grows.

    All that are near to the least, the nearer the less ``smooth`` is, say where to; longer steps where it is more. The
    least that is met is returned.
    """
    many, rows = takes.shape
    now, top = weights.copy(), weights.copy()
    each, taken = np.empty(many), np.empty(rows)
    best = -math.inf
    for step in range(steps):
        least = math.inf
        for p in range(many):
            each[p] = cost[p]
            for r in range(rows):
                each[p] += takes[p, r] * now[r]
            least = min(least, each[p])
        if least > best:
            best = least
            top[:] = now
        scale = max(0.02 * smooth * abs(least), 1e-300)
        total = 0.0
        taken[:] = 0.0
        for p in range(many):
            if each[p] - least < 30.0 * scale:
                share = math.exp((least - each[p]) / scale)
                total += share
                for r in range(rows):
                    taken[r] += share * takes[p, r]
        mean = 0.0
        for r in range(rows):
            taken[r] /= total
            mean += taken[r] * now[r]
        mean = max(mean, 1e-300)
        length = smooth / math.sqrt(1.0 + step / 8.0)
        total = 0.0
        for r in range(rows):
            now[r] *= math.exp(min(2.0, max(-2.0, (taken[r] / mean - 1.0) * length)))
            total += now[r]
        for r in range(rows):
            now[r] /= total
    weights[:] = top
    return best
