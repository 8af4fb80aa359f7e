"""The default solver of free splits: search and proof side by side."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from partita.engines.mip.solve import available
from partita.engines.search.monitor import Monitor
from partita.ground.errors import SolverCrashError
from partita.problems.throughput.free.covering import FreeCovering
from partita.problems.throughput.free.mip import polish, prove
from partita.problems.throughput.free.search import ROUNDS, FreeIncumbent, FreeRounds, FreeSolver
from partita.problems.throughput.protocol import Options, Solver

#: Rounds of annealing before the proof starts, and between two polishings (whole turns of four).
FIRST_ROUNDS = 16
NEXT_ROUNDS = 4
#: Seconds for a first contiguous split.
SLICING_S = 1.0
#: Seconds of one polishing.
POLISH_S = 4.0
#: Variables (items × devices) up to which the whole program is tried before the charges.
SMALL = 150
#: Below this gap charges are left to the program on numbers.
CHEAP_GAP = 0.015


class Free(FreeSolver):
    """Annealing and polishing in one thread; charges, then the assignment program, in another."""

    name = "free"
    summary = "annealing with polishing by MIP; proofs by charges and MIP side by side (the default for free splits)"
    argument = (
        "a program over all assignments was solved by a backend, or prices on operators are more than the devices "
        "can collect"
    )

    def __init__(self, contiguous: Solver) -> None:
        """A solver of acyclic splits, which are free ones, too, gives a first one."""
        self.contiguous = contiguous

    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: Options, monitor: Monitor) -> None:
        """Search and prove; without MIP packages a fixed number of rounds."""
        _FreeRun(best, over, options, monitor, self.contiguous).go()


@dataclass
class _FreeRun:
    """What the two threads share; ``backends`` are those that have not crashed."""

    best: FreeIncumbent
    over: Callable[[], bool]
    options: Options
    monitor: Monitor
    contiguous: Solver
    failed: bool = False
    backends: list[str] = field(
        default_factory=lambda: [name for name in ("highs", "cpsat", "scip") if available(name)]
    )

    def stop(self) -> bool:
        return self.over() or self.failed

    def _anneal(self, seed: int, stop: Callable[[], bool], first: int, rounds: float) -> None:
        """Some rounds of annealing."""
        search = FreeRounds(self.best, self.options.seed + seed, number=first)
        search.run(stop, rounds=rounds)
        counters = self.best.counters
        counters["annealing_trials"] = counters.get("annealing_trials", 0.0) + search.trials

    def go(self) -> None:
        self._contiguous()
        # The first search gets at most an eighth of the time.
        self._anneal(0, self._until(0.125), 0, FIRST_ROUNDS)
        if self.stop():
            return
        if not self.backends:
            rounds = ROUNDS - FIRST_ROUNDS if self.monitor.time_limit_s is None else math.inf
            self._anneal(1, self.stop, FIRST_ROUNDS, rounds)
            return
        if self.options.threads == 1:
            # Without a second thread the search gets its share first.
            self._improve(self._until(0.3))
            self._prove()
            return
        with ThreadPoolExecutor(1) as pool:
            proof = pool.submit(self._prove)
            try:
                self._improve(lambda: self.stop() or proof.done())
            except BaseException:
                self.failed = True
                raise
            proof.result()

    def _contiguous(self) -> None:
        """Start from a contiguous split, which is a free one too, where a short search finds any."""
        options = Options(contiguity="acyclic", seed=self.options.seed, threads=1)
        free, solver = self.best.free, self.contiguous
        if free.items < 2 or solver.supports(free.problem, options) is not None:
            return
        plan = solver.solve(free.problem, options, Monitor(min(SLICING_S, 0.1 * self.monitor.remaining_s))).plan
        if plan is not None:
            self.best.take(free.label(plan), "slicing")

    def _until(self, share: float) -> Callable[[], bool]:
        limit = self.monitor.time_limit_s
        end = 8.0 if limit is None else self.monitor.elapsed_s + share * self.monitor.remaining_s

        def over() -> bool:
            return self.stop() or self.monitor.elapsed_s >= end

        return over

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        """A part of the run that a backend takes with it if it crashes; the rest goes on without that backend."""
        try:
            yield
        except SolverCrashError as error:
            self.monitor.report(note=f"{error}; the run goes on without it")
            self.backends = [name for name in self.backends if name != error.backend]

    def _improve(self, stop: Callable[[], bool]) -> None:
        """Anneal and polish in turn."""
        rng = np.random.default_rng(self.options.seed)
        number, turn = FIRST_ROUNDS, 0
        while not stop():
            self._anneal(7919 * (turn + 1), stop, number, NEXT_ROUNDS)
            number += NEXT_ROUNDS
            first = self.backends[:2]
            if first and self.best.answer is not None and not stop():
                with self._surviving():
                    backend = first[turn % len(first)]
                    polish(self.best, backend, stop, rng, size=2 + turn // 2 % 2, time_s=POLISH_S)
            turn += 1

    def _prove(self) -> None:
        best = self.best
        if best.free.items * len(best.free.devices) <= SMALL or best.answer is None:
            time_s = self.monitor.remaining_s if best.answer is None else min(5.0, 0.3 * self.monitor.remaining_s)
            self._whole(("highs", "cpsat", "scip"), time_s)
        gap = self.monitor.gap
        # Where transfers matter so little, charges have nothing to add to what capacity counts.
        cheap = gap is not None and gap < CHEAP_GAP
        if not self.stop() and "highs" in self.backends and best.answer is not None and not cheap:
            charge = FreeCovering(best, self.stop, self.options.seed)
            with self._surviving():
                charge.run()
            best.counters |= {"charge_rounds": float(charge.rounds), "charge_programs": float(charge.programs)}
        # Transfers that cost next to nothing leave a number problem, which CP-SAT handles best.
        self._whole(("cpsat", "highs", "scip"), self.monitor.remaining_s)

    def _whole(self, order: Sequence[str], time_s: float) -> None:
        """The whole program by the first backend of an order, or by the next where that crashes."""
        for backend in order:
            if backend in self.backends and not self.stop():
                with self._surviving():
                    prove(self.best, backend, self.stop, time_s=time_s, threads=1, seed=self.options.seed)
                    return
