"""Which pieces of a throughput plan run without a break, what waits for what, and what each does for a microbatch.

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

A *node* is what a device does for a microbatch without a break: the forward or backward part of a stage, or a virtual
stage. Times are those of the evaluator: a tensor is paid once by the device that makes it and once by each other device
that reads it, and once by every group of devices whose boundary it crosses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import rustworkx

from partita.engines.kernels.arrays import Longs
from partita.ground.dags import directed_graph, ranks, topological_order
from partita.nouns.pipeline import Plan
from partita.problems.throughput.problem import ThroughputProblem


def stage_of_operators(problem: ThroughputProblem, plan: Plan) -> Longs:
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
        classes: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for place, op in enumerate(problem.operators):
            if op.colocation is not None:
                classes[op.colocation, op.backward].append(place)
        edges |= {
            (u, v) for (tie, late), row in classes.items() if late for v in row for u in classes.get((tie, False), ())
        }
    rank = ranks(rustworkx.topological_sort(directed_graph(len(problem.operators), sorted(edges))))
    return sorted(edges, key=lambda edge: (int(rank[edge[0]]), edge[1]))


def virtual_stages(device: Longs, devices: int, edges: list[tuple[int, int]]) -> Longs:
    """Virtual stage of every operator, 0, 1, … in an order along which every edge goes forward.

    ``device`` has the device of every operator, one of so many. ``edges`` are (earlier, later) pairs of a DAG, those
    with earlier tails in an order of the DAG first.
    """
    n, home = len(device), device.tolist()
    piece = np.zeros((n, devices), dtype=np.int64)
    piece[np.arange(n), device] = 1
    rows, changes = list(piece), [0] * n
    # Edges come sorted by tail, so a tail's values are final when its first edge is looked at.
    for u, v in edges:
        here, row = home[v], rows[v]
        new = home[u] != here
        own = max(row[here], rows[u][here] + new)
        np.maximum(row, rows[u], out=row)
        row[here] = own
        changes[v] = max(changes[v], changes[u] + new)
    stage = _numbered(list(zip(home, piece[np.arange(n), device].tolist(), strict=True)))
    graph = directed_graph(int(stage.max()) + 1, between(stage, edges))
    tangled = {s for members in rustworkx.strongly_connected_components(graph) if len(members) > 1 for s in members}
    stage = _numbered([(int(s), changes[v] if int(s) in tangled else -1) for v, s in enumerate(stage)])
    return ranks(topological_order(int(stage.max()) + 1, between(stage, edges)))[stage]


def _numbered(keys: list[tuple[int, int]]) -> Longs:
    """The number of every key, 0, 1, … in order of first appearance."""
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def between(stage: Longs, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Distinct edges between different stages, sorted."""
    return sorted({(int(stage[u]), int(stage[v])) for u, v in edges if stage[u] != stage[v]})


@dataclass
class Nodes:
    """What the nodes of a plan do for one microbatch."""

    #: Of every node, the stage that runs it, its work, and the time of its device's transfers before and after it.
    stage: list[int]
    time: list[float]
    incoming: list[float]
    outgoing: list[float]
    #: By (source node, target node) on different devices, what is handed over: sizes of tensors together.
    crossings: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    #: Distinct pairs of nodes of which the second waits for the first; (node, node).
    waits: set[tuple[int, int]] = field(default_factory=set)
    #: The time that a group's link takes: by node for what leaves its group, by (source node, group) for what enters.
    leaving: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    entering: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))


#: Which node of a stage pays for a tensor: (producer's place, stage, the stage's first node that reads it or makes it).
Payer = Callable[[int, int, int], int]


def nodes_of(
    problem: ThroughputProblem,
    plan: Plan,
    stage_of: Longs,
    node_of: Longs,
    edges: list[tuple[int, int]],
    *,
    count: int = 0,
    payer: Payer = lambda source, stage, node: node,
    again: dict[int, int] | None = None,
) -> Nodes:
    """Work and transfers of every node. Operators that a device cannot run take no time here.

    ``stage_of`` and ``node_of`` (operators,) say where each operator is; ``edges`` are those of ``edges_of``. Unless
    stated, there are as many nodes (``count``) as operators name; a tensor is paid for by the node that makes it and by
    the first node of each other stage that reads it (``payer``); and a stage recomputes in its first node with backward
    operators (``again``, by stage), without which its forward operators run twice in a row.
    """
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    kind_of = [problem.kind_named(stage.kind) for stage in plan.stages]
    column = {kind.name: place for place, kind in enumerate(problem.kinds)}
    count = count or int(node_of.max()) + 1
    stage = [-1] * count
    for home, node in zip(stage_of.tolist(), node_of.tolist(), strict=True):
        stage[node] = home
    found = Nodes(stage, [0.0] * count, [0.0] * count, [0.0] * count)
    if again is None:
        late = [place for place, op in enumerate(problem.operators) if op.backward]
        # The first node of a stage is the last one to be said.
        late.sort(key=lambda place: -int(node_of[place]))
        again = {int(stage_of[place]): int(node_of[place]) for place in late}
    for op, home, node in zip(problem.operators, stage_of.tolist(), node_of.tolist(), strict=True):
        time = op.times[column[kind_of[home].name]] or 0.0
        found.time[node] += time
        if problem.schedule.recompute and problem.training and not op.backward:
            found.time[again.get(home, node)] += time
    found.waits = set(between(node_of, edges))
    ordered = set(edges)
    groups = problem.stage_groups(plan)
    for tensor in problem.tensors:
        source = place_of[tensor.producer]
        home, maker = int(stage_of[source]), int(node_of[source])
        first: dict[int, int] = {}
        turned = False
        for place in (place_of[consumer] for consumer in tensor.consumers):
            reader, node = int(stage_of[place]), int(node_of[place])
            if reader != home:
                first[reader] = min(first.get(reader, node), node)
                turned = turned or (source, place) not in ordered
        if not first:
            continue
        found.outgoing[payer(source, home, maker)] += kind_of[home].transfer_time(tensor.size)
        for reader, node in first.items():
            found.incoming[payer(source, reader, node)] += kind_of[reader].transfer_time(tensor.size)
            found.crossings[(node, maker) if turned else (maker, node)].append(tensor.size)
        if problem.groups:
            _cross_groups(problem, found, groups, maker, first, tensor.size, turned)
    return found


def _cross_groups(
    problem: ThroughputProblem,
    found: Nodes,
    groups: list[int],
    maker: int,
    first: dict[int, int],
    size: float,
    turned: bool,
) -> None:
    """What links of groups do for a tensor: each group that it leaves or enters pays once."""
    home = groups[found.stage[maker]]
    nodes: dict[int, int] = {}
    for reader, node in first.items():
        if groups[reader] != home:
            nodes[groups[reader]] = min(nodes.get(groups[reader], node), node)
    own = problem.groups[home].transfer_time(size)
    if nodes and not turned:
        found.leaving[maker] += own
    for group, node in nodes.items():
        time = problem.groups[group].transfer_time(size)
        if turned:
            # The tensor stands for gradients that come back: from each reader's group, all of them for one payment.
            found.leaving[node] += time
            found.entering[node, home] += own / len(nodes)
        else:
            found.entering[maker, group] += time
