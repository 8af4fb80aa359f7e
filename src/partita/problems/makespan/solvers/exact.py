"""Proven optimal schedules: a shortest path over separators and their devices, its arcs solved as they are needed.

The makespan of a chain of blocks (``partita.problems.makespan.separators``) is the length of a path: one node for each
device of each separator, an arc as long as the best makespan of the block between two nodes. Arcs are known from below
(chains and work inside the block, then CP-SAT) and from above (annealing, then CP-SAT). The shortest path by the lower
ends bounds the problem; arcs on it are solved until its lower and upper lengths agree, and each only as far as it could
still be part of a better path. So most arcs are never solved.

Before that everything is tried, which is enough for small problems (``partita.problems.makespan.improving``).

Where operators that run beside nearly everything leave no separators, they are left out first: the path is a bound
then, and they are put back into its schedules (``partita.problems.makespan.thinning``).

Where memory binds, blocks are priced for what they hold, and a program puts them together so that all fits
(``partita.problems.makespan.solvers.priced``).

Where memory or classes couple the blocks so that no path that short keeps them, the path stays a bound, and one model
of the whole problem is left to find and prove the rest. Without separators that is all there is.
"""

from __future__ import annotations

from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds import DEFAULT_BOUNDS
from partita.problems.makespan.bounds.cases import Cases, cases_bound
from partita.problems.makespan.bounds.chain import Separators
from partita.problems.makespan.bounds.priced import binds
from partita.problems.makespan.improving import MakespanSearch, first_schedules, improve
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import WHOLE, ScheduleSearch, state_of
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.separators import chain_of
from partita.problems.makespan.solvers.neighbourhoods import Neighbourhoods
from partita.problems.makespan.solvers.path import ShortestPath
from partita.problems.makespan.solvers.priced import close_priced
from partita.problems.makespan.solvers.program import prove_by_program
from partita.problems.makespan.solvers.thinned import close_thinned
from partita.problems.makespan.thinning import not_thinned, thin

#: Rounds of annealing of the whole problem at the start: as many as this many operators leave one, within limits.
_OPERATORS, _FEWEST, _MOST = 2500, 4, 16
#: Most arcs of a chain that are looked at one by one, and most operators of a block, which is searched for each arc.
_ARCS, _BLOCK = 4_000, 100
#: Intervals of one model up to which CP-SAT is asked for all of it at once, soon, and at all: it needs memory for each.
_TINY, _SMALL, _LARGE = 600, 4_000, 60_000
#: Shares of the time that is left for the search for schedules before that, up to each of the latter.
_SOON, _LATER = 0.3, 0.7
#: Share of the time that is left for each bound, and for cases of devices once the path is done.
_BOUNDS, _CASES = 0.1, 0.25
#: Operators of a block above which leaving some out is tried, and the share of the time left for the path then.
_FINE, _PATH = 40, 0.7
#: Neighbourhoods after each run of windows, and runs without success after which the search for schedules ends; rounds
#: of annealing all operators before each.
_EACH, _PATIENCE, _ROUNDS = 6, 3, 6


class MakespanExact(MakespanSearch):
    """Exact where separators leave small blocks, or the problem is small; otherwise plan and bound so far."""

    name = "exact"
    summary = "plans with proof: separators cut the problem into blocks, CP-SAT solves those that matter"
    argument = (
        "blocks between separators were bounded one by one, by chains, work or CP-SAT, and added up along the "
        "shortest path, without operators that run beside nearly all others"
    )

    def supports(self, problem: MakespanProblem, options: MakespanOptions) -> str | None:
        return schedule_refusal()

    def search(
        self, instance: MakespanInstance, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
    ) -> None:
        rounds = min(_MOST, max(_FEWEST, _OPERATORS // instance.count))
        first_schedules(instance, best, seed=options.seed, rounds=rounds, exhaustive=True)
        if best.done:
            return
        chain = chain_of(instance)
        best.counters |= {"separators": len(chain.separators), "blocks": sum(bool(b.members) for b in chain.blocks)}
        largest = max(len(block.members) for block in chain.blocks)
        by_path = chain.helps and largest <= _BLOCK and len(chain.blocks) * instance.devices**2 <= _ARCS
        thinned = None if by_path and largest <= _FINE else thin(instance)
        if thinned is not None and len({*thinned.chain.alike}) * instance.devices**2 > _ARCS:
            thinned = None
        # The path bounds blocks itself, and cases take long.
        later = {Cases.name} | ({Separators.name} if by_path or thinned else set())
        for method in DEFAULT_BOUNDS:
            if not best.done and method.name not in later and not method.supports(instance.problem):
                best.prove(method.bound(instance.problem, monitor.share(_BOUNDS)).value, method.name)
        parts = thinned or (not_thinned(instance) if by_path else None)
        # Where memory couples the blocks, what it costs comes first; the path without it says little then.
        priced = (
            parts is not None
            and not best.done
            and binds(instance)
            and close_priced(parts, best, options, monitor.share(_PATH))
        )
        if thinned and not (priced or best.done):
            close_thinned(thinned, best, options, monitor.share(_PATH))
        if by_path and not (priced or best.done):
            ShortestPath(chain, best, options, monitor).close()
        if not best.done:
            best.prove(cases_bound(instance, best.bound, monitor.share(_CASES)), Cases.name)
        _rest(instance, best, options, monitor)


def _rest(
    instance: MakespanInstance, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
) -> None:
    """What is left without separators: schedules by windows and neighbourhoods, one model of all to prove them."""
    intervals = instance.count * instance.devices + len(instance.problem.flows) * instance.devices**2
    if intervals > _TINY and not best.done:
        modest = intervals <= _LARGE
        part = monitor.share(_SOON if intervals <= _SMALL else _LATER if modest else 1.0)

        def over() -> bool:
            return best.done or part.stopping

        failed, turn = 0, 0
        large = Neighbourhoods(instance, best, options)
        while failed < _PATIENCE and not over() and best.answer is not None:
            value, turn = best.value, turn + 1
            seed = options.seed + turn
            if instance.count <= WHOLE:
                # Paths have blocks one after the other; these rounds also change what several have together.
                ScheduleSearch(instance, best, seed, [state_of(instance, best.answer)]).run(over, rounds=_ROUNDS)
            improve(instance, best, seed=seed, threads=options.threads, stop=over, patience=_PATIENCE)
            if modest and not over():
                large.run(_EACH, over, lambda: part.remaining_s)
            failed = 0 if best.value < value else failed + 1
        if not modest and best.answer is not None:
            return
    if not best.done and intervals <= _LARGE:
        prove_by_program(instance, best, lambda: best.done, time_s=monitor.remaining_s, options=options)
