"""A run of OR-Tools CP-SAT: its threads, hints, messages, stop button and answer, whatever the model is made from."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from partita.engines.mip.backend import BackendAnswer, BackendSettings, Talk
from partita.engines.mip.model import Floats

#: Seconds between two looks at the stop button.
POLL_S = 0.05


class Made(Protocol):
    """A CP-SAT model made from something else, and the way back."""

    program: Any

    def hint(self, point: Floats, /) -> None:
        """Start from a point of what the model was made from."""

    def values(self, value: Any, /) -> Floats:
        """A solution of the model in the terms of what it was made from."""

    def bound(self, value: float, /) -> float:
        """A bound of the model in those terms."""


def parameters_of(settings: BackendSettings, **more: Any) -> dict[str, Any]:
    """CP-SAT's parameters, by name: those of the settings, ``more``, and what keeps its answers right."""
    return {
        "num_workers": settings.threads,
        "random_seed": settings.seed % 2**31,
        # OR-Tools 9.15 cuts off optimal solutions when it looks for rows inside each other (seen on schedules where
        # some jobs take no time): it does without.
        "presolve_inclusion_work_limit": 0,
        **more,
    }


def run_cpsat(made: Made, settings: BackendSettings, talk: Talk, **parameters: Any) -> BackendAnswer:
    """Solve a model; ``parameters`` are CP-SAT's own, beside those of the settings.

    Raises ``ValueError`` if CP-SAT does not take the model.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    for name, value in parameters_of(settings, **parameters).items():
        setattr(solver.parameters, name, value)
    if settings.warm_start is not None:
        made.hint(settings.warm_start)

    class _Solutions(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            talk.incumbent(made.values(self.value))

    solver.best_bound_callback = lambda bound: talk.bound(made.bound(bound))
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            if talk.stop():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    if (left_s := settings.left_s) is not None:
        solver.parameters.max_time_in_seconds = left_s
    try:
        status = solver.solve(made.program, _Solutions())
    finally:
        done.set()
        watcher.join()
    if status == cp_model.MODEL_INVALID:
        raise ValueError(f"CP-SAT does not take the model: {made.program.validate()}")
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return BackendAnswer(
        made.values(solver.value) if found else None,
        made.bound(solver.best_objective_bound),
        status == cp_model.OPTIMAL,
        status == cp_model.INFEASIBLE,
    )
