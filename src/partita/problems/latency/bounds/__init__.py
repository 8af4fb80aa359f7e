"""The lower bounds of latency problems."""

from __future__ import annotations

from partita.problems.kind import BoundMethod
from partita.problems.latency.bounds.chain import ChainBound
from partita.problems.latency.bounds.critical_path import CriticalPath
from partita.problems.latency.problem import LatencyProblem

#: The visible list, cheapest first.
DEFAULT_BOUNDS: tuple[BoundMethod[LatencyProblem], ...] = (CriticalPath(), ChainBound())
