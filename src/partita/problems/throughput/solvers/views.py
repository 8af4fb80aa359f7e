"""Which view a problem is searched in."""

from __future__ import annotations

from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.plain_view import PlainView, plain_view
from partita.problems.throughput.solvers.variant_view import VariantView, variant_view
from partita.problems.throughput.solvers.view import SearchView
from partita.problems.throughput.variants import variants_of
from partita.problems.throughput.working_memory import PeakTable


def views_of(problem: ThroughputProblem) -> list[SearchView]:
    """The views of a problem in the direction that memory needs: one for each order of its groups."""
    if not variants_of(problem):
        return [plain_view(problem)]
    peaks = PeakTable(problem) if problem.working_memory == "peak" else None
    return [variant_view(problem, first=first, peaks=peaks) for first in _first_groups(problem)]


def turned(view: SearchView) -> SearchView:
    """The view of the same problem in the other direction."""
    back = not view.backwards
    if isinstance(view, PlainView):
        return plain_view(view.problem, backwards=back, instance=view.instance)
    assert isinstance(view, VariantView)
    problem, instance = view.problem, view.instance
    return variant_view(problem, backwards=back, first=view.first, instance=instance, peaks=view.peaks)


def _first_groups(problem: ThroughputProblem) -> list[int]:
    """Groups that a pipeline may start with; one if they are alike, or only one has devices."""
    if len(problem.groups) < 2:
        return [0]
    one, other = problem.groups
    if not sum(one.counts) or not sum(other.counts):
        return [0]
    fields = ("counts", "transfer_time_per_unit", "transfer_latency")
    return [0] if all(getattr(one, field) == getattr(other, field) for field in fields) else [0, 1]
