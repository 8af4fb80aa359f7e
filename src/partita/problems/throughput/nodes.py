"""A plan's work and transfers by *node*: the forward and backward part of each stage, or its virtual stages.

A node is what a device does for a microbatch without a break. Times are those of the evaluator: a tensor is paid once
by the device that makes it and once by each other device that reads it, and once by every group of devices whose
boundary it crosses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from partita.nouns.pipeline import Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.virtual_stages import Ints


@dataclass
class Crossing:
    """What one node sends to another: sizes of tensors, and how many."""

    size: float = 0.0
    count: int = 0


@dataclass
class Nodes:
    """What the nodes of a plan do for one microbatch."""

    #: Of every node, the stage that runs it, its work, and the time of its device's transfers before and after it.
    stage: list[int]
    time: list[float]
    incoming: list[float]
    outgoing: list[float]
    #: By (source node, target node) on different devices, what is handed over.
    crossings: dict[tuple[int, int], Crossing] = field(default_factory=dict)
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
    stage_of: Ints,
    node_of: Ints,
    edges: list[tuple[int, int]],
    *,
    count: int | None = None,
    payer: Payer | None = None,
    again: dict[int, int] | None = None,
) -> Nodes:
    """Work and transfers of every node. Operators that a device cannot run take no time here.

    ``stage_of`` and ``node_of`` (operators,) say where each operator is; ``edges`` are those of ``edges_of``. Unless
    stated, there are as many nodes (``count``) as operators name; a tensor is paid for by the node that makes it and by
    the first node of each other stage that reads it (``payer``); and a stage recomputes in its first node with backward
    operators (``again``, by stage), without which its forward operators run twice in a row.
    """
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    index = {kind.name: place for place, kind in enumerate(problem.kinds)}
    kind_of = [index[stage.kind] for stage in plan.stages]
    count = int(node_of.max()) + 1 if count is None else count
    stage = [-1] * count
    for place, node in enumerate(node_of.tolist()):
        stage[node] = int(stage_of[place])
    found = Nodes(stage, [0.0] * count, [0.0] * count, [0.0] * count)
    if again is None:
        backward = [place for place, op in enumerate(problem.operators) if op.backward]
        # The first node of a stage is the last one to be said.
        last = sorted(backward, key=lambda place: -int(node_of[place]))
        again = {int(stage_of[place]): int(node_of[place]) for place in last}
    for place, op in enumerate(problem.operators):
        home, node = int(stage_of[place]), int(node_of[place])
        time = op.times[kind_of[home]] or 0.0
        found.time[node] += time
        if problem.schedule.recompute and problem.training and not op.backward:
            found.time[again.get(home, node)] += time
    found.waits = {(int(node_of[a]), int(node_of[b])) for a, b in edges if node_of[a] != node_of[b]}
    ordered = set(edges)
    groups = problem.stage_groups(plan)
    for tensor in problem.tensors:
        source = place_of[tensor.producer]
        home, maker = int(stage_of[source]), int(node_of[source])
        first: dict[int, int] = {}
        turned = False
        for consumer in tensor.consumers:
            place = place_of[consumer]
            reader, node = int(stage_of[place]), int(node_of[place])
            if reader != home:
                first[reader] = min(first.get(reader, node), node)
                turned = turned or (source, place) not in ordered
        if not first:
            continue
        pays = maker if payer is None else payer(source, home, maker)
        found.outgoing[pays] += problem.kinds[kind_of[home]].transfer_time(tensor.size)
        for reader, node in first.items():
            pays = node if payer is None else payer(source, reader, node)
            found.incoming[pays] += problem.kinds[kind_of[reader]].transfer_time(tensor.size)
            crossing = found.crossings.setdefault((node, maker) if turned else (maker, node), Crossing())
            crossing.size += tensor.size
            crossing.count += 1
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
