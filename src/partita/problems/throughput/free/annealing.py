"""The annealing alone: free splits without a proof beyond the simple bound."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.problems.throughput.bounds.capacity import CapacityBound
from partita.problems.throughput.free.instance import FreeInstance, free_instance, refusal
from partita.problems.throughput.free.search import FreeIncumbent, search
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.problems.throughput.search_run import outcome_of
from partita.run.monitor import Monitor

#: Rounds per thread without a time limit, or where there are few items times devices.
ROUNDS = 40
SMALL = 150


def free_only(problem: ThroughputProblem, options: Options) -> str | None:
    """Why a solver of free splits does not take this; None if it does."""
    if options.contiguity != "free":
        return "it searches free splits; use contiguity free, or solver exact for contiguous ones"
    return refusal(problem)


def homeless(free: FreeInstance) -> bool:
    """Whether some item can run on no device, or fits on none by itself."""
    arrays = free.arrays
    if not len(arrays.kind_of):
        return True
    fits = (arrays.memory + arrays.workspace)[:, None] <= arrays.limit[None, :]
    return bool((~(np.isfinite(arrays.work[:, arrays.kind_of]) & fits)).all(axis=1).any())


def start(problem: ThroughputProblem, monitor: Monitor) -> tuple[FreeInstance, FreeIncumbent]:
    """The instance, and an incumbent without a split that knows the simple bound, or that there is plainly no split."""
    free = free_instance(problem)
    best = FreeIncumbent(free, monitor)
    simple = CapacityBound()
    best.prove(math.inf if homeless(free) else simple.bound(problem, Monitor()).value, simple.name)
    return free, best


class Annealing:
    """Simulated annealing over all splits; see ``kernels.annealing_free`` and ``free_search``."""

    name = "annealing"
    summary = "simulated annealing over all splits; proves nothing beyond the capacity bound"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Free splits whose memory does not depend on a stage's position."""
        return free_only(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Anneal on every thread until told to stop; small problems, and all without a time limit, get a
        fixed number of rounds."""
        free, best = start(problem, monitor)
        if best.infeasible:
            return outcome_of(best, free.plan)
        small = free.items * len(free.devices) <= SMALL
        last = None if monitor.time_limit_s is not None and not small else ROUNDS

        # Threads share their best split, so only one of them gives the same answer every time.
        threads = 1 if last is not None else options.threads

        failed = threading.Event()

        def stop() -> bool:
            return monitor.stopping or best.closed or failed.is_set()

        def work(number: int) -> int:
            try:
                seed = options.seed + 1000 * number
                return search(free, best, seed, stop, first_round=4 * number, last_round=last)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(threads) as pool:
            runs = [pool.submit(work, i) for i in range(threads)]
            monitor.statistics.counters["annealing_trials"] = float(sum(run.result() for run in runs))
        return outcome_of(best, free.plan)
