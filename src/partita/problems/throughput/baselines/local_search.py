from __future__ import annotations

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.base import FreeSplits
from partita.problems.throughput.baselines.layers import accelerator_devices, plan_from_labels
from partita.problems.throughput.free.instance import free_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome

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
        from partita.engines.kernels.throughput.free_splits import descend, empty_state

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
