"""What the backends have in common: what one is asked, how it talks while it runs, and what its answer means.

A backend is a module with two names: ``solve(program, settings, talk)`` hands back a ``BackendAnswer``, and ``EXACT``
says whether what it proves holds as it is. Those that compute with tolerances get a wider program, and what they take
for proven is lowered; see ``partita.engines.mip.cautious``, which is the one place for both. ``BACKENDS`` lists them.
"""

from __future__ import annotations

import importlib.util
import math
import time
from dataclasses import dataclass

from partita.engines.mip import cautious
from partita.engines.mip.model import Callbacks, Floats, Minimised, MixedProgram, ProgramResult
from partita.engines.search.result import Status
from partita.ground.rounding import GAP


@dataclass(frozen=True)
class Backend:
    """An entry of ``BACKENDS``."""

    module: str  #: Where it is.
    package: str  #: The import name of what it needs.
    open_ranges: bool = True  #: Whether variables may have infinite bounds.

    @property
    def missing(self) -> str | None:
        """What a component that needs it says where its package is not installed; None where it is."""
        if importlib.util.find_spec(self.package) is not None:
            return None
        return f"it needs {self.package}; install it with: pip install 'partita[solvers]'"


BACKENDS = {
    "highs": Backend("partita.engines.mip.highs", "highspy"),
    "cpsat": Backend("partita.engines.mip.cpsat", "ortools", open_ranges=False),
    "scip": Backend("partita.engines.mip.scip", "pyscipopt"),
}

#: For schedules (``partita.engines.mip.schedule``), which are no linear programs.
SCHEDULERS = {"cpsat-schedule": Backend("partita.engines.mip.cpsat_schedule", "ortools")}


@dataclass(frozen=True)
class BackendSettings:
    """What a backend is asked beside the program; see ``solve_program``.

    Its time is over at the moment ``ends`` of the monotonic clock, which all processes of a machine share; infinite
    without a limit.
    """

    ends: float = math.inf
    threads: int = 1
    seed: int = 0
    gap: float = GAP
    warm_start: Floats | None = None
    central: bool = False

    @property
    def left_s(self) -> float | None:
        """Seconds left, never quite none; None without a limit. To be asked when the backend is about to start."""
        return None if math.isinf(self.ends) else max(0.01, self.ends - time.monotonic())


@dataclass(frozen=True)
class BackendAnswer:
    """What a backend ends with, in its own terms."""

    values: Floats | None = None  #: The best solution; None if there is none.
    bound: float = -math.inf  #: What it takes for proven, not finite for nothing.
    solved: bool = False  #: Whether ``values`` are optimal up to the gap asked for.
    infeasible: bool = False  #: Whether it is proven that there is no solution.
    #: Of the rows of a linear program, which prove its bound instead; None for branching.
    multipliers: Floats | None = None


class Talk:
    """How a backend talks while it runs: ``stop`` and ``better`` as in ``Callbacks``, and what it reports.

    ``program`` is what it was given; ``gap`` the share of bounds that it gives up by cutting branches off, None where
    its bounds hold as they are.
    """

    def __init__(self, program: Minimised, calls: Callbacks, gap: float | None) -> None:
        self.program = program
        self.calls = calls
        self.gap = gap
        self.stop = calls.stop
        self.better = calls.better
        self._proven = -math.inf

    def incumbent(self, values: Floats) -> None:
        """Report a better solution."""
        if self.calls.on_incumbent is not None:
            self.calls.on_incumbent(values, self.program.value(values))

    def bound(self, bound: float) -> None:
        """Report a bound; it may be no better than the last, and not finite."""
        if math.isfinite(bound) and bound > self._proven:
            self._proven = bound
            if self.calls.on_bound is not None:
                self.calls.on_bound(self._cautious(bound))

    def _cautious(self, bound: float) -> float:
        if self.gap is None or not isinstance(self.program, MixedProgram):
            return bound
        return cautious.proven(self.program, bound, self.gap)

    def result(self, found: BackendAnswer) -> ProgramResult:
        """What follows from what a backend found: nothing is proven beyond the solution."""
        if found.infeasible:
            return ProgramResult(Status.INFEASIBLE, None, math.inf, math.inf)
        objective = math.inf if found.values is None else self.program.value(found.values)
        proven = max(self._proven, found.bound) if math.isfinite(found.bound) else self._proven
        bound = self._cautious(min(proven, objective)) if math.isfinite(proven) else -math.inf
        if found.multipliers is not None and isinstance(self.program, MixedProgram):
            bound = cautious.linear_bound(self.program, found.multipliers)
        if found.values is None:
            return ProgramResult(Status.UNKNOWN, None, math.inf, bound)
        status = Status.OPTIMAL if found.solved else Status.FEASIBLE
        return ProgramResult(status, found.values, objective, bound)


def run_backend(backend: Backend, program: Minimised, settings: BackendSettings, calls: Callbacks) -> ProgramResult:
    """Run a backend in this process."""
    module = importlib.import_module(backend.module)
    if module.EXACT or not isinstance(program, MixedProgram):
        talk = Talk(program, calls, None)
    else:
        program = cautious.widened(program)
        talk = Talk(program, calls, settings.gap)
    return talk.result(module.solve(program, settings, talk))
