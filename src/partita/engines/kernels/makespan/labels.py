"""Heads and tails: what must pass before and after every operator on every device, with queues at its links."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays

#: Weights of the device against the link, in tenths.
_TENTHS = 10


@compiled
def find_labels(a: MakespanArrays, order: Longs, time: Floats, head: Floats, tail: Floats) -> None:
    """Fill (n, D) lower bounds on the end of every operator on a device, and on what follows that end.

    Chains: v on d starts no earlier than, for each producer, the least over its devices of its label and the transfer.

    Queues: let v start on d at s, and take producers whose data is, or which start, no earlier than r. Those on d run
    one by one within [r, s]; flows of the others enter d one by one within it. So s − r is at least w times the time of
    the former plus 1 − w times that of the latter, for every weight w, and at least Σ min(w · time of the producer on
    d, (1 − w) · its least transfer to d), wherever the producers are. The same holds backwards for readers of v, which
    run where v did or whose flows leave there one by one.

    ``time`` (n, D) stands for the problem's: it and the head are infinite where an operator is not to be. ``order`` is
    topological.
    """
    n, devices = time.shape
    most = 1
    for v in range(n):
        most = max(most, a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v], a.graph.succ_ptr[v + 1] - a.graph.succ_ptr[v])
    release, here, there = np.empty(most), np.empty(most), np.empty(most)
    summed = np.empty(devices)
    for place in range(n):
        v = order[place]
        first, last = a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]
        for d in range(devices):
            if time[v, d] == math.inf:
                head[v, d] = math.inf
                continue
            reached = 0.0
            count = 0
            for e in range(first, last):
                u, f = a.graph.pred[e], a.in_flow[e]
                arrives = math.inf
                for c in range(devices):
                    arrives = min(arrives, head[u, c] + (a.cost[f, c, d] if f >= 0 else 0.0))
                reached = max(reached, arrives)
                if f < 0 or not (a.serial[0] and a.serial[2]) or last - first < 2:
                    continue
                # All flows of one producer together, once.
                again = False
                summed[:] = 0.0
                for other in range(first, last):
                    if a.graph.pred[other] == u and a.in_flow[other] >= 0:
                        again = again or other < e
                        summed += a.cost[a.in_flow[other], :, d]
                if again:
                    continue
                here[count] = time[u, d]
                there[count] = math.inf
                release[count] = head[u, d] - time[u, d] if time[u, d] < math.inf else math.inf
                for c in range(devices):
                    if c != d and time[u, c] < math.inf:
                        there[count] = min(there[count], summed[c])
                        release[count] = min(release[count], head[u, c])
                count += 1
            if count > 1:
                reached = max(reached, _queue(release, here, there, count))
            head[v, d] = reached + time[v, d]
    for place in range(n - 1, -1, -1):
        v = order[place]
        first, last = a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]
        for d in range(devices):
            rest = 0.0
            count = 0
            for e in range(first, last):
                w, f = a.graph.succ[e], a.out_flow[e]
                follows = math.inf
                for c in range(devices):
                    if time[w, c] < math.inf:
                        moved = a.cost[f, d, c] if f >= 0 else 0.0
                        follows = min(follows, moved + time[w, c] + tail[w, c])
                rest = max(rest, follows)
                if f < 0 or not (a.serial[0] and a.serial[1]) or last - first < 2:
                    continue
                again = False
                summed[:] = 0.0
                for other in range(first, last):
                    if a.graph.succ[other] == w and a.out_flow[other] >= 0:
                        again = again or other < e
                        summed += a.cost[a.out_flow[other], d, :]
                if again:
                    continue
                here[count] = time[w, d]
                there[count] = math.inf
                release[count] = tail[w, d] if time[w, d] < math.inf else math.inf
                for c in range(devices):
                    if c != d and time[w, c] < math.inf:
                        there[count] = min(there[count], summed[c])
                        release[count] = min(release[count], time[w, c] + tail[w, c])
                count += 1
            if count > 1:
                rest = max(rest, _queue(release, here, there, count))
            tail[v, d] = rest


@compiled
def _queue(release: Floats, here: Floats, there: Floats, count: int) -> float:
    """The largest of r + Σ min(w · here, (1 − w) · there), over those released at r or later, for any r and w."""
    best = 0.0
    for tenth in range(1, _TENTHS):
        w = tenth / _TENTHS
        for first in range(count):
            if release[first] == math.inf:
                # It can be nowhere.
                return math.inf
            total = release[first]
            for k in range(count):
                if release[k] >= release[first]:
                    total += min(w * here[k], (1.0 - w) * there[k])
            best = max(best, total)
    return best
