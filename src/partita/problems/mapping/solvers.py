"""Annealing, branch and bound, and the default.

That is constructions and annealing for a mapping, bounds for a proof, and branch and bound where that is small.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from partita.engines.kernels.arrays import Ints
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.mapping.bisection import EASY_FORMS, bisection
from partita.problems.mapping.bounds.columns import Columns
from partita.problems.mapping.bounds.domains import Thresholds
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.neighbours import Neighbours, assignment_bound
from partita.problems.mapping.bounds.raising import Meanwhile, RaisingBound, Turn
from partita.problems.mapping.bounds.rounds import Rounds
from partita.problems.mapping.counted_search import counted_search
from partita.problems.mapping.exact import QUICK, settle
from partita.problems.mapping.instance import MappingInstance, listable
from partita.problems.mapping.local_search import PATIENCE, SHORT, MappingSearch
from partita.problems.mapping.options import Outcome, Solver
from partita.problems.mapping.orders import chains, consecutive, toured
from partita.problems.mapping.problem import MappingProblem, Placement
from partita.problems.mapping.whole_columns import settle_columns
from partita.problems.outcome import searched

#: Replicas and devices up to which branch and bound may take all the time there is.
SMALL, _DEVICES = 8, 12
#: Replicas up to which it is tried, with so many devices tried for one target.
_MEDIUM, _CHECKS = 64, 13_000_000
#: Rounds in vain after which the first annealing makes way for the bounds.
_FIRST = 12
#: Stages up to which rounds of columns are asked before shares of columns: of more there are too many layouts.
_FEW_STAGES = 12


class MappingSolver(Solver):
    """A solver that searches in the background, where there are devices for all."""

    anneals = True  #: Whether its moves are counted.
    counts = True  #: Whether it takes more devices than have all their links listed, where machines are counted.

    @abstractmethod
    def search(self, search: MappingSearch, options: SearchOptions) -> None:
        """Offer and prove what can be found, until the incumbent of the search is done."""

    def solve(self, problem: MappingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        if self.counts and not listable(problem):
            return counted_search(problem, monitor)
        best: Incumbent[Placement] = Incumbent()
        search = MappingSearch(MappingInstance(problem), best, options.seed, options.threads)

        def work() -> None:
            if search.instance.enough:
                self.search(search, options)
            else:
                best.refute("counting devices")

        outcome: Outcome = searched(best, monitor, work)
        if self.anneals:
            monitor.statistics.counters["moves"] = search.trials
        return outcome


class MappingCombined(MappingSolver):
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

    def search(self, search: MappingSearch, options: SearchOptions) -> None:
        instance, best = search.instance, search.best

        def done() -> bool:
            return best.done

        annealed = threading.Event()

        def beside(high: float) -> list[Ints]:
            """The slower bounds and the published search: it begins with the same whatever the annealing has found."""
            in_order = (Rounds(), Columns()) if instance.stages <= _FEW_STAGES else (Columns(), Rounds())
            asked = [one for one in in_order if one.supports(instance.problem) is None]
            low = lowered(instance, assignment_bound(instance))
            # Mappings are made of what is counted, so that it is theirs that say which targets are asked.
            shares, knows = [high], dict.fromkeys(asked, low)

            def raised(one: RaisingBound, low: float, high: Callable[[], float], turn: Turn) -> float:
                def found(device: Ints, target: float) -> None:
                    shares.append(search.settle_shares(device if one.in_turn else toured(instance, device), target))

                # Nobody anneals in the meantime once the first rounds are over.
                idle = annealed.is_set if options.threads > 1 and turn == "second" else None
                report = partial(best.prove, by=one.name)
                return one.raised(instance, low, Meanwhile(high, done, report, found, turn, idle))

            # What is easy first: that often says more than anything else, and later targets begin there.
            domains = Thresholds()
            low = raised(domains, low, lambda: high, "first")
            for one in asked:
                low = knows[one] = raised(one, low, lambda: min(shares), "first")
            if done():
                return []
            low = raised(domains, low, lambda: high, "second")
            # Who knows more goes on first.
            for one in sorted(asked, key=lambda one: -knows[one]):
                low = raised(one, low, lambda: best.value, "second")
            return [bisection(instance, form, best.stop) for form in EASY_FORMS if not done()]

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
            # Islands that are filled anew need a good mapping to begin with.
            whole = search.cycle
            search.cycle = [one for one in whole if one.begin != "filled"]
            search.run(patience=_FIRST)
            if len(search.cycle) < len(whole):
                search.cycle = whole
                search.run(patience=_FIRST)
            annealed.set()
            search.workers = options.threads
            for device in published.result():
                instance.offer(best, device, "bisection")
        if instance.count <= _MEDIUM and not done():
            _settle_all(instance, best, _CHECKS)
        if not done():
            search.catch_up()
            search.run(patience=PATIENCE)


class MappingAnnealing(MappingSolver):
    """See ``partita.problems.mapping.local_search``."""

    name = "swap-annealing"
    summary = "annealing by swaps of devices, from constructions that see traffic and bandwidth; proves nothing"
    argument = "there are fewer devices than replicas"

    def search(self, search: MappingSearch, options: SearchOptions) -> None:
        search.begin()
        search.run(patience=min(PATIENCE, SHORT * search.instance.count))

    def solve(self, problem: MappingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        return dataclasses.replace(super().solve(problem, options, monitor), bound=None)


class MappingExact(MappingSolver):
    """See ``partita.problems.mapping.exact``; it starts from the consecutive mapping."""

    name = "branch-and-bound"
    summary = "depth-first assignment under targets, symmetric mappings once; exact, for some ten replicas"
    argument = "every assignment under a target was tried, symmetric ones once"
    anneals = counts = False

    def search(self, search: MappingSearch, options: SearchOptions) -> None:
        instance, best = search.instance, search.best
        instance.offer(best, consecutive(instance), "construction")
        best.prove(lowered(instance, assignment_bound(instance)), Neighbours.name)
        _settle_all(instance, best, math.inf)


def _settle_all(instance: MappingInstance, best: Incumbent[Placement], most: float) -> None:
    """Branch and bound while that is quick, then whole columns, and what branch and bound can do beside."""
    settle(instance, best, QUICK)
    settle_columns(instance, best)
    settle(instance, best, most)


#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (MappingCombined(), MappingAnnealing(), MappingExact())
