"""The mapping problem, as the rest of the package sees it."""

from __future__ import annotations

import math

from partita.problems.attributes import lazy
from partita.problems.kind import Kind, SearchOptions, Solver
from partita.problems.mapping.evaluate import MappingEvaluation, evaluate
from partita.problems.mapping.options import MappingChanges, change
from partita.problems.mapping.problem import MappingProblem, Placement


class Mapping(Kind[MappingProblem, Placement, MappingEvaluation]):
    """Replicas of pipeline stages on the devices of a topology, one each: the slowest replica as fast as possible."""

    summary = "place stages and replicas on physical devices: the slowest replica, with its links, as fast as possible"
    problem = MappingProblem
    plan = Placement
    changes = MappingChanges
    #: The published search takes its time on large problems.
    baseline_time_s = 30.0
    solvers = lazy("partita.problems.mapping.solvers:DEFAULT_SOLVERS")
    usual_solver = "combined"
    bounds = lazy("partita.problems.mapping.bounds:DEFAULT_BOUNDS")
    baselines = lazy("partita.problems.mapping.baselines:DEFAULT_BASELINES")
    files = lazy("partita.problems.mapping.files:MappingPlanFiles")
    report = lazy("partita.problems.mapping.report:MappingReport")
    sweep = lazy("partita.problems.mapping.sweep:MappingSweep")
    timeline = lazy("partita.problems.mapping.timeline:MappingTimeLine")
    from_result = lazy("partita.problems.mapping.from_result:MappingFromResult")
    ahead = lazy("partita.problems.mapping.ahead:AHEAD")
    samples = lazy("partita.problems.mapping.samples:SAMPLES")
    change = staticmethod(change)
    evaluate = staticmethod(evaluate)
    certify = lazy("partita.problems.mapping.certifying:certify")

    def explain_infeasible(
        self,
        problem: MappingProblem,
        solver: Solver[MappingProblem, Placement, SearchOptions],
        options: SearchOptions,
        time_limit_s: float = math.inf,
    ) -> str:
        return problem.shortage() or "there are enough devices"


MAPPING = Mapping()
