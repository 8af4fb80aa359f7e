"""Mappings that people make, and the published search, in the form that its rule chooses and in either form."""

from __future__ import annotations

from collections.abc import Callable

from partita.engines.kernels.arrays import Ints
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.mapping.bisection import EasyForm, bisection, heavier_form
from partita.problems.mapping.instance import MappingInstance, MappingReplicas
from partita.problems.mapping.options import Outcome, Solver
from partita.problems.mapping.orders import chains, consecutive
from partita.problems.mapping.problem import MappingProblem, Placement

#: Makes a mapping of a problem with devices enough.
Make = Callable[[MappingReplicas, SearchOptions, Monitor], Ints]


class MappingBaseline(Solver):
    """A mapping that is made by ``devices``, where there are enough."""

    name = summary = ""

    def __init__(self, name: str, summary: str, devices: Make) -> None:
        self.name, self.summary, self.devices = name, summary, devices

    def solve(self, problem: MappingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        instance = MappingReplicas(problem)
        missing = problem.shortage()
        if missing is not None:
            return Outcome(None, infeasible=True, reason=missing)
        return Outcome(instance.plan(self.devices(instance, options, monitor)))


def _parmesan(form: EasyForm | None) -> Make:
    """See ``partita.problems.mapping.bisection``; in the form that the rule chooses unless one is given."""

    def devices(replicas: MappingReplicas, options: SearchOptions, monitor: Monitor) -> Ints:
        instance = MappingInstance(replicas.problem)
        chosen = heavier_form(instance) if form is None else form
        found: list[Ints] = []
        run: Incumbent[Placement] = Incumbent()
        run_in_background(
            run, monitor.part(), lambda: found.append(bisection(instance, chosen, run.stop, options.seed))
        )
        return found[0]

    return devices


DEFAULT_BASELINES: tuple[Solver, ...] = (
    # Parmesan's CS map and its p2p map.
    MappingBaseline(
        "consecutive",
        "stage after stage, its replicas on neighbouring devices (all-reduce first); ignores bandwidths",
        lambda instance, options, monitor: consecutive(instance),
    ),
    MappingBaseline(
        "point-to-point-first",
        "replica after replica, its stages on neighbouring devices; ignores bandwidths",
        lambda instance, options, monitor: chains(instance),
    ),
    MappingBaseline(
        "parmesan",
        "bisection with depth-first assignment, in the form of the larger traffic; ignores the other term",
        _parmesan(None),
    ),
    MappingBaseline(
        "parmesan-point-to-point",
        "bisection with depth-first assignment, in the form with transfers; ignores the all-reduce",
        _parmesan("point-to-point"),
    ),
    MappingBaseline(
        "parmesan-all-reduce",
        "bisection with depth-first assignment, in the form with the all-reduce; ignores transfers",
        _parmesan("all-reduce"),
    ),
)
