"""The annealing alone: free splits without a proof beyond the simple bound."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.free.search import FreeIncumbent, FreeSearch, FreeSolver
from partita.problems.throughput.protocol import Options

#: Rounds per thread without a time limit, or where there are few items times devices.
ROUNDS = 40
SMALL = 150


class Annealing(FreeSolver):
    """Simulated annealing over all splits; see ``kernels.throughput.anneal_free`` and ``free.search``."""

    name = "annealing"
    summary = "simulated annealing over all splits; proves nothing beyond the capacity bound"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: Options, monitor: Monitor) -> None:
        """Anneal on every thread; small problems, and all without a time limit, get a fixed number of rounds."""
        small = best.free.items * len(best.free.devices) <= SMALL
        last = math.inf if monitor.time_limit_s is not None and not small else ROUNDS

        # Threads share their best split, so only one of them gives the same answer every time.
        threads = options.threads if math.isinf(last) else 1

        failed = threading.Event()

        def work(number: int) -> int:
            try:
                search = FreeSearch(best, options.seed + 1000 * number, number=4 * number)
                search.run(lambda: over() or failed.is_set(), rounds=last - 4 * number)
                return search.trials
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(threads) as pool:
            runs = [pool.submit(work, i) for i in range(threads)]
            best.counters["annealing_trials"] = float(sum(run.result() for run in runs))
