"""Deployments that people make by hand."""

from __future__ import annotations

from collections.abc import Callable

from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.serving.options import Outcome, Solver
from partita.problems.serving.problem import ServingPlan, ServingProblem, ServingUnit, UnitGroup
from partita.problems.serving.work import fitting


class OneForm(Solver):
    """As many units as fit of the form that a rule prefers."""

    name = summary = ""

    def __init__(self, name: str, summary: str, rule: Callable[[ServingUnit], tuple[int, ...]]) -> None:
        self.name, self.summary, self.rule = name, summary, rule

    def solve(self, problem: ServingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        fit = [number for number, form in enumerate(problem.units) if fitting(problem, form) is None]
        if not fit:
            return Outcome(None, reason=fitting(problem, problem.units[-1]) or "no form fits")
        chosen = min(fit, key=lambda number: self.rule(problem.units[number]))
        count = problem.devices // problem.units[chosen].devices
        return Outcome(ServingPlan(units=(UnitGroup(unit=chosen, count=count),)))


DEFAULT_BASELINES: tuple[Solver, ...] = (
    OneForm(
        "smallest-units",
        "as many units as possible, each just large enough for the model; ignores latency",
        lambda form: (form.devices, form.layout.pipeline),
    ),
    OneForm(
        "widest-tensor",
        "the largest tensor-parallel degree; ignores what exchanges cost",
        lambda form: (-form.layout.tensor, form.devices),
    ),
)
