"""Baselines that know nothing of contiguity: local search, and graph partitioning.

Source of both: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), §6.
"""

from __future__ import annotations

import importlib.util

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.throughput.free_splits import descend, empty_state
from partita.engines.search.monitor import Monitor
from partita.ground.errors import MissingExtraError
from partita.problems.throughput.baselines.layers import accelerator_devices, first_kind_work, plan_from_labels
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.free.search import free_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, Solver, ThroughputOptions

RESTARTS = 10
#: Moves between two looks at the clock.
_SLICE = 50
#: A move counts as an improvement from here on, relative to the largest load.
_EPSILON = 1e-7
#: Weights become integers with this total: fine enough for any balance, and far from the partitioner's 32 bits.
_TOTAL = 10**8


class _FreeSplits(Solver):
    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        if options.contiguity != "free":
            return f"{self.name} gives free splits only; ask for them with --contiguity free"
        return None


class LocalSearch(_FreeSplits):
    """From a random split, the best reassignment of one operator until none helps; the best of ten restarts.

    Source: §6 ("local search"; a heuristic of Michiels, Aarts and Korst, 2007). Operators of a colocation class move
    together, accelerators only, and memory is not looked at.
    """

    name = "local-search"
    summary = "best single moves from random splits, 10 restarts; ignores memory, CPUs and contiguity"

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        free = free_instance(problem)
        kinds = [kind for _, kind in accelerator_devices(problem)]
        arrays = free.arrays._replace(
            work=np.ascontiguousarray(free.arrays.work[:, kinds]),
            net_cost=np.ascontiguousarray(free.arrays.net_cost[:, kinds]),
            kind_of=np.arange(len(kinds), dtype=np.int32),
        )
        allowed = [np.flatnonzero(np.isfinite(row)) for row in arrays.work]
        if not all(places.size for places in allowed):
            return Outcome(plan=None)
        random = np.random.default_rng(options.seed)
        state = empty_state(arrays)
        value, best = float("inf"), None
        for _ in range(RESTARTS):
            state.label[:] = [places[random.integers(places.size)] for places in allowed]
            while not descend(arrays, state, _EPSILON, _SLICE) and not monitor.stopping:
                pass
            if state.load.max() < value:
                value, best = float(state.load.max()), state.label.copy()
            if monitor.stopping:
                break
        return Outcome(plan=None if best is None else plan_from_labels(problem, free.instance, best, "free"))


class Scotch(_FreeSplits):
    """Partition the undirected graph: equal work per part, smallest sum of cut edges.

    A node is a colocation class with its work, an edge has the transfer times of the tensors between its ends, one
    payment per producer and edge. The source calls Scotch; this calls METIS (Karypis and Kumar, 1998), which is
    maintained and installable, so the cut is another one. The total cut is not the largest load, and acyclicity is
    nobody's concern.
    """

    name = "scotch"
    summary = "graph partitioning (by METIS): even work, small total cut; ignores direction and memory"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        refusal = super().supports(problem, options)
        if refusal is None and importlib.util.find_spec("pymetis") is None:
            return str(MissingExtraError("pymetis", "baselines"))
        return refusal

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        import pymetis

        instance = build_instance(problem, free=True)
        devices = accelerator_devices(problem)
        if len(devices) == 1 or instance.items == 1:
            return Outcome(plan=plan_from_labels(problem, instance, np.zeros(instance.items, dtype=int), "free"))
        work = first_kind_work(problem, instance)
        between = _edges(problem, instance, devices[0][1])
        settings = pymetis.Options()
        settings.seed = options.seed % (1 << 31)
        _, part = pymetis.part_graph(
            len(devices),
            pymetis.CSRAdjacency(
                np.cumsum([0, *map(len, between)]).tolist(), [v for neighbours in between for v in neighbours]
            ),
            vweights=_integers(work, 0),
            eweights=_integers(np.array([time for neighbours in between for time in neighbours.values()]), 1),
            options=settings,
        )
        return Outcome(plan=plan_from_labels(problem, instance, np.array(part), "free"))


def _integers(values: Floats, least: int) -> list[int]:
    total = float(values.sum())
    scaled = np.rint(values * (_TOTAL / total)) if total > 0 else np.ones(len(values))
    return [max(least, int(value)) for value in scaled]


def _edges(problem: ThroughputProblem, instance: Instance, kind: int) -> list[dict[int, float]]:
    """The undirected graph: by item, its neighbours with the weight of the edge."""
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    between: list[dict[int, float]] = [{} for _ in range(instance.items)]
    for tensor in problem.tensors:
        u = int(instance.group[place_of[tensor.producer]])
        time = problem.kinds[kind].transfer_time(tensor.size)
        for v in sorted({int(instance.group[place_of[consumer]]) for consumer in tensor.consumers} - {u}):
            between[u][v] = between[u].get(v, 0.0) + time
            between[v][u] = between[v].get(u, 0.0) + time
    return between
