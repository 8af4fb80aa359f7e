from __future__ import annotations

import numpy as np

from partita.problems.throughput.baselines.base import FreeSplits
from partita.problems.throughput.baselines.layers import accelerator_devices, plan_from_labels
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.run.monitor import Monitor

RESTARTS = 10
#: Moves between two looks at the clock.
_SLICE = 50
#: A move counts as an improvement from here on, relative to the largest load.
_EPSILON = 1e-7


class LocalSearch(FreeSplits):
    """From a random split, the best reassignment of one operator until none helps; the best of ten restarts.

    Source: Tarnawski et al., NeurIPS 2020, §6 ("local search"; a heuristic of Michiels, Aarts and Korst, 2007).
    Operators of a colocation class move together, accelerators only, and memory is not looked at.
    """

    name = "local-search"
    summary = "best single moves from random splits, 10 restarts; ignores memory, CPUs and contiguity"

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        from partita.kernels.throughput.local_search import descend

        instance = build_instance(problem, free=True)
        devices = accelerator_devices(problem)
        kinds = [kind for _, kind in devices]
        work = np.ascontiguousarray(instance.work[:, kinds])
        cost = np.ascontiguousarray(instance.net_cost[:, kinds])
        allowed = [np.flatnonzero(np.isfinite(row)) for row in work]
        if not all(places.size for places in allowed):
            return Outcome(plan=None)
        random = np.random.default_rng(options.seed)
        pins = np.zeros(cost.shape, dtype=np.int32)
        loads = np.zeros(len(devices))
        stop = np.zeros(1, dtype=np.int64)
        value, best = float("inf"), None
        for _ in range(RESTARTS):
            label = np.array([places[random.integers(places.size)] for places in allowed], dtype=np.int32)
            done = False
            while not done:
                done = descend(
                    work,
                    instance.net_ptr,
                    instance.net_pins,
                    instance.item_net_ptr,
                    instance.item_nets,
                    cost,
                    label,
                    pins,
                    loads,
                    _EPSILON,
                    _SLICE,
                    stop,
                )
                if monitor.stopping:
                    break
            if loads.max() < value:
                value, best = float(loads.max()), label.copy()
            if monitor.stopping:
                break
        return Outcome(plan=None if best is None else plan_from_labels(problem, instance, best, "free"))
