"""The shortest path of a problem without what stands beside its separators (``partita.problems.makespan.thinning``).

What is proven of the thinned problem bounds the whole; what is left out is put back into its schedules.
"""

from __future__ import annotations

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.local_search import offer, search
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.solvers.path import ShortestPath
from partita.problems.makespan.thinning import Thinned

#: Rounds of annealing of the whole after that.
_ROUNDS = 4


def close_thinned(thinned: Thinned, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor) -> None:
    """Solve arcs of the thinned problem until its path is proven or the time is over, then anneal the whole."""
    inner: Incumbent[MakespanPlan] = Incumbent()
    # One button stops the whole run.
    inner.stop = best.stop
    best.counters |= {"left_out": len(thinned.left_out), "separators": len(thinned.chain.separators)}
    _, plan, _ = best.snapshot()
    if plan is not None:
        offer(thinned.instance, inner, thinned.without(plan), "left out")

    def better(value: float, plan: MakespanPlan, by: str) -> None:
        thinned.put_back(plan, best)

    def proven(value: float, by: str) -> None:
        best.prove(value, f"thinned {by}")

    inner.on_better, inner.on_bound = better, proven
    ShortestPath(thinned.chain, inner, options, monitor).close()
    plan = inner.snapshot()[1]
    if plan is None or best.done:
        return
    state = thinned.put_back(plan, best)
    search(thinned.whole, best, seed=options.seed + 1, rounds=_ROUNDS, states=[] if state is None else [state])
