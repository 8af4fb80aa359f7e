"""The bound of the arc-flow program (``partita.problems.layer_placement.arc_flow``), as far as HiGHS gets with it."""

from __future__ import annotations

import math

from partita.engines.mip.solve import missing
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod
from partita.problems.layer_placement.arc_flow import ArcFlow
from partita.problems.layer_placement.bounds.area import most_by_area, seconds_per_token
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: Variables up to which the program has the links of every machine, and up to which it is made at all.
WITH_LINKS, LARGEST = 6_000, 60_000


class ArcFlowBound(BoundMethod[LayerPlacementProblem]):
    """See the module."""

    name = "arc flow"
    summary = "a mixed-integer program over positions between layers; ignores links where there are many"
    argument = "branch and bound over who holds which layers left no plan with a larger flow"

    def supports(self, problem: LayerPlacementProblem) -> str | None:
        if ArcFlow.size(LayerInstance(problem), blind=True) > LARGEST:
            return "its program would be too large for this problem; use another bound"
        return missing("highs")

    def bound(self, problem: LayerPlacementProblem, monitor: Monitor) -> Bound:
        instance = LayerInstance(problem)
        flow = most_by_area(instance)
        if flow > 0 and not monitor.stopping:
            flows = [flow]
            seconds = monitor.remaining_s
            small = ArcFlow.size(instance, blind=False) <= WITH_LINKS
            result = ArcFlow(instance, flow, blind=not small).solve(
                seconds, lambda: monitor.stopping, flows.append, lambda held: None
            )
            flow = 0.0 if math.isinf(result.bound) and result.bound > 0 else min(flows)
        return Bound(seconds_per_token(flow), self.name, self.scope, monitor.elapsed_s)
