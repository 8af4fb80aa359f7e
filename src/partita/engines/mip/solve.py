"""One door to all backends."""

from __future__ import annotations

import math

from partita.engines.mip.backend import BACKENDS
from partita.engines.mip.child import run_in_child
from partita.engines.mip.model import QUIET, Callbacks, Floats, MixedProgram, ProgramResult
from partita.ground.errors import InputError, MissingExtraError
from partita.ground.rounding import GAP


def available(backend: str) -> bool:
    """Whether the backend's package is installed, without importing it."""
    return BACKENDS[backend].missing is None


def missing(backend: str) -> str | None:
    """What a component that needs the backend says where it is not installed; None where it is."""
    return BACKENDS[backend].missing


def solve_program(
    model: MixedProgram,
    backend: str,
    *,
    time_limit_s: float | None = None,
    threads: int = 1,
    seed: int = 0,
    gap: float = GAP,
    warm_start: Floats | None = None,
    central: bool = False,
    callbacks: Callbacks = QUIET,
) -> ProgramResult:
    """Minimise a program, in a child process.

    Parameters
    ----------
    model
        The program.
    backend
        One of ``BACKENDS``.
    time_limit_s
        Wall time, all included; None, or infinite, for no limit. Without any time left the answer is ``unknown``.
    threads
        Most threads of the backend. Only CP-SAT uses more than one.
    seed
        Seed of the backend.
    gap
        Relative gap at which it may stop.
    warm_start
        A solution to start from.
    central
        For a linear program HiGHS may end with a point amid the nearly optimal ones instead of at a vertex.
    callbacks
        How the run talks. What one of them raises ends the run and leaves here.

    Raises
    ------
    MissingExtraError
        If the backend's package is not installed.
    InputError
        If there is no such backend, or it cannot take the program.
    SolverCrashError
        If the backend fails, or its process ends before it has answered. What it reported until then stands.
    """
    if backend not in BACKENDS:
        raise InputError(f"there is no MIP backend {backend!r}; known are {', '.join(BACKENDS)}")
    if not available(backend):
        raise MissingExtraError(BACKENDS[backend].package, "solvers")
    if not BACKENDS[backend].open_ranges and not all(map(math.isfinite, model.lower + model.upper)):
        raise InputError(f"the MIP backend {backend} needs finite bounds of every variable")
    return run_in_child(
        backend,
        model,
        callbacks,
        time_limit_s,
        threads=max(1, threads),
        seed=seed,
        gap=gap,
        warm_start=warm_start,
        central=central,
    )
