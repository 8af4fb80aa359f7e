"""Every form, as many units of it as there may be, simulated in the order of what it could be worth at best."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.problems.kind import SearchOptions
from partita.problems.outcome import searched
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.no_fleet import why_no_fleet
from partita.problems.serving.options import Outcome, Solver
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup
from partita.problems.serving.search import Fleets
from partita.problems.serving.work import fitting, least_duration


def deployments(problem: ServingProblem) -> Iterator[tuple[float, ServingPlan]]:
    """Every deployment whose units can serve the workload, with what it takes at least; 0 where that is not known."""
    drawn = problem.workload.drawn()
    fit = [number for number, form in enumerate(problem.units) if fitting(problem, form) is None]
    for number in fit:
        form = problem.units[number]
        for count in range(1, problem.pool(form.kind).devices // form.devices + 1):
            least = least_duration(problem, form, count, drawn) / len(drawn.prompt_tokens)
            yield least, ServingPlan(units=(UnitGroup(unit=number, count=count),))
    for first, second in itertools.product(fit, fit) if problem.split else ():
        sizes = problem.units[first].devices, problem.units[second].devices
        for prompts in range(1, problem.devices // sizes[0] + 1):
            for decoders in range(1, (problem.devices - prompts * sizes[0]) // sizes[1] + 1):
                yield (
                    0.0,
                    ServingPlan(
                        units=(
                            UnitGroup(unit=first, count=prompts, role="prefill"),
                            UnitGroup(unit=second, count=decoders, role="decode"),
                        )
                    ),
                )


class EveryDeployment(Solver):
    """Those that a bound rules out are not simulated."""

    name = "every-deployment"
    summary = "every form and number of units, simulated in the order of their bounds"
    argument = "every other deployment was simulated, or takes longer even without queues"

    def supports(self, problem: ServingProblem, options: SearchOptions) -> str | None:
        return None if problem.goal == "time" else "a rate or the cheapest devices are looked for; use fleets"

    def solve(self, problem: ServingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        best: Incumbent[ServingPlan] = Incumbent()

        def work() -> None:
            # Of equal bounds the larger deployment first: it is mostly the better one.
            found = sorted(deployments(problem), key=lambda one: (one[0], -sum(g.count for g in one[1].units)))
            if not found:
                best.refute(self.name)
            simulated = 0
            for least, plan in found:
                # All that follow take at least as long, whatever is found of them.
                if least > 0:
                    best.prove(min(least, best.value), "work")
                if best.done:
                    break
                worth = evaluate(problem, plan)
                simulated += 1
                if worth.feasible:
                    best.offer(worth.objective, plan, self.name)
            else:
                if best.answer is None:
                    best.refute(self.name)
                else:
                    best.prove(best.value, self.name)
            best.counters["simulated"] = simulated

        return searched(best, monitor, work)


#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (EveryDeployment(), Fleets())


def why_none(problem: ServingProblem) -> str:
    """Why no deployment is feasible, and what would be enough."""
    reasons = [fitting(problem, form) for form in problem.units]
    if all(reasons):
        return f"no form fits: {reasons[-1]}"
    if problem.goal != "time":
        return why_no_fleet(problem)
    worths = []
    for _, plan in deployments(problem):
        try:
            worths.append(evaluate(problem, plan))
        except InputError:
            continue
    nearest = min(worths, key=lambda worth: worth.objective, default=None)
    missed = nearest.violations[0] if nearest is not None and nearest.violations else "no deployment keeps every limit"
    return f"no deployment keeps the targets; of the fastest, {missed}; more devices or a longer limit would be needed"
