"""The search for free splits, a portfolio of annealing rounds that share their best split; and what solvers share."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints, as_arrays
from partita.engines.kernels.throughput.free_splits import FreeArrays, FreeState, empty_state, reset
from partita.engines.kernels.throughput.split_annealing import SplitMemory, anneal_free
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import TOLERANCE, lowered, up_to
from partita.nouns.pipeline import Plan, Stage
from partita.problems.annealing import AnnealingSearch
from partita.problems.outcome import outcome_of
from partita.problems.throughput.bounds.capacity import CapacityBound
from partita.problems.throughput.contraction.instance import Instance, build_instance, operators_at
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions

#: Trials between two looks at the stop button, about a tenth of a second.
SLICE = 1_000_000
#: Trials of the first rounds; they double with every eight.
FIRST = 1_000_000
#: The same per item and device, where there are few of both.
FIRST_EACH = 2_000
LONGEST = 16_000_000
#: Exponents in turn: 4 suits many small transfers, 16 large times, 2 escapes both.
EXPONENTS = (4, 16, 2)
#: The last hundredth of the largest load is won by an exponent that sees little but the maximum.
SHARP = 64
#: Share of the largest load that a whole memory limit of overflow costs, while no split is known that fits.
PENALTY = 4.0
#: Rounds per thread without a time limit, or where there are few items times devices.
ROUNDS = 40
SMALL = 150


@dataclass(frozen=True)
class FreeInstance:
    """A problem for free splits."""

    problem: ThroughputProblem  #: The problem it was made from.
    instance: Instance  #: Its contraction to colocation classes.
    arrays: FreeArrays  #: The kernels' form of it; D devices, never more of one kind than there are items.
    devices: list[tuple[str, str]]  #: Name and kind name of every device.
    limited: bool  #: Whether a memory limit can bind at all.

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.arrays.work.shape[0])

    def plan(self, label: Ints) -> Plan:
        """The plan that gives item v the device ``label[v]``."""
        members = operators_at(self.problem, self.instance.group, label, len(self.devices))
        stages = tuple(
            Stage(kind=kind, devices=(name,), operators=ids)
            for (name, kind), ids in zip(self.devices, members, strict=True)
            if ids
        )
        return Plan(stages=stages, contiguity="free")

    @property
    def homeless(self) -> bool:
        """Whether some item can run on no device, or fits on none by itself."""
        arrays = self.arrays
        if not len(arrays.kind_of):
            return True
        fits = (arrays.memory + arrays.workspace)[:, None] <= arrays.limit[None, :]
        return bool((~(np.isfinite(arrays.work[:, arrays.kind_of]) & fits)).all(axis=1).any())

    def state(self, label: Ints) -> FreeState:
        """What the devices hold, and their loads, under a split."""
        state = empty_state(self.arrays)
        state.label[:] = label
        reset(self.arrays, state)
        return state

    def overflows(self, state: FreeState) -> bool:
        """Whether a device holds more than it can."""
        return self.limited and bool((state.held + state.space > self.arrays.limit).any())

    def label(self, plan: Plan) -> Ints:
        """The device of every item under a plan that keeps classes together (devices of a kind are alike)."""
        place = {name: number for number, (name, _) in enumerate(self.devices)}
        free: dict[str, list[int]] = {}
        for number, (_, kind) in enumerate(self.devices):
            free.setdefault(kind, []).append(number)
        item_of = {op.id: int(v) for op, v in zip(self.problem.operators, self.instance.group, strict=True)}
        result = np.zeros(self.items, dtype=np.int32)
        kept = [stage for stage in plan.stages if stage.operators]
        for stage in kept:
            if stage.devices[0] in place:
                free[stage.kind].remove(place[stage.devices[0]])
        for stage in kept:
            # Only where a kind has more devices than items can a name be unknown.
            number = place[stage.devices[0]] if stage.devices[0] in place else free[stage.kind].pop()
            for identity in stage.operators:
                result[item_of[identity]] = number
        return result


def refusal(problem: ThroughputProblem) -> str | None:
    """Why free splits of a problem are not searched; None if they are."""
    schedule = problem.schedule
    conflicts = (
        (problem.communication != "sum", f"communication {problem.communication} does", "communication sum"),
        (problem.max_replicas > 1, "replicated stages do", "contiguity acyclic, or max_replicas=1"),
        (problem.streaming, "streaming weights does", "contiguity acyclic, or streaming=False"),
        (problem.row is not None, "stages that are runs of a chain of units do", "contiguity acyclic"),
        (bool(problem.groups), "device groups do", "contiguity acyclic, or a problem without groups"),
        (
            problem.gpipe,
            "gpipe training, where forward and backward loads peak apart, does",
            "contiguity acyclic, or the 1f1b schedule",
        ),
        (schedule.recompute and problem.training, "recomputation does", "contiguity acyclic, or recompute=False"),
        (
            schedule.positional and bool(problem.saved),
            "the 1f1b schedule makes memory depend on a stage's position, which does",
            "contiguity acyclic, or microbatches=1",
        ),
    )
    for holds, what, instead in conflicts:
        if holds:
            return f"{what} not combine with free splits yet; use {instead}"
    return None


def free_instance(problem: ThroughputProblem) -> FreeInstance:
    """Arrays for free splits of a problem that ``refusal`` has nothing against."""
    instance = build_instance(problem, free=True)
    n = instance.items
    counts = [min(one.count, n) for one in problem.kinds]
    kind_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    pairs = zip(problem.kinds, counts, strict=True)
    devices = [(f"{one.name}:{number}", one.name) for one, count in pairs for number in range(count)]
    flight = float(instance.in_flight[1])
    limit = up_to(instance.memory[kind_of])
    memory = instance.fixed + flight * instance.active
    cover_bytes = instance.cover_fixed + flight * instance.cover_active
    most = memory.sum() + cover_bytes.sum() + instance.workspace.max()
    limited = bool((limit < most).any())
    kept = np.flatnonzero(cover_bytes > 0)
    own = {
        "cover": instance.cover.chosen(kept),
        "kind_of": kind_of,
        "memory": memory,
        "cover_bytes": cover_bytes[kept],
        "limit": limit,
    }
    arrays = as_arrays(FreeArrays, vars(instance) | own)
    return FreeInstance(problem, instance, arrays, devices, limited)


class FreeIncumbent(Incumbent[Ints]):
    """The best split, as the device of every item, and the best bound; a monitor, if there is one, is told of both."""

    def __init__(self, free: FreeInstance, monitor: Monitor | None = None) -> None:
        super().__init__()
        self.free = free
        if monitor is not None:
            self.on_better = lambda value, _, by: monitor.report(objective=value, note=by)
            self.on_bound = lambda bound, by: monitor.report(bound=bound, note=by) if math.isfinite(bound) else None

    def take(self, label: Ints, by: str = "") -> bool:
        """Take a split if it fits and is better, by more than rounding; whether it was."""
        state = self.free.state(label)
        value = float(state.load.max())
        if not value < lowered(self.value) or self.free.overflows(state):
            return False
        return self.offer(value, label.astype(np.int32), by)


def start(problem: ThroughputProblem, monitor: Monitor | None = None) -> FreeIncumbent:
    """An incumbent without a split that knows the simple bound, or that there is plainly no split."""
    best, simple = FreeIncumbent(free_instance(problem), monitor), CapacityBound()
    best.prove(math.inf if best.free.homeless else simple.bound(problem, Monitor()).value, simple.name)
    return best


class FreeSolver(ABC):
    """A solver of free splits: it says its ``name``, ``summary`` and ``argument``, and how to ``run``."""

    name: str
    summary: str
    argument: str

    @abstractmethod
    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: ThroughputOptions, monitor: Monitor) -> None:
        """Work on ``best`` until done or ``over``; there may be a split."""

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        """Free splits whose memory does not depend on a stage's position."""
        if options.contiguity != "free":
            return "it searches free splits; use contiguity free, or solver exact for contiguous ones"
        return refusal(problem)

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        """Run until the bound meets the value, or told to stop."""
        best = start(problem, monitor)
        if not best.infeasible:
            self.run(best, lambda: monitor.stopping or best.closed, options, monitor)
            monitor.statistics.counters.update(best.counters)
        return outcome_of(best, best.free.plan)


