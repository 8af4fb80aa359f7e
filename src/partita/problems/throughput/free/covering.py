"""The covering bound for free splits: prices on items that no device can collect enough of.

Give every item a charge y_v >= 0. If, for every kind k, no set of load at most T carries more than π_k, then a split
with objective T needs Σ_v y_v <= Σ_k n_k·π_k. The best charges are the dual of the linear program that covers the items
by sets of load at most T (Dantzig and Wolfe's bound of the set partitioning program); they are found by generating
columns. Whatever the charges are, ``Representatives`` turns them into a bound.

Charges put on items what their transfers cost, so this sees communication that the linear relaxation of the assignment
program cannot see: there every item is spread evenly and nothing is cut.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.random import generator
from partita.engines.kernels.throughput.free_splits import empty_state, reset
from partita.engines.kernels.throughput.split_annealing import SplitMemory, anneal_free
from partita.engines.mip.model import Callbacks
from partita.engines.mip.solve import solve_program
from partita.ground.rounding import GAP, TOLERANCE, clearly_below
from partita.problems.throughput.free.columns import DeviceSets
from partita.problems.throughput.free.program import Representatives
from partita.problems.throughput.free.search import FreeIncumbent

#: Seconds for one exact program; what it has proven by then counts.
EXACT_S = 20.0
#: Seconds after which it ends once its charges are known to be too weak.
PATIENCE_S = 1.0
#: Trials of one search for a set, and searches per kind and round.
TRIALS = 100_000
SEARCHES = 4
#: Where between the bound and the best value the next target lies: near ones are refuted by fewer sets.
STEP = 0.5


class FreeCovering:
    """Finds charges and the bounds that follow, for a target that moves between the bound and the best value."""

    def __init__(self, best: FreeIncumbent, stop: Callable[[], bool], seed: int = 0) -> None:
        self.free, self.best, self.stop, self.seed = best.free, best, stop, seed
        self.rng = np.random.default_rng(seed)
        self.columns = DeviceSets(best, stop)
        self.rounds = 0
        self.programs = 0

    def run(self) -> None:
        """Raise ``best``'s bound until it meets the value, charges can prove no more, or the run is stopped."""
        work = np.min(self.free.arrays.work[:, self.columns.kinds], axis=1)
        charge = work / max(float(work.sum()), 1e-300)
        if not work.sum() > 0 or self.best.answer is None:
            return
        target = self.best.bound + STEP * (self.best.value - self.best.bound)
        failures = 0
        vertex: Floats | None = None
        while not self.stop():
            value, bound = self.best.value, self.best.bound
            if bound >= clearly_below(target):
                target = value * (1 - 2e-7) if value - bound < 0.01 * value else bound + STEP * (value - bound)
            for kind in self.columns.moving:
                self._search(kind, charge, target)
                if vertex is not None:
                    self._search(kind, vertex, target)
            found = None if self.stop() else self.columns.master(target)
            if found is None:
                return
            total, dual = found
            if total <= 1 + GAP:
                # Fractional covers reach the target: charges cannot refute it.
                failures += 1
                if target - bound < 1e-4 * value or failures > 6:
                    self._exact(dual, target)
                    return
                target = 0.5 * (bound + target)
                continue
            vertex = dual
            known = self.columns.weight(charge, target)
            # Charges that no known set carries have no size to compare.
            mixed = self.rounds > 0 and known > 1e-12 * float(charge.sum())
            charge = 0.5 * charge / known + 0.5 * dual if mixed else dual
            self.rounds += 1
            # The sets known so far may be all that matter, or the search may miss better ones: the program tells.
            if float(charge.sum()) > self.columns.weight(charge, target):
                before = len(self.columns.known)
                self._exact(charge, target)
                if len(self.columns.known) == before and self.best.bound < target * (1 - 1e-6):
                    # Too hard in the time it gets; nearer targets are easier.
                    target = self.best.bound + STEP * (target - self.best.bound)

    def _search(self, kind: int, charge: Floats, target: float) -> None:
        """Look for sets of load at most the target that carry much charge, by annealing two devices.

        The second device is made up: it pays for the charge it holds, scaled so that a set that carries ``wanted``
        times its share balances it with a load at the target.
        """
        arrays = self.free.arrays
        n = self.free.items
        own = self.columns.within(kind, target)
        carried = np.array([float(charge[items].sum()) for items in own])
        most = float(carried.max()) if own else float(charge.max())
        leaders = np.argsort(-carried, kind="stable")[: 4 * SEARCHES]
        for number in range(SEARCHES):
            if self.stop():
                return
            rest = float(charge.sum()) - most * (1.02 if number % 2 else 1.1)
            scale = target / max(rest, 1e-3 * float(charge.sum()))
            cost = arrays.net_cost[:, kind]
            pair = arrays._replace(
                work=np.ascontiguousarray(np.stack([arrays.work[:, kind], charge * scale], axis=1)),
                net_cost=np.ascontiguousarray(np.stack([cost, 0 * cost], axis=1)),
                kind_of=np.array([0, 1], dtype=np.int32),
                limit=np.array([arrays.limit[np.flatnonzero(arrays.kind_of == kind)[0]], np.inf]),
            )
            state, draws = empty_state(pair), generator(int(self.rng.integers(1 << 30)))
            if number % 3 == 2 or not own:
                state.label[:] = 1
                if not self.free.limited:
                    state.label[:] = self.rng.integers(0, 2, n)
            else:
                state.label[:] = ~own[int(leaders[int(self.rng.integers(len(leaders)))])]
            state.label[~np.isfinite(arrays.work[:, kind])] = 1
            memory = SplitMemory(self.free.limited, math.inf, 0.0)
            for exponent, cooling in ((4, Cooling(0.1, 1e-3, TRIALS)), (16, Cooling(0.01, 1e-5, TRIALS))):
                reset(pair, state)
                ref = min(target, float(state.load.max())) or 1.0
                anneal_free(pair, state, memory, ref, exponent, cooling, draws, self.best.stop)
                for label in (state.label.copy(), state.best.copy()):
                    state.label[:] = label
                    reset(pair, state)
                    if state.load[0] <= target:
                        self.columns.add(kind, label == 0, float(state.load[0]))

    def _exact(self, charge: Floats, target: float) -> None:
        """The bound of these charges; the sets found on the way become columns."""
        charge = np.where(charge > TOLERANCE * charge.max(), charge, 0.0)
        # Asking for loads up to the target only prunes far better than minimising up to the best value.
        program = Representatives(self.free.arrays, charge, self.best.bound * (1 - 1e-6), target)

        began = time.monotonic()
        lowest = [math.inf]

        def collect(values: Floats, objective: float) -> None:
            lowest[0] = min(lowest[0], objective / program.scale)
            for kind, variables in zip(program.kinds, program.items, strict=True):
                items = values[variables] > 0.5
                self.columns.add(kind, items, self.columns.load(kind, items))

        def enough() -> bool:
            # A set below the target shows these charges to be too weak; it will change them.
            return self.stop() or (lowest[0] < target and time.monotonic() - began > PATIENCE_S)

        def bounded(bound: float) -> None:
            # The program knows no loads above the target.
            self.best.prove(min(bound / program.scale, target), "covering-free")

        calls = Callbacks(stop=enough, on_incumbent=collect, on_bound=bounded)
        answer = solve_program(program.model, "highs", time_limit_s=EXACT_S, seed=self.seed, gap=2e-7, callbacks=calls)
        self.programs += 1
        bounded(answer.bound)
