"""The default solver of free splits: search and proof side by side."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.errors import SolverCrashError
from partita.mip.solve import available
from partita.problems.throughput.free.annealing import ROUNDS, free_only, start
from partita.problems.throughput.free.covering import FreeCovering
from partita.problems.throughput.free.instance import FreeInstance
from partita.problems.throughput.free.mip import polish, prove
from partita.problems.throughput.free.search import FreeIncumbent, search
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.problems.throughput.search_run import outcome_of
from partita.run.monitor import Monitor

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


class Free:
    """Annealing and polishing in one thread; charges, then the assignment program, in another."""

    name = "free"
    summary = "annealing with polishing by MIP; proofs by charges and MIP side by side (the default for free splits)"

    def __init__(self, contiguous: Solver) -> None:
        """A solver of acyclic splits, which are free ones, too, gives a first one."""
        self.contiguous = contiguous

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Free splits whose memory does not depend on a stage's position."""
        return free_only(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Until the bound meets the value, or told to stop; without MIP packages for a fixed number of rounds."""
        free, best = start(problem, monitor)
        if not best.infeasible:
            _Run(free, best, options, monitor, self.contiguous).go()
            monitor.statistics.counters.update(best.counters)
        return outcome_of(best, free.plan)


class _Run:
    """What the two threads share."""

    def __init__(
        self, free: FreeInstance, best: FreeIncumbent, options: Options, monitor: Monitor, contiguous: Solver
    ) -> None:
        self.free = free
        self.contiguous = contiguous
        self.best = best
        self.options = options
        self.monitor = monitor
        self.proof_over = threading.Event()
        self.failed = False
        #: Those that have not crashed.
        self.backends = [name for name in ("highs", "cpsat", "scip") if available(name)]

    def stop(self) -> bool:
        return self.monitor.stopping or self.best.closed or self.failed

    def go(self) -> None:
        self._contiguous()
        trials = search(self.free, self.best, self.options.seed, self._soon(), last_round=FIRST_ROUNDS)
        self.best.counters["annealing_trials"] = float(trials)
        if self.stop():
            return
        if not self.backends:
            last = None if self.monitor.time_limit_s is not None else ROUNDS
            self.best.counters["annealing_trials"] += search(
                self.free, self.best, self.options.seed + 1, self.stop, first_round=FIRST_ROUNDS, last_round=last
            )
            return
        if self.options.threads == 1:
            # Without a second thread the search gets its share first.
            self._improve(self._until(0.3))
            self._prove()
            return
        with ThreadPoolExecutor(1) as pool:
            proof = pool.submit(self._prove)
            try:
                self._improve(self._over)
            except BaseException:
                self.failed = True
                raise
            proof.result()

    def _contiguous(self) -> None:
        """Start from a contiguous split, which is a free one too, where a short search finds any."""
        options = Options(contiguity="acyclic", seed=self.options.seed, threads=1)
        solver = self.contiguous
        if self.free.items < 2 or solver.supports(self.free.problem, options) is not None:
            return
        plan = solver.solve(self.free.problem, options, Monitor(min(SLICING_S, 0.1 * self.monitor.remaining_s))).plan
        if plan is not None:
            self.best.take(self.free.label(plan), "slicing")

    def _soon(self) -> Callable[[], bool]:
        """The first search gets at most an eighth of the time."""
        return self._until(0.125)

    def _until(self, share: float) -> Callable[[], bool]:
        limit = self.monitor.time_limit_s
        end = 8.0 if limit is None else self.monitor.elapsed_s + share * self.monitor.remaining_s

        def over() -> bool:
            return self.stop() or self.monitor.elapsed_s >= end

        return over

    def _over(self) -> bool:
        return self.stop() or self.proof_over.is_set()

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
            self.best.counters["annealing_trials"] += search(
                self.free,
                self.best,
                self.options.seed + 7919 * (turn + 1),
                stop,
                first_round=number,
                last_round=number + NEXT_ROUNDS,
            )
            number += NEXT_ROUNDS
            first = self.backends[:2]
            if first and self.best.answer is not None and not stop():
                with self._surviving():
                    backend = first[turn % len(first)]
                    polish(self.free, self.best, backend, stop, rng, size=2 + turn // 2 % 2, time_s=POLISH_S)
            turn += 1

    def _prove(self) -> None:
        try:
            self._proofs()
        finally:
            self.proof_over.set()

    def _proofs(self) -> None:
        best = self.best
        if self.free.items * len(self.free.devices) <= SMALL or best.answer is None:
            time_s = self.monitor.remaining_s if best.answer is None else min(5.0, 0.3 * self.monitor.remaining_s)
            self._whole(("highs", "cpsat", "scip"), time_s)
        if not self.stop() and "highs" in self.backends and best.answer is not None and not self._cheap():
            charge = FreeCovering(self.free, best, self.stop, self.options.seed)
            with self._surviving():
                charge.run()
            self.best.counters["charge_rounds"] = float(charge.rounds)
            self.best.counters["charge_programs"] = float(charge.programs)
        # Transfers that cost next to nothing leave a number problem, which CP-SAT handles best.
        self._whole(("cpsat", "highs", "scip"), self.monitor.remaining_s)

    def _whole(self, order: Sequence[str], time_s: float) -> None:
        """The whole program by the first backend of an order, or by the next where that crashes."""
        for backend in order:
            if backend in self.backends and not self.stop():
                with self._surviving():
                    prove(self.free, self.best, backend, self.stop, time_s=time_s, threads=1, seed=self.options.seed)
                    return

    def _cheap(self) -> bool:
        """Whether transfers matter so little that charges have nothing to add to what capacity counts."""
        gap = self.monitor.gap
        return gap is not None and gap < CHEAP_GAP
