"""Programs with the largest load as their objective, run so that what they prove is safe to use.

Loads are scaled so that the largest load of interest is ``LARGEST_LOAD``: tolerances of backends are absolute, and
become relative ones here. What they may have added to a bound is taken off where backends are
(``mip.cautious``), and a program without a solution below a cutoff proves the cutoff itself. Where all loads
are multiples of one number, a bound is then raised to the next multiple.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.mip.model import Callbacks
from partita.engines.mip.race import race
from partita.engines.mip.solve import available, missing, solve_program
from partita.engines.search.result import Status
from partita.ground.errors import SolverCrashError
from partita.ground.processors import usable_cores
from partita.ground.rounding import GAP, UNIT, clearly_below, rounded_down, up_to
from partita.problems.throughput.bounds.forced_transfers import charged_at
from partita.problems.throughput.bounds.knowledge import Charged, HierarchyBound, Knowledge, simple_bound
from partita.problems.throughput.bounds.programs.block_rows import MOST_ITEMS, BlockProgram, Expression
from partita.problems.throughput.problem import ThroughputProblem

#: Largest load of interest inside of programs.
LARGEST_LOAD = 1000.0
#: Multiples of one number may add up to this many of it: cutoffs half a grain below a load are told from it.
MOST_GRAINS = 1e7
#: Share by which a number may differ from a multiple: a few roundings.
ROUNDING = 36 * UNIT
#: Programs of at most this many items times boundaries are given to one backend.
SMALL = 60


def granularity(uniform: BlockProblem) -> float:
    """What all loads are multiples of, in whatever unit; 0 for nothing known.

    Where they are up to rounding only, it is lowered by that, so that no load is less than its number of grains.
    """
    values = np.unique(np.concatenate([uniform.work, uniform.cost]))
    values = values[values > 0]
    total = float(uniform.work.sum() + uniform.cost.sum())
    if not len(values) or not math.isfinite(total):
        return 0.0
    grain = 0.0
    for value in values.tolist():
        # Euclid's algorithm; remainders below what a grain may be are rounding.
        grain, rest = value, grain
        while rest > total / MOST_GRAINS:
            grain, rest = rest, abs(math.remainder(grain, rest))
        if grain * MOST_GRAINS < total:
            return 0.0
    # The largest value is a multiple with the least rounding.
    grain = float(values[-1]) / round(float(values[-1]) / grain)
    if (abs(values - grain * np.rint(values / grain)) > ROUNDING * values).any():
        return 0.0
    exact = all(Fraction(value) % Fraction(grain) == 0 for value in values.tolist())
    return grain if exact else grain * (1 - 2 * ROUNDING)


def round_up(bound: float, grain: float) -> float:
    """The least load that is not below a bound of the optimum, which is a load."""
    if grain <= 0 or not math.isfinite(bound):
        return bound
    # Quotients are at most ``MOST_GRAINS``, and wrong by a few ``ROUNDING`` of that.
    return grain * math.ceil(bound / grain - 1e-6)


def pool_bound(uniform: BlockProblem) -> float:
    """No load of any split exceeds this."""
    return up_to(float(uniform.work.sum() + uniform.cost.sum()))


@dataclass(frozen=True)
class ProgramRun:
    """One run of a bound by programs."""

    name: str  #: Of the bound.
    knowledge: Knowledge  #: What is known; its ``done`` ends every program.
    grain: float  #: ``granularity`` of the loads, 0 for none.
    left_s: Callable[[], float]  #: Seconds left; infinite without a deadline.

    @property
    def over(self) -> bool:
        """Whether it is to end now."""
        return self.knowledge.stop() or self.left_s() <= 0

    @property
    def cutoff(self) -> float:
        """What only splits better than the best one get under; what no load exceeds if there is none."""
        value, grain = self.knowledge.value, self.grain
        if math.isinf(value):
            return pool_bound(self.knowledge.uniform)
        return value - 0.5 * grain if grain > 0 else value * (1 - 5e-8)

    def prove(self, bound: float) -> None:
        """Report a proven bound."""
        self.knowledge.prove(bound, self.name)

    def facts(self, target: float) -> Charged | None:
        """What holds in all splits up to a target; None if that refutes it, which counts."""
        found = charged_at(self.knowledge.uniform, target, lambda: self.over)
        if found is None:
            self.knowledge.refute(target, self.name)
            self.prove(round_up(target, self.grain))
        return found


class MinMaxProgram:
    """A program to minimise the largest load of ``blocks``, between a proven bound and a cutoff; no loads yet.

    It says nothing about optima above the cutoff. ``largest`` is the variable: the largest load times ``scale``.
    """

    def __init__(self, blocks: BlockProgram, run: ProgramRun, low: float, cutoff: float) -> None:
        self.blocks, self.run, self.cutoff = blocks, run, cutoff
        self.scale = scale = LARGEST_LOAD / cutoff if cutoff > 0 else 1.0
        self.largest = blocks.model.add_continuous(min(clearly_below(low), cutoff) * scale, cutoff * scale, 1.0)

    def cuts(self, block: int, share: float = 1.0) -> dict[int, Expression]:
        """What nets cost that a block cuts whose load is at most ``share`` times the largest.

        No such block cuts one that costs more than that may be: beyond twice as much says no more, and coefficients a
        million times those of others make backends cut off what they should not.
        """
        return self.blocks.cuts(block, self.scale, 2.0 * share * LARGEST_LOAD)

    def load(self, block: int, share: float = 1.0) -> list[Expression]:
        """Work and cut nets of a block whose load is at most ``share`` times the largest; see ``cuts``."""
        return [*self.blocks.work(block, scale=self.scale), *self.cuts(block, share).values()]

    def limit(self, load: list[Expression], share: float = 1.0) -> None:
        """``share`` times the largest load is at least the (scaled) ``load``."""
        self.blocks.row([([(self.largest, -share)], 0.0), *load], upper=0.0)

    def proven(self, bound: float) -> float:
        """What a bound of the backend proves of the optimum; infinity proves that it is above the cutoff."""
        if math.isnan(bound) or bound < 0:
            return 0.0
        safe = rounded_down(bound / self.scale, bound / self.scale, 2) if math.isfinite(bound) else math.inf
        return round_up(min(safe, self.cutoff), self.run.grain)

    def solve(
        self,
        time_s: float,
        *,
        backend: str = "highs",
        enough: Callable[[float], bool] = lambda proven: False,
        on_bound: Callable[[float], None] = lambda proven: None,
        on_point: Callable[[Floats], None] | None = None,
    ) -> float:
        """What the program proves of the optimum within some seconds; no more than that it exceeds the cutoff.

        ``enough`` is asked with what is proven so far, true ends the run. ``on_bound`` is called with what is proven as
        it comes, ``on_point`` with the values of every solution found.
        """
        proven = 0.0

        def bounded(bound: float) -> None:
            nonlocal proven
            safe = self.proven(bound)
            if safe > proven:
                proven = safe
                on_bound(safe)

        answer = solve_program(
            self.blocks.model,
            backend,
            time_limit_s=None if math.isinf(time_s) else max(0.0, time_s),
            gap=GAP,
            callbacks=Callbacks(
                stop=lambda: self.run.knowledge.done or enough(proven),
                on_bound=bounded,
                on_incumbent=None if on_point is None else lambda values, _: on_point(values),
            ),
        )
        if answer.status is Status.INFEASIBLE:
            return self.proven(math.inf)
        bounded(answer.bound)
        return proven

    def race(self, time_s: float, on_point: Callable[[Floats], None] | None = None) -> None:
        """Prove what HiGHS does, and SCIP beside it, until one of them is done; parameters are those of ``solve``.

        Which of the two gets further differs from graph to graph. HiGHS runs alone where SCIP is not installed, there
        is only one processor or thread, or the program is so small that it is solved before a second process has
        started. If one of them crashes, the other goes on; if none is left, ``SolverCrashError`` is raised.
        """
        knowledge = self.run.knowledge
        size = knowledge.uniform.items * (self.blocks.count - 1)
        several = available("scip") and min(usable_cores(), knowledge.threads) > 1 and size > SMALL

        def go(backend: str, ended: Callable[[], bool]) -> bool:
            began = time.monotonic()
            proven = self.solve(
                time_s, backend=backend, enough=lambda _: ended(), on_bound=self.run.prove, on_point=on_point
            )
            self.run.prove(proven)
            return time.monotonic() - began < time_s

        for answer in race(("highs", "scip") if several else ("highs",), go, bool):
            if isinstance(answer, SolverCrashError):
                knowledge.lose(answer, "the other backend went on")


class ProgramMember(HierarchyBound):
    """A bound by programs: needs HiGHS, and problems small enough for it. It says which ``programs`` to run."""

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, a backend, and not too many operators."""
        reason = super().supports(problem) or missing("highs")
        if reason is None and len(problem.operators) > MOST_ITEMS:
            return f"it is for at most {MOST_ITEMS} operators, and there are {len(problem.operators)}; use `charge`"
        return reason

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """The simple bound rounded up, then programs where that leaves them something to do."""
        uniform = knowledge.uniform
        run = ProgramRun(self.name, knowledge, granularity(uniform), left_s)
        run.prove(round_up(simple_bound(uniform), run.grain))
        usable = available("highs") and pool_bound(uniform) > 0 and uniform.items <= MOST_ITEMS and uniform.devices > 1
        if usable and not knowledge.done:
            self.programs(run)

    @abstractmethod
    def programs(self, run: ProgramRun) -> None:
        """Raise the bound by programs."""
