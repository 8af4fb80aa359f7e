from __future__ import annotations

import importlib.util

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.ground.errors import MissingExtraError
from partita.problems.throughput.baselines.base import FreeSplits
from partita.problems.throughput.baselines.layers import accelerator_devices, first_kind_work, plan_from_labels
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome

#: Weights become integers with this total: fine enough for any balance, and far from the partitioner's 32 bits.
_TOTAL = 10**8


class Scotch(FreeSplits):
    """Partition the undirected graph: equal work per part, smallest sum of cut edges.

    A node is a colocation class with its work, an edge has the transfer times of the tensors between its ends, one
    payment per producer and edge. Source: Tarnawski et al., NeurIPS 2020, §6, who call Scotch; this calls METIS
    (Karypis and Kumar, 1998), which is maintained and installable, so the cut is another one. The total cut is not the
    largest load, and acyclicity is nobody's concern.
    """

    name = "scotch"
    summary = "graph partitioning (by METIS): even work, small total cut; ignores direction and memory"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        refusal = super().supports(problem, options)
        if refusal is None and importlib.util.find_spec("pymetis") is None:
            return str(MissingExtraError("pymetis", "baselines"))
        return refusal

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        import pymetis

        instance = build_instance(problem, free=True)
        devices = accelerator_devices(problem)
        if len(devices) == 1 or instance.items == 1:
            return Outcome(plan=plan_from_labels(problem, instance, np.zeros(instance.items, dtype=int), "free"))
        work = first_kind_work(problem, instance)
        pointer, ends, weights = _edges(problem, instance, devices[0][1])
        settings = pymetis.Options()
        settings.seed = options.seed % (1 << 31)
        _, part = pymetis.part_graph(
            len(devices),
            pymetis.CSRAdjacency(pointer, ends),
            vweights=_integers(work, 0),
            eweights=_integers(weights, 1),
            options=settings,
        )
        return Outcome(plan=plan_from_labels(problem, instance, np.array(part), "free"))


def _integers(values: Floats, least: int) -> list[int]:
    total = float(values.sum())
    scaled = np.rint(values * (_TOTAL / total)) if total > 0 else np.ones(len(values))
    return [max(least, int(value)) for value in scaled]


def _edges(problem: ThroughputProblem, instance: Instance, kind: int) -> tuple[list[int], list[int], Floats]:
    """Adjacency of the undirected graph with both directions of every edge, and the weight of each entry."""
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    device = problem.kinds[kind]
    between: list[dict[int, float]] = [{} for _ in range(instance.items)]
    for tensor in problem.tensors:
        u = int(instance.group[place_of[tensor.producer]])
        time = device.transfer_time(tensor.size)
        for v in sorted({int(instance.group[place_of[consumer]]) for consumer in tensor.consumers} - {u}):
            between[u][v] = between[u].get(v, 0.0) + time
            between[v][u] = between[v].get(u, 0.0) + time
    pointer = [0]
    for row in between:
        pointer.append(pointer[-1] + len(row))
    ends = [v for row in between for v in row]
    return pointer, ends, np.array([time for row in between for time in row.values()])
