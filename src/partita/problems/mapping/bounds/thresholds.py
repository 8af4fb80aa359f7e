"""The largest target that is refuted: bisection over ``partita.problems.mapping.bounds.domains``."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod
from partita.problems.mapping.bounds.domains import Domains
from partita.problems.mapping.bounds.neighbours import assignment_bound, lowered
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.problem import MappingProblem

#: Width of the interval at which it ends, as a share of its upper end.
PRECISION = 1e-3


class Thresholds(BoundMethod[MappingProblem]):
    """See ``partita.problems.mapping.bounds.domains``."""

    name = "thresholds"
    summary = "targets refuted by what links can carry: domains, growth of balls, whole groups in islands"
    argument = "the target leaves some stage without devices, by links, growth of balls, patterns or islands"

    def bound(self, problem: MappingProblem, monitor: Monitor) -> Bound:
        instance = Instance(problem)
        value = assignment_bound(instance)
        if math.isfinite(value):
            # Any mapping will do.
            first = instance.plan(np.arange(instance.count, dtype=np.int32))
            high = evaluate(problem, first).objective
            value = thresholds_bound(instance, value, high, lambda: monitor.stopping)
        return Bound(lowered(instance, value), self.name, self.scope, monitor.elapsed_s)


def thresholds_bound(
    instance: Instance,
    low: float,
    high: float,
    stopping: Callable[[], bool],
    report: Callable[[float], object] = lambda value: None,
) -> float:
    """The largest refuted target between a bound and the objective of a plan; each is reported.

    Parameters
    ----------
    instance
        A problem with devices enough.
    low, high
        A proven bound, and the objective of a mapping.
    stopping
        Polled; true ends it with what is known.
    report
        Called with every better bound.
    """
    if stopping() or low >= high:
        return low
    domains = Domains(instance)
    while high - low > PRECISION * high and not stopping():
        target = (low + high) / 2
        if domains.refuted(target, stopping):
            low = target
            report(lowered(instance, low))
        else:
            high = target
    return low
