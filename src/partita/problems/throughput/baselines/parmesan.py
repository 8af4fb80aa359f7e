"""Parmesan's partitioner: hyper-operators, a dynamic program over them, and moves of single operators.

Source: Liu, Liu, Bentian and Young, "Parmesan: Efficient Partitioning and Mapping Flow for DNN Training on General
Device Topology", §IV and Appendix B.
"""

from __future__ import annotations

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan
from partita.problems.throughput.baselines.layers import plan_from_labels
from partita.problems.throughput.baselines.refinement import MOST_MOVES, Refinement
from partita.problems.throughput.contiguity import colocated
from partita.problems.throughput.contraction.clustering import hyper_operators
from partita.problems.throughput.contraction.instance import Instance, build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.problems.throughput.simulated import simulated_pipeline
from partita.problems.throughput.variants import refuse_variants

#: What a transfer may weigh against work; the simulator chooses.
ALPHAS = (0.01, 1.0, 100.0)

#: Fewest and most hyper-operators (Tables VII and VIII), and how many for each device between these.
FEWEST, MOST, EACH = 32, 96, 3


def hyper_operator_count(devices: int) -> int:
    """How many hyper-operators there are to be: many more than stages, many fewer than operators."""
    return min(MOST, max(FEWEST, EACH * devices))


class Parmesan(Solver):
    """Cluster, cut the clusters optimally, and refine; for each weight α, and the shortest simulated step is taken.

    The dynamic program over fronted subgraphs (equation 2, with as many replicas of every stage, equation 13) finds the
    best contiguous split of the hyper-operators: it is what ``exact`` finds for a problem in which each of them is a
    colocation class. The paper counts a transfer for each edge, the problem once for each device.
    """

    name = "parmesan"
    summary = "Parmesan's partitioner: hyper-operators, best cuts of these, refinement; ignores splits inside clusters"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        if options.contiguity != "acyclic":
            return f"{self.name} makes contiguous splits only; leave --contiguity free out"
        return refuse_variants(problem)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        instance = build_instance(problem, directed=True)
        best: tuple[float, Plan] | None = None
        for number, alpha in enumerate(ALPHAS):
            clock = monitor.part(monitor.remaining_s / (len(ALPHAS) - number))
            plan = clustered_plan(problem, instance, alpha, options, clock)
            if plan is None:
                continue
            worth = evaluate(problem, plan)
            run = simulated_pipeline(problem, plan, worth) if worth.feasible else None
            value = float("inf") if run is None else run.step.time
            if best is None or value < best[0]:
                best = value, plan
            if monitor.stopping:
                break
        return Outcome(plan=None if best is None else best[1])


def clustered_plan(
    problem: ThroughputProblem, instance: Instance, alpha: float, options: Options, monitor: Monitor
) -> Plan | None:
    """The refined plan of one weight; None if the clusters do not fit."""
    from partita.problems.throughput.solvers.exact import Exact

    cluster = hyper_operators(instance, hyper_operator_count(problem.device_count), alpha)
    plan = Exact().solve(colocated(problem, cluster[instance.group]), options, monitor).plan
    if plan is None or len(problem.present) > 1 or len(plan.stages) < 2:
        return plan
    return refined(problem, instance, plan, monitor)


def refined(problem: ThroughputProblem, instance: Instance, plan: Plan, monitor: Monitor) -> Plan:
    """The plan after the moves; before them if they made it worse or too large."""
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    label = np.zeros(instance.items, dtype=np.int32)
    label[instance.group] = [stage_of[op.id] for op in problem.operators]
    search = Refinement(instance, label)
    moves = 0
    while moves < MOST_MOVES and not monitor.stopping and search.move():
        moves += 1
    moved = plan_from_labels(problem, instance, search.label)
    worth = evaluate(problem, moved)
    return moved if worth.feasible and worth.objective < evaluate(problem, plan).objective else plan
