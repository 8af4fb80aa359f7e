"""What a member of the hierarchy of bounds is, the first of them, and what they tell each other about one problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, row_masks
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.forced_cuts import TargetFacts
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.errors import DisagreementError, SolverCrashError
from partita.ground.rounding import GAP, rounded_down
from partita.problems.throughput.contraction.blocks import uniform, uniform_refusal
from partita.problems.throughput.problem import ThroughputProblem

#: Programs of whole splits have few variables up to so many blocks; the search for blocks is short up to so many items.
FEW_BLOCKS, SMALL_BLOCK = 5, 25


@dataclass(frozen=True)
class Charged:
    """What is known to hold in all splits with loads up to a target."""

    target: float  #: Largest objective for which it holds.
    #: (n,) work with the cost of the nets that are cut in any case charged to it. For every block S of such a split, Σ
    #: ``work`` over S and the cost of the other nets that S cuts are together at most f(S).
    work: Floats
    share: Floats  #: (n,) shares of a block that items need at least: no block has more than one in all.
    parts: TargetFacts  #: Which items are in no common block, which nets are cut, and which blocks items can be in.

    def at(self, target: float) -> Charged:
        """A copy for a smaller target, at which all of it still holds."""
        p = self.parts
        parts = p._replace(apart=p.apart.copy(), forced=p.forced.copy(), first=p.first.copy(), last=p.last.copy())
        return Charged(target, self.work.copy(), self.share.copy(), parts)

    @property
    def apart(self) -> Bools:
        """(n, n) items that are not in one block; none if pairs were not looked at."""
        n, rows = len(self.work), self.parts.apart
        return row_masks(rows, n) if len(rows) else np.zeros((n, n), dtype=bool)


class Knowledge:
    """State of one run over the hierarchy; bounds read it and add to it, from any thread.

    ``uniform`` is the relaxation that the bounds are about. ``stop`` is asked often; true ends a method, which keeps
    what it has proven. ``incumbent`` has the best split known, which the bounds need not exceed, and the best proven
    bound; None for one of the relaxation's own, whose answers are labels. All its splits must be splits of the
    relaxation. ``to_label`` gives the (n,) block of every item in an answer, None where that is not known, and
    ``from_label`` the answer for blocks of the items, with its value; None where it is none, because the relaxation
    leaves out what forbids it. Unless that finds an answer wherever there is one (``complete``), a split that it has
    none for may still be one, which costs what it costs in the relaxation or more. ``on_note`` is called with what the
    history of the run should say beside plans and bounds. A method uses at most so many ``threads`` and processes.
    """

    def __init__(
        self,
        uniform: BlockProblem,
        stop: Callable[[], bool] = lambda: False,
        *,
        incumbent: Incumbent[Any] | None = None,
        to_label: Callable[[Any], Ints | None] = lambda answer: answer,
        from_label: Callable[[Ints, float], tuple[float, Any] | None] = lambda label, value: (value, label.copy()),
        complete: bool = True,
        on_note: Callable[[str], None] | None = None,
        threads: int = 2,
    ) -> None:
        self.uniform, self.stop, self.complete = uniform, stop, complete
        self.incumbent = Incumbent(closeness=GAP) if incumbent is None else incumbent
        self.to_label, self.from_label = to_label, from_label
        self.on_note, self.threads = on_note, threads
        #: What holds at the largest target so far tried that is not refuted, None before.
        self.charged: Charged | None = None
        #: What methods go on from when they are called again, by their names.
        self.kept: dict[str, Any] = {}
        #: (method, value, seconds) of every method's own best, in order of time.
        self.proven: list[tuple[str, float, float]] = []

    @classmethod
    def watched(cls, uniform: BlockProblem, monitor: Monitor, **settings: Any) -> Knowledge:
        """What a monitor may stop, which also gets the notes."""
        return cls(uniform, lambda: monitor.stopping, on_note=lambda note: monitor.report(note=note), **settings)

    @property
    def value(self) -> float:
        """Objective of the best split known, infinite for none."""
        return self.incumbent.value

    @property
    def bound(self) -> float:
        """The best proven bound."""
        return self.incumbent.bound

    @property
    def label(self) -> Ints | None:
        """(n,) block of every item in the best split known, None for none."""
        answer = self.incumbent.answer
        return None if answer is None else self.to_label(answer)

    @property
    def done(self) -> bool:
        """Whether to end: nothing is left to prove (up to rounding), or told to stop."""
        return self.incumbent.closed or self.stop()

    def prove(self, bound: float, method: str) -> None:
        """Report a proven bound, see ``Incumbent.prove``; infinite if there is no split."""
        self.incumbent.prove(bound, method)

    def refute(self, target: float, method: str) -> None:
        """Report that every split has a load above a target, by more than rounding; a known one without raises."""
        if target >= self.value:
            raise DisagreementError(f"{method} refutes {target!r}, and a split is known with {self.value!r}")
        self.prove(target, method)

    def lose(self, error: SolverCrashError, goes_on: str) -> None:
        """Note that a backend crashed, and what goes on without it; where nobody takes notes it is raised."""
        if self.on_note is None:
            raise error
        self.on_note(f"{error}; {goes_on}")

    def offer(self, label: Ints, value: float, by: str) -> None:
        """Report a split, with blocks that do not fall along the order, and its objective in the relaxation."""
        if value < self.value:
            found = self.from_label(label, value)
            if found is not None:
                self.incumbent.offer(*found, by)

    def offer_blocks(self, label: Ints, by: str) -> float:
        """Report a split by its blocks alone; its objective in the relaxation."""
        value = max(self.uniform.load(label == block) for block in range(self.uniform.devices))
        self.offer(label, value, by)
        return value


def simple_bound(uniform: BlockProblem) -> float:
    """max(largest work, total work / devices)."""
    largest = float(uniform.work.max(initial=0.0))
    mean = math.fsum(uniform.work.tolist()) / uniform.devices
    # Work of an item is a sum of operators.
    return rounded_down(max(largest, mean), max(largest, mean), len(uniform.group))


def suits_programs(uniform: BlockProblem) -> bool:
    """Whether programs of whole splits are likely to prove as much in the same time as a search for single blocks."""
    return uniform.devices <= FEW_BLOCKS or uniform.items > SMALL_BLOCK * uniform.devices


class HierarchyBound:
    """A bound on the uniform relaxation that reads and adds to what the others know.

    It says its ``name``, ``summary``, ``argument`` and ``scope``, and how to ``refine`` the simple bound. All are
    refused or run alone in the same way.
    """

    name: str
    summary: str
    argument: str
    scope: str = "acyclic"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, and loads that add transfers to work."""
        return uniform_refusal(problem)

    def improve(self, knowledge: Knowledge, deadline_s: float | None) -> None:
        """Raise the bound of ``knowledge`` to the simple bound, and then as far as this method can within some seconds.

        Work of all items is finite. ``knowledge.done`` is polled, and ends the method early; what is proven counts.
        """
        end = math.inf if deadline_s is None else time.perf_counter() + deadline_s
        knowledge.prove(simple_bound(knowledge.uniform), self.name)
        self.refine(knowledge, lambda: end - time.perf_counter())

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Raise the bound with ``prove(value, self.name)``; ``left_s`` are the seconds left, infinite for no limit."""

    def share(self, uniform: BlockProblem) -> float:
        """Its part of the time that the hierarchy has left, relative to the other methods; 0 to be left out.

        As much as any other; those that are better for small or for large blocks say so.
        """
        return 1.0

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """What this member proves by itself; infinite if an operator can run nowhere."""
        knowledge = Knowledge.watched(uniform(problem, free=self.scope == "free"), monitor)
        if knowledge.uniform.runs:
            self.improve(knowledge, None if monitor.time_limit_s is None else monitor.remaining_s)
        else:
            knowledge.prove(float("inf"), self.name)
        return Bound(knowledge.bound, self.name, self.scope, monitor.elapsed_s)


class SimpleBound(HierarchyBound):
    """What any split of the work over identical devices costs; ``capacity`` is the same for mixed devices."""

    name = "simple"
    summary = "largest operator, and total work over the number of devices; ignores communication"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"
    scope = "free"
