"""The throughput problem, as the rest of the package sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan
from partita.problems.attributes import lazy
from partita.problems.kind import NEARLY_FULL, Kind, Proof, Solver
from partita.problems.throughput.options import ThroughputChanges, ThroughputOptions, change
from partita.problems.throughput.problem import ThroughputProblem

if TYPE_CHECKING:
    from partita.problems.throughput.evaluation import Evaluation


class Throughput(Kind[ThroughputProblem, Plan, "Evaluation"]):
    """Split a DAG of operators over devices so that the most loaded one is least loaded."""

    summary = "split a model into stages so that the slowest stage is as fast as possible"
    problem = ThroughputProblem
    plan = Plan
    options = ThroughputOptions
    changes = ThroughputChanges
    solvers = lazy("partita.problems.throughput.components:SOLVERS")
    bounds = lazy("partita.problems.throughput.components:BOUNDS")
    baselines = lazy("partita.problems.throughput.baselines:DEFAULT_BASELINES")
    model = lazy("partita.problems.throughput.from_model:ThroughputFromModel")
    files = lazy("partita.problems.throughput.files.plans:ThroughputPlanFiles")
    report = lazy("partita.problems.throughput.report:ThroughputReport")
    sweep = lazy("partita.problems.throughput.sweep:ThroughputSweep")
    timeline = lazy("partita.problems.throughput.timeline:ThroughputTimeLine")
    stages = lazy("partita.problems.throughput.timeline:ThroughputStages")
    replicas = lazy("partita.problems.throughput.replicas:ThroughputReplicas")
    generators = lazy("partita.problems.throughput.generators.settings:GENERATORS")
    ahead = lazy("partita.problems.throughput.ahead:AHEAD")
    samples = lazy("partita.problems.throughput.samples:SAMPLES")
    change = staticmethod(change)
    evaluate = lazy("partita.problems.throughput.evaluate:evaluate")
    certify = lazy("partita.problems.throughput.certifying:certify")
    complete = lazy("partita.problems.throughput.working_memory:ordered_plan")

    def default_solver(self, problem: ThroughputProblem, options: ThroughputOptions) -> str:
        if options.contiguity == "free":
            return "free"
        return "exact" if problem.row is None else "row"

    def explain_infeasible(
        self,
        problem: ThroughputProblem,
        solver: Solver[ThroughputProblem, Plan, ThroughputOptions],
        options: ThroughputOptions,
        time_limit_s: float = math.inf,
    ) -> str:
        from partita.problems.throughput.explain import EXPLAIN_S, explain_infeasible

        def probe(changed: ThroughputProblem, time_s: float) -> Plan | bool | None:
            outcome = solver.solve(changed, options, Monitor(max(0.05, time_s), target=float("inf")))
            if outcome.plan is not None and self.evaluate(changed, outcome.plan).feasible:
                return outcome.plan
            return False if outcome.infeasible else None

        return explain_infeasible(problem, probe, min(EXPLAIN_S, time_limit_s))

    def prove(self, problem: ThroughputProblem, monitor: Monitor) -> Proof | None:
        """By all bounds together, which tell each other what they find."""
        from partita.problems.throughput.proving import prove

        return prove(problem, self.solver("exact"), monitor)

    def unlimited(self, problem: ThroughputProblem, evaluation: Evaluation) -> ThroughputProblem | None:
        """Without memory limits, if a stage's memory is nearly full."""
        memories = [stage.memory for stage in evaluation.stages]
        if all(memory.limit is None or memory.total < NEARLY_FULL * memory.limit for memory in memories):
            return None
        return problem.replace(memory_bytes=float("inf"))


THROUGHPUT = Throughput()
