"""Moves of single items across the boundaries of stages, ranked as published.

Source: Parmesan, §IV.C. An item moves to a stage that an edge of it leads to, if all stages stay in a row and the stage
has room. Moves are ranked by

1. how much nearer the boundary comes to a *reconverging* item (a cut vertex of the graph with several edges in or out):
   the distance of the item that moves, less that of the nearest of its neighbours that stay behind;
2. the decrease of the transfers of all stages together;
3. the decrease of the largest work of a stage.

The paper says what decreases in 1 only as "the shortest path distance to the nearest reconverging operator"; the
boundary is read here, since an operator's own distance does not change. Only moves with a gain are made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import rustworkx

from partita.engines.kernels.arrays import Floats, Ints
from partita.problems.throughput.contraction.clustering import held_bytes
from partita.problems.throughput.contraction.instance import Instance

#: The published limit on the number of moves.
MOST_MOVES = 100


class Refinement:
    """Stages of items, and the moves between them.

    Parameters
    ----------
    instance
        A contracted problem.
    label
        (items,) stage of every item, along the order of the graph.
    """

    def __init__(self, instance: Instance, label: Ints) -> None:
        self.instance = instance
        self.label = np.array(label, dtype=np.int64)
        self.kind = int(np.flatnonzero(instance.count > 0)[0])
        work = instance.work[:, self.kind]
        self.time = np.where(np.isfinite(work), work, 0.0)
        self.stages = int(self.label.max()) + 1
        self.work: Floats = np.bincount(self.label, self.time, self.stages).astype(np.float64)
        self.distance = reconverging_distance(instance)
        self.limit = float(instance.memory[self.kind])

    def move(self) -> bool:
        """Make the best move; whether there was one."""
        best: tuple[tuple[float, float, float], int, int] | None = None
        for item, target in self._candidates():
            gain = self._gain(item, target)
            if gain > (0.0, 0.0, 0.0) and (best is None or gain > best[0]) and self._fits(item, target):
                best = gain, item, target
        if best is None:
            return False
        _, item, target = best
        self.work[self.label[item]] -= self.time[item]
        self.work[target] += self.time[item]
        self.label[item] = target
        return True

    def _rows(self, item: int) -> tuple[Ints, Ints]:
        i = self.instance
        before = i.graph.before(item)
        return before, i.graph.after(item)

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Items at a boundary with the stages that they may move to."""
        edges = self.instance.graph.edges
        crossing = edges[self.label[edges[:, 0]] != self.label[edges[:, 1]]]
        for item in np.unique(crossing).tolist():
            before, after = self._rows(item)
            low = int(self.label[before].max(initial=0))
            high = int(self.label[after].min(initial=self.stages - 1))
            own = int(self.label[item])
            for target in {int(s) for s in self.label[np.concatenate((before, after))]} - {own}:
                if low <= target <= high and np.isfinite(self.instance.work[item, self.kind]):
                    yield item, target

    def _gain(self, item: int, target: int) -> tuple[float, float, float]:
        own = int(self.label[item])
        before, after = self._rows(item)
        near = [int(v) for v in np.concatenate((before, after)) if self.label[v] == own]
        nearer = float(self.distance[item]) - min((float(self.distance[v]) for v in near), default=float("inf"))
        if not np.isfinite(nearer):
            nearer = 0.0
        saved = self._transfers(item) - self._transfers(item, target)
        largest = float(self.work.max())
        changed = self.work.copy()
        changed[own] -= self.time[item]
        changed[target] += self.time[item]
        return nearer, saved, largest - float(changed.max())

    def _transfers(self, item: int, place: int | None = None) -> float:
        """What all stages pay for the nets of an item, where it is or elsewhere."""
        i, total = self.instance, 0.0
        for net in i.net.holding(item).tolist():
            pins = i.net.members(net)
            at = {place if place is not None and v == item else int(self.label[v]) for v in pins.tolist()}
            total += float(i.net_cost[net, self.kind]) * len(at) if len(at) > 1 else 0.0
        return total

    def _fits(self, item: int, target: int) -> bool:
        if np.isinf(self.limit):
            return True
        members = [*np.flatnonzero(self.label == target).tolist(), item]
        # Of so many stages this one and the later ones hold microbatches.
        held = int(self.instance.in_flight[min(self.stages - target, len(self.instance.in_flight) - 1)])
        return held_bytes(self.instance, members, held) <= self.limit


def reconverging_distance(instance: Instance) -> Floats:
    """(items,) Edges to the nearest cut vertex with several edges in or out; infinite where there is none."""
    graph: rustworkx.PyGraph[None, None] = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from([None] * instance.items)
    graph.add_edges_from_no_data([(int(a), int(b)) for a, b in instance.graph.edges])
    into, out = np.diff(instance.graph.pred_ptr), np.diff(instance.graph.succ_ptr)
    found = np.full(instance.items, np.inf)
    row = [v for v in sorted(rustworkx.articulation_points(graph)) if into[v] > 1 or out[v] > 1]
    found[row], steps = 0.0, 0.0
    while row:
        steps += 1
        row = sorted({w for v in row for w in graph.neighbors(v) if np.isinf(found[w])})
        found[row] = steps
    return found
