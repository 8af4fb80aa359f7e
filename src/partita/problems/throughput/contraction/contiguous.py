"""The items that a search for acyclic splits works on: some optimum keeps the operators of each together."""

from __future__ import annotations

import numpy as np

from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.contraction.interchangeable import order_twins
from partita.problems.throughput.contraction.sole_readers import absorb
from partita.problems.throughput.problem import ThroughputProblem


def contract_plain(problem: ThroughputProblem) -> Instance:
    """Where a load is work and transfers, whatever variants the problem states."""
    return order_twins(absorb(build_instance(problem)))


def contract_variant(problem: ThroughputProblem) -> Instance:
    """For any variants: items that some optimum keeps together are one where a load is a single sum."""
    instance = build_instance(problem, directed=problem.communication == "duplex")
    if problem.communication != "sum" or problem.gpipe or problem.groups or problem.working_memory == "peak":
        return instance
    batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
    rates = np.array([kind.sync_time_per_byte for kind in problem.kinds])
    return absorb(instance, sync_time=(problem.max_replicas - 1) * rates / batch)
