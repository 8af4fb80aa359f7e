"""How long one sample takes through a throughput plan, and how deep the pipeline is."""

from __future__ import annotations

import msgspec
import numpy as np

from partita.nouns.pipeline import Plan
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.nodes import nodes_of
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.virtual_stages import between, edges_of, stage_of_operators, virtual_stages


class SampleLatency(msgspec.Struct, frozen=True, kw_only=True):
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


def sample_latency(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> SampleLatency:
    """Depth and latency of a plan of the problem, given what ``evaluate`` says of it, feasible or not.

    Operators that a device cannot run take no time here.
    """
    device, edges = stage_of_operators(problem, plan), edges_of(problem)
    piece = virtual_stages(device, len(plan.stages), edges)
    nodes = nodes_of(problem, plan, device, piece, edges)
    loads = np.array(nodes.time) + np.array(nodes.incoming) + np.array(nodes.outgoing)
    turns = np.empty(len(loads), dtype=np.int64)
    turns[piece] = np.array([len(stage.devices) for stage in plan.stages])[device]
    depths, rounds, finish = np.ones(len(loads), dtype=np.int64), turns.copy(), loads.copy()
    for u, v in between(piece, edges):
        depths[v] = max(depths[v], depths[u] + 1)
        rounds[v] = max(rounds[v], rounds[u] + turns[v])
        finish[v] = max(finish[v], finish[u] + loads[v])
    return SampleLatency(
        stages=sum(1 for stage in plan.stages if stage.operators),
        virtual_stages=len(loads),
        depth=int(depths.max()),
        period=evaluation.objective,
        latency=int(rounds.max()) * evaluation.objective,
        latency_alone=float(finish.max()),
    )
