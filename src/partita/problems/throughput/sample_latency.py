"""How long one sample takes through a throughput plan, and how deep the pipeline is.

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

import msgspec
import numpy as np
import numpy.typing as npt
import rustworkx

from partita.dags import directed_graph, ranks, topological_order
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem

Ints = npt.NDArray[np.int64]


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it would run, in the problem's time unit.

    Attributes
    ----------
    stages
        Devices in use.
    virtual_stages
        Pieces of devices' sets that run without a break; as many as stages for an acyclic inference split.
    depth
        Most virtual stages that any sample passes one after the other.
    period
        Time per sample in steady state: the objective. A round of the pipeline takes that long.
    latency
        Time of one sample through the full pipeline: depth × period. All devices advance together, round by round; an
        asynchronous pipeline is no slower. A sample stays r rounds on a stage of r replicas.
    latency_alone
        Time of one sample when no other is in flight: the longest path of virtual stages, each with its own work and
        the transfers that its device pays for it, nothing overlapped. Links between groups of devices, weights that are
        fetched again and weights that are synchronised are left out.
    """

    stages: int
    virtual_stages: int
    depth: int
    period: float
    latency: float
    latency_alone: float


def pipeline_of(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Pipeline:
    """Depth and latency of a plan of the problem, given what ``evaluate`` says of it, feasible or not.

    Operators that a device cannot run take no time here.
    """
    device, edges = _device_of(problem, plan), _edges(problem)
    piece = virtual_stages(device, len(plan.stages), edges)
    loads = _piece_loads(problem, plan, device, piece)
    turns = np.empty(len(loads), dtype=np.int64)
    turns[piece] = np.array([len(stage.devices) for stage in plan.stages])[device]
    depths, rounds, finish = np.ones(len(loads), dtype=np.int64), turns.copy(), loads.copy()
    for u, v in _between(piece, edges):
        depths[v] = max(depths[v], depths[u] + 1)
        rounds[v] = max(rounds[v], rounds[u] + turns[v])
        finish[v] = max(finish[v], finish[u] + loads[v])
    return Pipeline(
        stages=sum(1 for stage in plan.stages if stage.operators),
        virtual_stages=len(loads),
        depth=int(depths.max()),
        period=evaluation.objective,
        latency=int(rounds.max()) * evaluation.objective,
        latency_alone=float(finish.max()),
    )


def _device_of(problem: ThroughputProblem, plan: Plan) -> Ints:
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    return np.array([stage_of[op.id] for op in problem.operators], dtype=np.int64)


def _edges(problem: ThroughputProblem) -> list[tuple[int, int]]:
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
    graph = directed_graph(int(stage.max()) + 1, _between(stage, edges))
    tangled = {s for members in rustworkx.strongly_connected_components(graph) if len(members) > 1 for s in members}
    stage = _numbered([(int(s), int(changes[v]) if int(s) in tangled else -1) for v, s in enumerate(stage)])
    return ranks(topological_order(int(stage.max()) + 1, _between(stage, edges)))[stage]


def _numbered(keys: list[tuple[int, int]]) -> Ints:
    """The number of every key, 0, 1, … in order of first appearance."""
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def _between(stage: Ints, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Distinct edges between different stages, sorted."""
    return sorted({(int(stage[u]), int(stage[v])) for u, v in edges if stage[u] != stage[v]})


def _piece_loads(problem: ThroughputProblem, plan: Plan, device: Ints, piece: Ints) -> npt.NDArray[np.float64]:
    """Load of every virtual stage; those of a device add up to its load.

    A tensor that leaves a device is paid by the piece that makes it, one that enters by the first piece that reads it.
    With recomputation the second forward run belongs to the device's first piece that has backward operators.
    """
    index = {kind.name: place for place, kind in enumerate(problem.kinds)}
    kind_of = [index[stage.kind] for stage in plan.stages]
    loads = np.zeros(int(piece.max()) + 1)
    recompute = problem.schedule.recompute and problem.training
    first_backward: dict[int, int] = {}
    for place, op in enumerate(problem.operators):
        if op.backward:
            d = int(device[place])
            first_backward[d] = min(first_backward.get(d, int(piece[place])), int(piece[place]))
    for place, op in enumerate(problem.operators):
        d = int(device[place])
        time = op.times[kind_of[d]] or 0.0
        loads[piece[place]] += time
        if recompute and not op.backward:
            loads[first_backward.get(d, int(piece[place]))] += time
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    for tensor in problem.tensors:
        source = place_of[tensor.producer]
        home = int(device[source])
        paying: dict[int, int] = {}
        for consumer in tensor.consumers:
            place = place_of[consumer]
            d = int(device[place])
            if d != home:
                paying[d] = min(paying.get(d, int(piece[place])), int(piece[place]))
        if paying:
            paying[home] = int(piece[source])
        for d, number in paying.items():
            loads[number] += problem.kinds[kind_of[d]].transfer_time(tensor.size)
    return loads
