"""Solvers of free splits: one MIP backend on the whole program, and, the default, search and proof side by side."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks
from partita.engines.mip.solve import available, missing, solve_program
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.errors import SolverCrashError
from partita.ground.rounding import GAP, clearly_below
from partita.problems.throughput.free.bound import covering
from partita.problems.throughput.free.covers import split_of_sets
from partita.problems.throughput.free.every_set import EverySet
from partita.problems.throughput.free.narrow_covering import NarrowCovering
from partita.problems.throughput.free.pairs import PairSplits
from partita.problems.throughput.free.program import Assignment, part
from partita.problems.throughput.free.search import ROUNDS, FreeIncumbent, FreeInstance, FreeRounds, FreeSolver
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Solver, ThroughputOptions

#: Rounds of annealing before the proof starts, and between two polishings (whole turns of four).
FIRST_ROUNDS = 16
NEXT_ROUNDS = 4
#: Searches by pairs of devices that begin anew between these, each after so many rounds of annealing from chance, and
#: splits of each that are made worse in vain.
ANEW, ANEW_ROUNDS, ANEW_SHAKES = 2, 4, 24
#: Seconds for a first contiguous split.
SLICING_S = 1.0
#: Seconds of one polishing.
POLISH_S = 4.0
#: Variables (items × devices) up to which the whole program is tried before the charges.
SMALL = 150
#: Below this gap, where transfers matter little, charges by programs have nothing to add to what capacity counts.
SMALL_GAP = 0.015
#: How near to the most that charges can prove their bound is, when all sets are asked for and splits are made of some.
NEARNESS = (1e-2, 5e-5, 2e-6)


def prove(
    best: FreeIncumbent, backend: str, stop: Callable[[], bool], *, time_s: float, threads: int, seed: int
) -> None:
    """Run a backend on the whole program.

    Starts from the best split and shares what it finds. What it proves below the best value counts as it comes, and so
    does that there is no split at all.
    """
    value, label, low = best.snapshot()
    upper = value if label is not None else _worst(best.free)
    program = Assignment(best.free.arrays, low * (1 - 1e-6), upper * (1 + GAP), whole_cuts=backend == "cpsat")
    warm = None if label is None else program.point(label, upper)

    def better(objective: float) -> Floats | None:
        value, label, _ = best.snapshot()
        if label is None or not value < clearly_below(min(objective / program.scale, upper)):
            return None
        return program.point(label, value)

    def found(values: Floats, _: float) -> None:
        best.take(program.label(values), backend)

    def bounded(bound: float) -> None:
        best.prove(bound / program.scale, backend)

    calls = Callbacks(stop=stop, on_incumbent=found, on_bound=bounded, better=better if backend == "highs" else None)
    answer = solve_program(
        program.model, backend, time_limit_s=time_s, threads=threads, seed=seed, warm_start=warm, callbacks=calls
    )
    if answer.status is Status.INFEASIBLE:
        # Every split is within the limit of the program, a known one by the choice of it.
        best.refute(backend)
    else:
        bounded(answer.bound)


def _worst(free: FreeInstance) -> float:
    """No split of interest is worse: everything on its slowest device, every net cut."""
    arrays = free.arrays
    work = np.where(np.isfinite(arrays.work), arrays.work, 0.0)[:, arrays.kind_of]
    return float(work.max(axis=1).sum() + arrays.net_cost.max(axis=1, initial=0.0).sum()) or 1.0


def polish(
    best: FreeIncumbent, backend: str, stop: Callable[[], bool], rng: np.random.Generator, *, size: int, time_s: float
) -> bool:
    """Split the items of a few devices anew, the most loaded one among them; True if their largest load fell.

    ``best`` is only replaced by better splits; but a smaller largest load of the few is one.
    """
    value, label, _ = best.snapshot()
    if label is None:
        return False
    load = best.free.state(label).load
    top = int(np.argmax(load))
    others = [d for d in range(len(load)) if d != top]
    chosen = [top, *rng.choice(others, size=min(size - 1, len(others)), replace=False).tolist()]
    devices = np.array(sorted(chosen), dtype=np.int32)
    arrays, items = part(best.free.arrays, label, devices)
    program = Assignment(arrays, 0.0, value * (1 + GAP), outside=True, whole_cuts=backend == "cpsat")
    warm = program.point(np.searchsorted(devices, label[items]).astype(np.int32), value)

    def take(values: Floats, _: float) -> None:
        whole = label.copy()
        whole[items] = devices[program.label(values)[:-1]]
        best.take(whole, f"polish, {backend}")

    answer = solve_program(
        program.model,
        backend,
        time_limit_s=time_s,
        warm_start=warm,
        seed=int(rng.integers(1 << 30)),
        callbacks=Callbacks(stop=stop, on_incumbent=take),
    )
    return answer.objective < clearly_below(value * program.scale)


class FreeProgram(FreeSolver):
    """Annealing for a start, then one backend on the whole program; ``title`` is what people call the backend."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self.summary = f"{title} on the assignment program of free splits, warm-started by annealing"
        self.argument = f"{title} bounded the program of all assignments, lowered by its tolerances"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        """As all solvers of free splits, where the backend is installed."""
        return super().supports(problem, options) or missing(self.name)

    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: ThroughputOptions, monitor: Monitor) -> None:
        """A short annealing, then the backend; if it crashes once there is a split, the history says so."""
        FreeRounds(best, options.seed).run(over, rounds=6)
        if over():
            return
        try:
            prove(best, self.name, over, time_s=monitor.remaining_s, threads=options.threads, seed=options.seed)
        except SolverCrashError as error:
            if best.answer is None:
                raise
            monitor.report(note=f"{error}; the best split so far stands")


