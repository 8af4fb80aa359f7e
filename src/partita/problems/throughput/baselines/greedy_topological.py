from __future__ import annotations

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.layers import accelerator_devices, first_kind_work, plan_from_labels
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver


class GreedyTopological(Solver):
    """Operators one after the other, the next device as soon as this one has its share of the total work.

    The order is topological with the file's order among equals; operators that must stay together go together. Work is
    the time on the first accelerator kind. The list-scheduling splits of hand-written placers do this.
    """

    name = "greedy-topological"
    summary = "operators in topological order up to total/k work per device; ignores memory, transfers"

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        instance = build_instance(problem)
        devices = accelerator_devices(problem)
        work = first_kind_work(problem, instance)
        share = float(work.sum()) / len(devices)
        label = np.zeros(instance.items, dtype=np.int64)
        device, used = 0, 0.0
        for item in range(instance.items):
            if used >= share and device < len(devices) - 1:
                device, used = device + 1, 0.0
            label[item] = device
            used += float(work[item])
        return Outcome(plan=plan_from_labels(problem, instance, label))