def _random_label(free: FreeInstance, rng: np.random.Generator) -> Ints:
    """A random device that can run it for every item, faster devices more often."""
    arrays = free.arrays
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = 1.0 / (
            arrays.work[:, arrays.kind_of] + TOLERANCE * np.nanmax(arrays.work[np.isfinite(arrays.work)]) + 1e-300
        )
    chance = np.cumsum(speed, axis=1)
    drawn = rng.random(free.items) * chance[:, -1]
    return np.asarray((chance < drawn[:, None]).sum(axis=1), dtype=np.int32)


class FreeRounds(AnnealingSearch):
    """Rounds of the portfolio, from a number on; every item must be able to run on some device.

    Deterministic for a seed as long as no other thread's splits interfere.
    """

    best: FreeIncumbent

    def __init__(self, best: FreeIncumbent, seed: int, *, number: int = 0) -> None:
        super().__init__(best, seed, number=number)
        self.state = empty_state(best.free.arrays)

    def round(self, number: int) -> Iterator[None]:
        """In turn: a random start, its end sharpened, the best split shaken, the best split sharpened."""
        free, state = self.best.free, self.state
        trials = min(LONGEST, min(FIRST, FIRST_EACH * free.items * len(free.devices)) << min(16, number // 8))
        wide = EXPONENTS[number // 4 % len(EXPONENTS)]
        exponent, cooling, start = (
            (wide, Cooling(0.2, 1e-4, trials), "random"),
            (SHARP, Cooling(0.02, 1e-5, trials), "last"),
            (wide, Cooling(0.03, 1e-5, trials), "best"),
            (SHARP, Cooling(0.01 if number % 8 < 4 else 0.05, 1e-5, trials), "best"),
        )[number % 4]
        value, label, _ = self.best.snapshot()
        if start == "random" or (self.trials == 0 and label is None):
            state.label[:] = _random_label(free, self.random)
        elif label is not None and (start == "best" or self.trials == 0):
            state.label[:] = label
        state.value[0] = value

        def part(cooling: Cooling) -> None:
            # Rounding gathers, and is dropped here.
            reset(free.arrays, state)
            memory = SplitMemory(free.limited, PENALTY if free.overflows(state) else math.inf, 0.0)
            ref = min(float(state.value[0]), float(state.load.max())) or 1.0
            anneal_free(free.arrays, state, memory, ref, exponent, cooling, self.draws, self.best.stop)
            if state.value[0] < self.best.value:
                self.best.take(state.best, f"annealing, round {number}")

        return self.cool(cooling, SLICE, part)


class FreeAnnealing(FreeSolver):
    """Simulated annealing over all splits; see ``kernels.throughput.split_annealing`` and ``free.search``."""

    name = "annealing"
    summary = "simulated annealing over all splits; proves nothing beyond the capacity bound"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

    def run(self, best: FreeIncumbent, over: Callable[[], bool], options: ThroughputOptions, monitor: Monitor) -> None:
        """Anneal on every thread; small problems, and all without a time limit, get a fixed number of rounds."""
        small = best.free.items * len(best.free.devices) <= SMALL
        last = math.inf if monitor.time_limit_s is not None and not small else ROUNDS

        # Threads share their best split, so only one of them gives the same answer every time.
        threads = options.threads if math.isinf(last) else 1

        failed = threading.Event()

        def work(number: int) -> int:
            try:
                search = FreeRounds(best, options.seed + 1000 * number, number=4 * number)
                search.run(lambda: over() or failed.is_set(), rounds=last - 4 * number)
                return search.trials
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(threads) as pool:
            runs = [pool.submit(work, i) for i in range(threads)]
            best.counters["annealing_trials"] = float(sum(run.result() for run in runs))