BACKENDS = (FreeProgram("highs", "HiGHS"), FreeProgram("cpsat", "CP-SAT"), FreeProgram("scip", "SCIP"))


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

    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: ThroughputOptions, monitor: Monitor) -> None:
        """Search and prove; without MIP packages a fixed number of rounds."""
        _FreeRun(best, over, options, monitor, self.contiguous).go()


@dataclass
class _FreeRun:
    """What the two threads share; ``backends`` are those that have not crashed."""

    best: FreeIncumbent
    over: Callable[[], bool]
    options: ThroughputOptions
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
        options = ThroughputOptions(contiguity="acyclic", seed=self.options.seed, threads=1)
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
        """Split pairs of devices anew while that finds better splits; then anneal and polish, and so on."""
        rng = np.random.default_rng(self.options.seed)
        pairs, seeds = PairSplits(self.best.free), (self.options.seed, self.options.seed + 1)
        walk, anew = (np.random.default_rng(seed) for seed in seeds)
        number, turn = FIRST_ROUNDS, 0
        while not stop():
            if pairs.run(self.best, walk, stop) or self._begin_anew(pairs, anew, turn, stop):
                continue
            self._anneal(7919 * (turn + 1), stop, number, NEXT_ROUNDS)
            number += NEXT_ROUNDS
            first = self.backends[:2]
            if first and self.best.answer is not None and not stop():
                with self._surviving():
                    backend = first[turn % len(first)]
                    polish(self.best, backend, stop, rng, size=2 + turn // 2 % 2, time_s=POLISH_S)
            turn += 1

    def _begin_anew(self, pairs: PairSplits, rng: np.random.Generator, turn: int, stop: Callable[[], bool]) -> bool:
        """Pairs of devices from a split that has nothing of the best one, some times; whether one becomes better."""
        for number in range(ANEW if pairs.order is not None else 0):
            fresh = FreeIncumbent(self.best.free)
            FreeRounds(fresh, self.options.seed + 104_729 * (ANEW * turn + number + 1)).run(stop, rounds=ANEW_ROUNDS)
            pairs.run(fresh, rng, stop, ANEW_SHAKES)
            if fresh.answer is not None and self.best.take(fresh.answer, "pairs of devices, begun anew"):
                return True
        return False

    def _prove(self) -> None:
        best = self.best
        if best.free.items * len(best.free.devices) <= SMALL or best.answer is None:
            time_s = self.monitor.remaining_s if best.answer is None else min(5.0, 0.3 * self.monitor.remaining_s)
            self._whole(("highs", "cpsat", "scip"), time_s)
        if not self.stop() and "highs" in self.backends and best.answer is not None:
            self._charge()
        # Transfers that cost next to nothing leave a number problem, which CP-SAT handles best.
        self._whole(("cpsat", "highs", "scip"), self.monitor.remaining_s)

    def _charge(self) -> None:
        """Raise the bound by charges, where they are cheap to find or have something to add to what capacity counts."""
        best, gap = self.best, self.monitor.gap
        small = gap is not None and gap < SMALL_GAP
        charges = covering(best, self.stop, self.options.seed)
        if small and not isinstance(charges, NarrowCovering):
            return
        with self._surviving():
            if isinstance(charges, NarrowCovering):
                self._charge_narrowly(charges)
            else:
                charges.run()
        best.counters |= {"charge_rounds": float(charges.rounds), "charge_programs": float(charges.programs)}

    def _charge_narrowly(self, charges: NarrowCovering) -> None:
        """Charges, splits of the sets they find, and all sets; a better split asks for charges near its value."""
        every = EverySet(charges, self.stop)
        for nearness in NEARNESS:
            charges.run(nearness)
            every.run()
            while split_of_sets(self.best, charges.columns, charges.centre, self.stop):
                charges.run(nearness)
        self.best.counters["listed_sets"] = float(every.listed)

    def _whole(self, order: Sequence[str], time_s: float) -> None:
        """The whole program by the first backend of an order, or by the next where that crashes."""
        for backend in order:
            if backend in self.backends and not self.stop():
                with self._surviving():
                    prove(self.best, backend, self.stop, time_s=time_s, threads=1, seed=self.options.seed)
                    return
