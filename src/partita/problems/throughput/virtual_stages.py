"""Which pieces of a throughput plan run without a break, and what waits for what.

A split need not be contiguous to run as a pipeline: the operators of a device are cut into pieces that can be put in an
order, the *virtual stages*, and the device takes turns with them. Its load is the same, and so is the time per sample
(Tarnawski et al., NeurIPS 2020, §5.2 and figure 3b).

Pieces (§5.2, and the evaluation of free splits in the published latency program): for a device that holds S,

    piece(v) = max(1, max over predecessors u of piece(u) + [u outside S])    for v in S,

and operators outside S hand on the largest piece of their predecessors, 0 at the start. Each device's pieces are then
in order, but pieces of two devices may still wait for each other. Where they do, they are cut once more, by the number
of device changes on the longest path to the operator: then every edge between devices goes to a larger number.

In training a device's forward and backward operators are pieces of their own where other devices come between, so a
row of k stages has 2k − 1 virtual stages. Problems without any edge from the forward to the backward part (the
published layer workloads, whose backward edges point the forward way) are read as what they mean: backward edges are
turned round, and a backward operator waits for the forward operators of its class.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import rustworkx

from partita.ground.dags import directed_graph, ranks, topological_order
from partita.nouns.pipeline import Plan
from partita.problems.throughput.problem import ThroughputProblem

Ints = npt.NDArray[np.int64]


def stage_of_operators(problem: ThroughputProblem, plan: Plan) -> Ints:
    """The stage of every operator, by place."""
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    return np.array([stage_of[op.id] for op in problem.operators], dtype=np.int64)


def edges_of(problem: ThroughputProblem) -> list[tuple[int, int]]:
    """What waits for what, as places in the problem, sorted by an order of the DAG (edges of earlier tails first)."""
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    backward = [op.backward for op in problem.operators]
    edges = {(place_of[t.producer], place_of[c]) for t in problem.tensors for c in t.consumers}
    if any(backward) and not any(backward[v] and not backward[u] for u, v in edges):
        edges = {(v, u) if backward[u] else (u, v) for u, v in edges}
        classes: dict[int, list[int]] = {}
        for place, op in enumerate(problem.operators):
            if op.colocation is not None and not op.backward:
                classes.setdefault(op.colocation, []).append(place)
        for place, op in enumerate(problem.operators):
            if op.backward and op.colocation is not None:
                edges |= {(u, place) for u in classes.get(op.colocation, [])}
    rank = ranks(rustworkx.topological_sort(directed_graph(len(problem.operators), sorted(edges))))
    return sorted(edges, key=lambda edge: (int(rank[edge[0]]), edge[1]))


def virtual_stages(device: Ints, devices: int, edges: list[tuple[int, int]]) -> Ints:
    """Virtual stage of every operator, 0, 1, … in an order along which every edge goes forward.

    ``device`` has the device of every operator, one of so many. ``edges`` are (earlier, later) pairs of a DAG, those
    with earlier tails in an order of the DAG first.
    """
    n = len(device)
    piece = np.zeros((n, devices), dtype=np.int64)
    changes = np.zeros(n, dtype=np.int64)
    everywhere = np.arange(devices)
    piece[np.arange(n), device] = 1
    # Edges come sorted by tail, so a tail's values are final when its first edge is looked at.
    for u, v in edges:
        np.maximum(piece[v], piece[u] + ((device[v] == everywhere) & (device[u] != everywhere)), out=piece[v])
        changes[v] = max(changes[v], changes[u] + (device[u] != device[v]))
    stage = _numbered(list(zip(device.tolist(), piece[np.arange(n), device].tolist(), strict=True)))
    graph = directed_graph(int(stage.max()) + 1, between(stage, edges))
    tangled = {s for members in rustworkx.strongly_connected_components(graph) if len(members) > 1 for s in members}
    stage = _numbered([(int(s), int(changes[v]) if int(s) in tangled else -1) for v, s in enumerate(stage)])
    return ranks(topological_order(int(stage.max()) + 1, between(stage, edges)))[stage]


def _numbered(keys: list[tuple[int, int]]) -> Ints:
    """The number of every key, 0, 1, … in order of first appearance."""
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def between(stage: Ints, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Distinct edges between different stages, sorted."""
    return sorted({(int(stage[u]), int(stage[v])) for u, v in edges if stage[u] != stage[v]})
