"""The mapping problem, as the rest of the package sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from partita.problems.attributes import lazy
from partita.problems.kind import Kind, SearchOptions, Solver
from partita.problems.mapping.evaluate import MappingEvaluation, evaluate
from partita.problems.mapping.options import MappingChanges, change
from partita.problems.mapping.problem import MappingProblem, Placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from partita.problems.kind import Ahead, Bounds, Certify, Solvers
    from partita.problems.mapping.files import MappingPlanFiles
    from partita.problems.mapping.from_result import MappingFromResult
    from partita.problems.mapping.report import MappingReport
    from partita.problems.mapping.sweep import MappingSweep
    from partita.problems.mapping.timeline import MappingTimeLine


class Mapping(Kind[MappingProblem, Placement, MappingEvaluation]):
    """Replicas of pipeline stages on the devices of a topology, one each: the slowest replica as fast as possible."""

    summary = "place stages and replicas on physical devices: the slowest replica, with its links, as fast as possible"
    problem = MappingProblem
    plan = Placement
    changes = MappingChanges
    #: The published search takes its time on large problems.
    baseline_time_s = 30.0
    solvers: lazy[Solvers[MappingProblem, Placement]] = lazy("partita.problems.mapping.solvers:DEFAULT_SOLVERS")
    usual_solver = "combined"
    bounds: lazy[Bounds[MappingProblem]] = lazy("partita.problems.mapping.bounds:DEFAULT_BOUNDS")
    baselines: lazy[Solvers[MappingProblem, Placement]] = lazy("partita.problems.mapping.baselines:DEFAULT_BASELINES")
    files: lazy[MappingPlanFiles] = lazy("partita.problems.mapping.files:MappingPlanFiles")
    report: lazy[MappingReport] = lazy("partita.problems.mapping.report:MappingReport")
    sweep: lazy[MappingSweep] = lazy("partita.problems.mapping.sweep:MappingSweep")
    timeline: lazy[MappingTimeLine] = lazy("partita.problems.mapping.timeline:MappingTimeLine")
    from_result: lazy[MappingFromResult] = lazy("partita.problems.mapping.from_result:MappingFromResult")
    ahead: lazy[Sequence[Ahead]] = lazy("partita.problems.mapping.ahead:AHEAD")
    samples: lazy[Sequence[Sequence[MappingProblem]]] = lazy("partita.problems.mapping.samples:SAMPLES")
    change = staticmethod(change)
    evaluate = staticmethod(evaluate)
    certify: lazy[Certify[MappingProblem]] = lazy("partita.problems.mapping.certifying:certify")

    def explain_infeasible(
        self,
        problem: MappingProblem,
        solver: Solver[MappingProblem, Placement, SearchOptions],
        options: SearchOptions,
        time_limit_s: float = math.inf,
    ) -> str:
        return problem.shortage() or "there are enough devices"


MAPPING = Mapping()
