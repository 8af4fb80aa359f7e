"""Layer placements again: the worth of intervals by all cuts of the network, and the best one by all intervals.

No path is looked for: by the theorem of Ford and Fulkerson the largest flow is the least cut, and every cut puts each
machine on the side of the source, on that of the sink, or between them. All intervals of all machines at once are rows
of arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem

__all__ = ["best_flow", "flow_by_cuts", "judge"]

BEFORE, BETWEEN, BEHIND = 0, 1, 2


def _flows(problem: LayerPlacementProblem, first: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """(n,) Of intervals (n, M) the largest flow; a machine with first == behind holds nothing."""
    names = [machine.name for machine in problem.machines]
    number = {name: i for i, name in enumerate(names)}
    rows = len(first)
    node = np.zeros((len(names), rows))
    for i, machine in enumerate(problem.machines):
        for size, rate in machine.tokens_per_s.items():
            node[i][behind[:, i] - first[:, i] == size] = rate
        for end, there in ((machine.first, first[:, i] == 0), (machine.last, behind[:, i] == problem.layers)):
            for size in range(1, problem.layers + 1) if end is not None else ():
                at = there & (behind[:, i] - first[:, i] == size)
                node[i][at] = np.minimum(node[i][at], end.tokens_per_s.get(size, 0.0))
    arcs = []
    for link in problem.links:
        if link.source == "source" and link.target == "sink":
            continue
        if link.source == "source":
            j = number[link.target]
            open_ = (first[:, j] == 0) & (behind[:, j] > 0)
            arcs.append((None, j, open_ * link.tokens_per_s))
        elif link.target == "sink":
            i = number[link.source]
            open_ = (behind[:, i] == problem.layers) & (first[:, i] < problem.layers)
            arcs.append((i, None, open_ * link.tokens_per_s))
        else:
            i, j = number[link.source], number[link.target]
            held = (first[:, i] < behind[:, i]) & (first[:, j] < behind[:, j])
            if problem.overlap:
                open_ = held & (first[:, j] <= behind[:, i]) & (behind[:, i] < behind[:, j])
            else:
                open_ = held & (first[:, j] == behind[:, i])
            arcs.append((i, j, open_ * link.tokens_per_s))
    best = np.full(rows, math.inf)
    for sides in itertools.product((BEFORE, BETWEEN, BEHIND), repeat=len(names)):
        total = np.zeros(rows)
        for i, side in enumerate(sides):
            if side == BETWEEN:
                total += node[i]
        for i, j, width in arcs:
            leaves_source_side = i is None or sides[i] == BEFORE
            enters_sink_side = j is None or sides[j] == BEHIND
            if leaves_source_side and enters_sink_side:
                total += width
        best = np.minimum(best, total)
    return best


def flow_by_cuts(problem: LayerPlacementProblem, held: Sequence[tuple[int, int]]) -> float:
    """The largest flow of one interval for every machine."""
    pairs = np.array([held], dtype=np.int64).reshape(1, len(held), 2)
    return float(_flows(problem, pairs[:, :, 0], pairs[:, :, 1])[0])


def best_flow(problem: LayerPlacementProblem) -> float:
    """The largest flow of all placements; 0 where there is none."""
    choices = []
    for machine in problem.machines:
        sizes = [size for size in machine.tokens_per_s if size <= problem.layers]
        choices.append([(0, 0), *((a, a + k) for k in sizes for a in range(problem.layers - k + 1))])
    every = np.array(list(itertools.product(*choices)), dtype=np.int64).reshape(-1, len(choices), 2)
    return float(_flows(problem, every[:, :, 0], every[:, :, 1]).max())


def judge(problem: LayerPlacementProblem, plan: LayerPlacement) -> tuple[float, bool]:
    """Seconds per token of a plan, and whether its intervals and flows keep every rule."""
    held = {one.name: one.layers for one in plan.machines}
    intervals = [held.get(machine.name, (0, 0)) for machine in problem.machines]
    worth = flow_by_cuts(problem, intervals)
    known = {m.name: m.tokens_per_s for m in problem.machines}
    feasible = worth > 0 and all(b - a in known[name] or a == b for name, (a, b) in held.items())
    width = {(link.source, link.target): link.tokens_per_s for link in problem.links}
    if plan.flows:
        slack = 1e-9 * max(1.0, worth)
        for name in held:
            come = sum(f.tokens_per_s for f in plan.flows if f.target == name)
            go = sum(f.tokens_per_s for f in plan.flows if f.source == name)
            size = held[name][1] - held[name][0]
            feasible &= abs(come - go) <= slack and come <= known[name].get(size, 0.0) + slack
        feasible &= all(0 <= f.tokens_per_s <= width[f.source, f.target] + slack for f in plan.flows)
        feasible &= all(_follows(problem, held, f.source, f.target) for f in plan.flows)
        feasible &= abs(sum(f.tokens_per_s for f in plan.flows if f.target == "sink") - worth) <= slack
    return (1.0 / worth if worth > 0 else math.inf), bool(feasible)


def _follows(problem: LayerPlacementProblem, held: dict[str, tuple[int, int]], source: str, target: str) -> bool:
    end = 0 if source == "source" else held[source][1]
    if target == "sink":
        return end == problem.layers
    a, b = held[target]
    return a <= end < b if problem.overlap and source != "source" else a == end
