"""Annealing, the integer program, and the default: annealing for a plan, bounds and an exact search for a proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.latency.annealing import SMALL_ROUNDS, PlacementSearch
from partita.problems.latency.bounds.chain import ChainBound, chain_bound, lowered
from partita.problems.latency.bounds.critical_path import CriticalPath, critical_path
from partita.problems.latency.exact import best_placement, exact_refusal, few, prove_exactly, tiny
from partita.problems.latency.options import Outcome, Solver
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.view import View
from partita.problems.outcome import searched

#: Rounds of annealing before bounds are asked.
FIRST_ROUNDS = 3


class LatencyCombined(Solver):
    """A few rounds of annealing, then the bounds, then more rounds; small problems are settled by trying everything.

    What the annealing finds, and each bound, is the same from the same seed; when they end, the search ends.
    """

    name = "combined"
    summary = "annealing, the chain bound, and an exact search for what they leave open"
    argument = (
        "every placement was tried, the best way through a chain of blocks was found, or CP-SAT bounded the "
        "program of all plans"
    )

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        incumbent: Incumbent[LatencyPlan] = Incumbent()
        view = View(problem)
        search = PlacementSearch(view, incumbent, options.seed)

        def done() -> bool:
            return incumbent.done

        def all_tried() -> bool:
            """Try every placement; whether that came to an end."""
            least = best_placement(
                view, incumbent.value, lambda value, plan: incumbent.offer(value, plan, "enumeration"), done
            )
            if least is not None:
                incumbent.prove(least, "enumeration")
            return least is not None

        def work() -> None:
            search.begin()
            if done():
                return
            incumbent.prove(lowered(view, critical_path(view)), CriticalPath.name)
            if tiny(view) and not done() and all_tried():
                return
            search.run(rounds=FIRST_ROUNDS)
            incumbent.prove(chain_bound(view, done), ChainBound.name)
            if few(view) and not done() and all_tried():
                return
            if not done():
                _settle(view, search, options, incumbent, monitor)

        outcome: Outcome = searched(incumbent, monitor, work)
        monitor.statistics.counters["trials"] = search.trials
        return outcome


class LatencyAnnealing(Solver):
    """See ``partita.problems.latency.annealing``."""

    name = "placement-annealing"
    summary = "annealing on placements from cuts of many orders; proves nothing"

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        incumbent: Incumbent[LatencyPlan] = Incumbent()
        search = PlacementSearch(View(problem), incumbent, options.seed)
        count = search.usual_rounds(monitor)

        def work() -> None:
            search.begin()
            search.run(rounds=count)

        plan = searched(incumbent, monitor, work).plan
        monitor.statistics.counters["trials"] = search.trials
        return Outcome(plan)


class LatencyProgram(Solver):
    """See ``partita.problems.latency.exact``; it starts from the best cut of some orders."""

    name = "latency-cpsat"
    summary = "integer program solved by CP-SAT, from the best cut of some orders; one piece per accelerator"
    argument = "CP-SAT bounded the program of all plans, whose numbers are rounded in favour of the plans"

    def supports(self, problem: LatencyProblem, options: SearchOptions) -> str | None:
        return exact_refusal(problem)

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        incumbent: Incumbent[LatencyPlan] = Incumbent()
        view = View(problem)

        def work() -> None:
            search = PlacementSearch(view, incumbent, options.seed)
            search.begin()
            if not incumbent.done:
                prove_exactly(view, incumbent, search.slot, seed=options.seed, threads=options.threads, monitor=monitor)

        return searched(incumbent, monitor, work)


#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (LatencyCombined(), LatencyAnnealing(), LatencyProgram())


def _settle(
    view: View, search: PlacementSearch, options: SearchOptions, incumbent: Incumbent[LatencyPlan], monitor: Monitor
) -> None:
    """Annealing for the rest of the time beside an exact search, if there is one for the problem."""
    count = search.usual_rounds(monitor)
    if view.problem.pieces > 1:
        _beside_one_piece(view, search, options, incumbent, count, monitor)
        return
    if exact_refusal(view.problem) is not None:
        search.run(rounds=count)
        return
    if options.threads < 2:
        search.run(rounds=min(count, SMALL_ROUNDS))
        if not incumbent.done:
            prove_exactly(view, incumbent, search.slot, seed=options.seed, threads=1, monitor=monitor)
        return
    start = search.slot.copy()
    try:
        with _beside(lambda: search.run(rounds=count), incumbent):
            prove_exactly(view, incumbent, start, seed=options.seed, threads=options.threads - 1, monitor=monitor)
            # It was solved, or the run is over.
            incumbent.end()
    finally:
        incumbent.end()


@contextmanager
def _beside(work: Callable[[], object], incumbent: Incumbent[LatencyPlan]) -> Iterator[None]:
    """Run ``work`` in a thread while the caller works on the same incumbent; what it raises leaves here."""
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(work)
        other.add_done_callback(lambda done: None if done.exception() is None else incumbent.end())
        try:
            yield
        except BaseException:
            incumbent.end()
            raise
    other.result()


def _beside_one_piece(
    view: View,
    search: PlacementSearch,
    options: SearchOptions,
    incumbent: Incumbent[LatencyPlan],
    count: float,
    monitor: Monitor,
) -> None:
    """Annealing with all pieces, and the same steps that a problem of one piece per accelerator would get.

    A plan with fewer pieces is a plan, so the answer is never worse than theirs: where rounds are counted they come
    first, otherwise both go on beside each other, or take turns.
    """
    own: Incumbent[LatencyPlan] = Incumbent()
    own.stop = incumbent.stop
    one = PlacementSearch(View(view.problem.replace(pieces=1)), own, options.seed)

    def anneal(rounds: float, seconds: float = math.inf) -> None:
        one.begin()
        one.run(lambda: incumbent.done, rounds=FIRST_ROUNDS + rounds, seconds=seconds)

    def take() -> bool:
        value, plan, _ = own.snapshot()
        if plan is not None and value < search.value:
            search.offer(view.slot(plan))
        return False

    if math.isfinite(count):
        anneal(count)
        take()
        search.run(rounds=count)
    elif options.threads > 1:
        with _beside(lambda: anneal(math.inf), incumbent):
            search.run(take)
        take()
    else:
        anneal(math.inf, max(monitor.remaining_s / 2, 1e-9))
        take()
        search.run()
