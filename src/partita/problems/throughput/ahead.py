"""What a usual run compiles, in parts that can be compiled side by side: the search over downsets is half of it."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.closures import closure_sums
from partita.engines.kernels.simulator.events import run_tasks
from partita.engines.kernels.throughput.linear_orders import linearise
from partita.engines.kernels.throughput.plain_search import search_plain
from partita.engines.kernels.throughput.slicing import slice_order
from partita.engines.kernels.throughput.stage_loads import segment_loads
from partita.engines.search.monitor import Monitor
from partita.problems.kind import Ahead
from partita.problems.throughput.options import ThroughputOptions
from partita.problems.throughput.samples import SAMPLES
from partita.problems.throughput.solvers.contiguous_run import ContiguousRun
from partita.problems.throughput.solvers.plain import PlainSearcher, plain_view
from partita.problems.throughput.solvers.race import Decision
from partita.problems.throughput.solvers.view import PhaseLoads
from partita.simulator.engine import TaskGraph, run

_PLAIN = SAMPLES[0][0]
#: An objective that any split of it meets.
_ANY = 1e3


def _decide() -> None:
    limits = PhaseLoads(_ANY, _ANY, _ANY)
    Decision(PlainSearcher(plain_view(_PLAIN), _ANY), limits).run(1, np.zeros(1, dtype=np.int64))


def _slice() -> None:
    ContiguousRun(_PLAIN, ThroughputOptions()).search(Monitor(), proof=False)


def _simulate() -> None:
    one, none = np.zeros(1), np.zeros(0, dtype=np.int64)
    nothing = np.zeros(2, dtype=np.int64)
    run(TaskGraph(one, one, one, one, none, none, nothing, none, nothing, none, 0, np.zeros(0)))


AHEAD = (
    Ahead((search_plain,), _decide),
    Ahead((run_tasks,), _simulate),
    Ahead((slice_order, segment_loads, linearise, closure_sums), _slice),
)
