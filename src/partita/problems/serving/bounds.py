"""The lower bounds of serving problems."""

from __future__ import annotations

import math

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.problem import ServingProblem
from partita.problems.serving.whole_fleets import least_whole
from partita.problems.serving.work import fitting, least_duration


class ConservedWork(BoundMethod[ServingProblem]):
    """See ``partita.problems.serving.work``; the least over all forms, each on as many devices as there are."""

    name = "work"
    summary = "work that tokens take in the best steps, and requests one by one; ignores queues and the cache's size"
    argument = "every token takes its share of the cheapest step, and no request is faster than it is alone"

    def supports(self, problem: ServingProblem) -> str | None:
        if problem.goal != "time":
            return "fleets of several forms are not bounded by it; use the bound fleets"
        return (
            "units that do prompts or decoding alone are not bounded by it; use a problem without split"
            if (problem.split)
            else None
        )

    def bound(self, problem: ServingProblem, monitor: Monitor) -> Bound:
        drawn = problem.workload.drawn()
        values = [
            least_duration(problem, form, problem.pool(form.kind).devices // form.devices, drawn)
            / len(drawn.prompt_tokens)
            for form in problem.units
            if fitting(problem, form) is None
        ]
        return Bound(min(values, default=math.inf), self.name, self.scope, monitor.elapsed_s)


class FleetCapacity(BoundMethod[ServingProblem]):
    """See ``partita.problems.serving.fleets``."""

    name = "fleets"
    summary = "capacities of units in the best mixes of steps, and the best fleet of them; ignores queues"
    argument = "no unit makes more in a second than its best mix of steps, and no fleet more than its units together"

    def bound(self, problem: ServingProblem, monitor: Monitor) -> Bound:
        fleets = FleetBound(problem, lambda: monitor.stopping)
        value = 0.0 if fleets.cut_short else fleets.least()
        if 0 < value < math.inf and not monitor.stopping:
            value = max(value, least_whole(fleets, lambda: monitor.stopping))
        requests = ConservedWork()
        if requests.supports(problem) is None:
            # Where few requests are under way, each of them takes its time.
            value = max(value, requests.bound(problem, monitor).value)
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


#: The visible list.
DEFAULT_BOUNDS: tuple[BoundMethod[ServingProblem], ...] = (ConservedWork(), FleetCapacity())
