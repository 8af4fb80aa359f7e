"""What the searches over orders and partitions share as solvers: the run in a worker thread, and its counters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.orders.block_problem import BlockProblem, make_blocks
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome
from partita.problems.throughput.search_run import run_search
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

__all__ = ["Search", "run_over_blocks"]

#: A search: it offers partitions (the block of every item) and returns its counters.
Search = Callable[[BlockProblem, Incumbent[Ints]], dict[str, float]]

#: Relative distance of value and bound at which nothing better can exist, up to rounding.
CLOSE = 1e-9


def run_over_blocks(problem: ThroughputProblem, monitor: Monitor, search: Search) -> Outcome:
    """Contract a problem and run a search on it; evaluations per second are added to its counters.

    The bound is the simple one: the largest item and the average work.

    Parameters
    ----------
    problem
        One that ``blocks_refusal`` has nothing against.
    monitor
        Clock and stop button.
    search
        Ends when the incumbent is ``done``.
    """
    incumbent: Incumbent[Ints] = Incumbent(closeness=CLOSE)
    made: list[BlockProblem] = []

    def work() -> None:
        started = time.perf_counter()
        blocks = make_blocks(problem)
        made.append(blocks)
        incumbent.counters |= {"items": blocks.items, "nets": len(blocks.arrays.cost)}
        incumbent.prove(blocks.low, "simple")
        if math.isinf(blocks.low):
            return
        counters = search(blocks, incumbent)
        seconds = max(time.perf_counter() - started, 1e-9)
        incumbent.counters |= counters | {f"{name}_per_s": count / seconds for name, count in counters.items()}

    return run_search(incumbent, monitor, work, lambda label: made[0].plan(problem, label))
