"""Free splits by one MIP backend on the assignment program, and the polishing of a few devices at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks
from partita.engines.mip.solve import missing, solve_program
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.errors import SolverCrashError
from partita.ground.rounding import GAP, clearly_below
from partita.problems.throughput.free.instance import FreeInstance
from partita.problems.throughput.free.program import Assignment, part
from partita.problems.throughput.free.search import FreeIncumbent, FreeRounds, FreeSolver, loads
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options


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
    load = loads(best.free, label)
    top = int(np.argmax(load))
    others = [d for d in range(len(load)) if d != top]
    chosen = [top, *rng.choice(others, size=min(size - 1, len(others)), replace=False).tolist()]
    few = part(best.free.arrays, label, np.array(sorted(chosen), dtype=np.int32))
    program = Assignment(few.arrays, 0.0, value * (1 + GAP), outside=True, whole_cuts=backend == "cpsat")
    place = {int(d): i for i, d in enumerate(few.devices)}
    inside = np.array([place[int(label[v])] for v in few.items], dtype=np.int32)
    warm = program.point(inside, value)

    def take(values: Floats, _: float) -> None:
        whole = label.copy()
        whole[few.items] = few.devices[program.label(values)[:-1]]
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

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """As all solvers of free splits, where the backend is installed."""
        return super().supports(problem, options) or missing(self.name)

    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: Options, monitor: Monitor) -> None:
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
