"""Annealing, branch and bound, and the default.

That is constructions and annealing for a mapping, bounds for a proof, and branch and bound where that is small.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from partita.engines.kernels.arrays import Ints
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.bisection import EASY_FORMS, bisection
from partita.problems.mapping.bounds.domains import Thresholds, thresholds_bound
from partita.problems.mapping.bounds.neighbours import Neighbours, assignment_bound, lowered
from partita.problems.mapping.exact import settle
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.local_search import PATIENCE, SHORT, MappingSearch
from partita.problems.mapping.orders import chains, consecutive
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem
from partita.problems.mapping.protocol import Options, Outcome, Solver

#: Replicas and devices up to which branch and bound may take all the time there is.
SMALL, _DEVICES = 8, 12
#: Replicas up to which it is tried, with so many devices tried for one target.
_MEDIUM, _CHECKS = 64, 13_000_000
#: Rounds in vain after which the first annealing makes way for the bounds.
_FIRST = 12


class MappingCombined(Solver):
    """Both orders that people take, constructions, annealing, the bounds, and the published search in both easy forms.

    So no answer that had the time for these is worse than any of them. Bounds and published search run beside the first
    annealing, in a thread of their own.
    """

    name = "combined"
    summary = "annealing from constructions and the published search, bounds, and branch and bound for small problems"
    argument = (
        "the fastest links of the devices, targets refuted by what links can carry, or every assignment under a "
        "target was tried"
    )

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Placement] = Incumbent()
        instance = MappingInstance(problem)
        search = MappingSearch(instance, best, options.seed, options.threads)

        def done() -> bool:
            return best.done

        def beside(high: float) -> list[Ints]:
            """The slower bound and the published search: they begin with the same whatever the annealing has found."""
            low = lowered(instance, assignment_bound(instance))
            thresholds_bound(instance, low, high, done, lambda value: best.prove(value, Thresholds.name))
            return [bisection(instance, form, best.stop) for form in EASY_FORMS if not done()]

        def work() -> None:
            if not instance.enough:
                best.refute("counting devices")
                return
            search.begin((consecutive(instance), chains(instance)))
            best.prove(lowered(instance, assignment_bound(instance)), Neighbours.name)
            if instance.count <= SMALL and instance.devices <= _DEVICES:
                search.run(patience=_FIRST)
                if not done():
                    settle(instance, best)
                return
            with ThreadPoolExecutor(1) as other:
                published = other.submit(beside, best.value)
                search.workers = max(1, options.threads - 1)
                search.run(patience=_FIRST)
                search.workers = options.threads
                for device in published.result():
                    instance.offer(best, device, "bisection")
            if instance.count <= _MEDIUM and not done():
                settle(instance, best, _CHECKS)
            if not done():
                search.run(patience=PATIENCE)

        run_in_background(best, monitor, work)
        monitor.statistics.counters["moves"] = search.trials
        bound = None if best.infeasible else best.bound
        return Outcome(best.answer, bound, infeasible=best.infeasible, proven_by=best.proven_by)


class MappingAnnealing(Solver):
    """See ``partita.problems.mapping.local_search``."""

    name = "swap-annealing"
    summary = "annealing by swaps of devices, from constructions that see traffic and bandwidth; proves nothing"
    argument = "there are fewer devices than replicas"

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Placement] = Incumbent()
        instance = MappingInstance(problem)
        search = MappingSearch(instance, best, options.seed, options.threads)

        def work() -> None:
            if not instance.enough:
                best.refute("counting devices")
                return
            search.begin()
            search.run(patience=min(PATIENCE, SHORT * instance.count))

        run_in_background(best, monitor, work)
        monitor.statistics.counters["moves"] = search.trials
        return Outcome(best.answer, infeasible=best.infeasible, proven_by=best.proven_by)


class MappingExact(Solver):
    """See ``partita.problems.mapping.exact``; it starts from the consecutive mapping."""

    name = "branch-and-bound"
    summary = "depth-first assignment under targets, symmetric mappings once; exact, for some ten replicas"
    argument = "every assignment under a target was tried, symmetric ones once"

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Placement] = Incumbent()
        instance = MappingInstance(problem)

        def work() -> None:
            if not instance.enough:
                best.refute("counting devices")
                return
            instance.offer(best, consecutive(instance), "construction")
            best.prove(lowered(instance, assignment_bound(instance)), Neighbours.name)
            settle(instance, best)

        run_in_background(best, monitor, work)
        bound = None if best.infeasible else best.bound
        return Outcome(best.answer, bound, infeasible=best.infeasible, proven_by=best.proven_by)


#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (MappingCombined(), MappingAnnealing(), MappingExact())
