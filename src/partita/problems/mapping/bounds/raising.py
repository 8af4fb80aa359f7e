"""Bounds that raise a bound between what is known and the objective of a mapping, alone or beside a search."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.neighbours import assignment_bound
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance, listable
from partita.problems.mapping.problem import MappingProblem

#: Whether a bound is asked once, for what is easy at ``first``, or a ``second`` time after that.
Turn = Literal["once", "first", "second"]


class Meanwhile(NamedTuple):
    """How a bound talks to what runs beside it."""

    high: Callable[[], float]  #: The objective of a mapping, which is asked again for every target.
    stopping: Callable[[], bool]  #: Polled; true ends it.
    report: Callable[[float], object] = lambda value: None  #: Gets every better bound.
    #: Gets mappings that may be within a target, and the target.
    found: Callable[[Ints, float], object] = lambda device, target: None
    turn: Turn = "once"
    racing: Callable[[], bool] | None = None  #: Whether another processor has nothing to do.


class RaisingBound(BoundMethod[MappingProblem]):
    """A bound by bisection of targets."""

    in_turn = True  #: Whether columns of the mappings that it finds follow each other as rings should lead.

    @abstractmethod
    def raised(self, instance: MappingInstance, low: float, beside: Meanwhile) -> float:
        """The largest target that it refutes, between a bound and the objective of a mapping."""

    def bound(self, problem: MappingProblem, monitor: Monitor) -> Bound:
        instance = MappingInstance(problem)
        value = assignment_bound(instance)
        if math.isfinite(value):
            # Any mapping will do.
            first = instance.plan(np.arange(instance.count, dtype=np.int32))
            high = evaluate(problem, first).objective
            value = self.raised(instance, value, Meanwhile(lambda: high, lambda: monitor.stopping))
        return Bound(lowered(instance, value), self.name, self.scope, monitor.elapsed_s)


def without_columns(problem: MappingProblem) -> str | None:
    """Why a mapping has no columns, one replica of every stage each, that bounds can list; None where it has."""
    if not listable(problem):
        return "machines are counted, and too many"
    return "stages have different numbers of replicas" if len(set(problem.counts)) > 1 else None
