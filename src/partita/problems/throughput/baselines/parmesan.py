"""Parmesan's partitioner: hyper-operators, a dynamic program over them, and moves of single operators.

Source: Liu, Liu, Bentian and Young, "Parmesan: Efficient Partitioning and Mapping Flow for DNN Training on General
Device Topology", §IV and Appendix B.

*Moves* (§IV.C). An item moves to a stage that an edge of it leads to, if all stages stay in a row and the stage has
room. Moves are ranked by

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
import numpy.typing as npt
import rustworkx

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan
from partita.problems.throughput.baselines.layers import plan_from_labels
from partita.problems.throughput.contiguity import colocated
from partita.problems.throughput.contraction.clustering import held_bytes, hyper_operators
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.nodes import stage_of_operators
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, Solver, ThroughputOptions
from partita.problems.throughput.simulated import simulated_pipeline
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.variants import refuse_variants

#: What a transfer may weigh against work; the simulator chooses.
ALPHAS = (0.01, 1.0, 100.0)

#: Fewest and most hyper-operators (Tables VII and VIII), and how many for each device between these: many more than
#: stages, many fewer than operators.
FEWEST, MOST, EACH = 32, 96, 3

#: The published limit on the number of moves.
MOST_MOVES = 100


class ParmesanSplit(Solver):
    """Cluster, cut the clusters optimally, and refine; for each weight α, and the shortest simulated step is taken.

    The dynamic program over fronted subgraphs (equation 2, with as many replicas of every stage, equation 13) finds the
    best contiguous split of the hyper-operators: it is what ``exact`` finds for a problem in which each of them is a
    colocation class. The paper counts a transfer for each edge, the problem once for each device.
    """

    name = "parmesan"
    summary = "Parmesan's partitioner: hyper-operators, best cuts of these, refinement; ignores splits inside clusters"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        if options.contiguity != "acyclic":
            return f"{self.name} makes contiguous splits only; leave --contiguity free out"
        return refuse_variants(problem)

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        instance = build_instance(problem, directed=True)
        best: tuple[float, Plan] | None = None
        for number, alpha in enumerate(ALPHAS):
            clock = monitor.part(monitor.remaining_s / (len(ALPHAS) - number))
            cluster = hyper_operators(instance, min(MOST, max(FEWEST, EACH * problem.device_count)), alpha)
            plan = Exact().solve(colocated(problem, cluster[instance.group]), options, clock).plan
            if plan is None:
                # The clusters do not fit.
                continue
            if len(problem.present) == 1 and len(plan.stages) > 1:
                plan = refined(problem, instance, plan, clock)
            worth = evaluate(problem, plan)
            run = simulated_pipeline(problem, plan, worth) if worth.feasible else None
            value = float("inf") if run is None else run.step.time
            if best is None or value < best[0]:
                best = value, plan
            if monitor.stopping:
                break
        return Outcome(plan=None if best is None else best[1])


def refined(problem: ThroughputProblem, instance: Instance, plan: Plan, monitor: Monitor) -> Plan:
    """The plan after the moves; before them if they made it worse or too large."""
    label = np.zeros(instance.items, dtype=np.int64)
    label[instance.group] = stage_of_operators(problem, plan)
    search = StageMoves(instance, label)
    moves = 0
    while moves < MOST_MOVES and not monitor.stopping and search.move():
        moves += 1
    moved = plan_from_labels(problem, instance, search.label)
    worth = evaluate(problem, moved)
    return moved if worth.feasible and worth.objective < evaluate(problem, plan).objective else plan


class StageMoves:
    """Stages of the items of a contracted problem, along the order of its graph (``label``), and moves between them."""

    def __init__(self, instance: Instance, label: npt.ArrayLike) -> None:
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
        best, item, target = (0.0, 0.0, 0.0), -1, -1
        for one, place in self._candidates():
            gain = self._gain(one, place)
            if gain > best and self._fits(one, place):
                best, item, target = gain, one, place
        if item < 0:
            return False
        self.work[self.label[item]] -= self.time[item]
        self.work[target] += self.time[item]
        self.label[item] = target
        return True

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Items at a boundary with the stages that they may move to."""
        edges = self.instance.graph.edges
        crossing = edges[self.label[edges[:, 0]] != self.label[edges[:, 1]]]
        for item in np.unique(crossing).tolist():
            before, after = self.label[self.instance.graph.before(item)], self.label[self.instance.graph.after(item)]
            low, high = int(before.max(initial=0)), int(after.min(initial=self.stages - 1))
            for target in {*before.tolist(), *after.tolist()} - {int(self.label[item])}:
                if low <= target <= high and np.isfinite(self.instance.work[item, self.kind]):
                    yield item, target

    def _gain(self, item: int, target: int) -> tuple[float, float, float]:
        own = int(self.label[item])
        around = np.concatenate((self.instance.graph.before(item), self.instance.graph.after(item)))
        near = self.distance[around[self.label[around] == own]].min(initial=np.inf)
        nearer = float(self.distance[item]) - float(near)
        saved = self._transfers(item) - self._transfers(item, target)
        changed = self.work.copy()
        changed[own] -= self.time[item]
        changed[target] += self.time[item]
        return nearer if np.isfinite(nearer) else 0.0, saved, float(self.work.max()) - float(changed.max())

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
