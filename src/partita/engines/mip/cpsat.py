"""OR-Tools CP-SAT as a backend: a run of it on any model, and programs scaled to integers so that its bound holds.

A program is replaced by an integer one that every solution of the program solves with an objective no larger:
coefficients of binary variables are rounded down in rows Σ a·x <= b, continuous variables become multiples of a small
unit, and the right sides grow by what the rounding of those may add.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Protocol

import numpy as np

from partita.engines.mip.backend import BackendAnswer, BackendSettings, Talk
from partita.engines.mip.model import Floats, MixedProgram
from partita.ground.rounding import rounded_down

#: Rounding to integers is accounted for: what it proves holds as it is.
EXACT = True

#: Largest coefficient of a scaled row, and steps of a continuous variable's range.
RESOLUTION = 2**27

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


def solve(program: MixedProgram, settings: BackendSettings, talk: Talk) -> BackendAnswer:
    """Variables have finite bounds; solutions may break rows by the rounding."""
    from ortools.sat.python import cp_model

    return run_cpsat(_Scaled(cp_model, program), settings, talk, relative_gap_limit=settings.gap)


class _Scaled:
    """The integer program of a program, and the way back."""

    def __init__(self, cp_model: Any, model: MixedProgram) -> None:
        self.model = model
        self.program = cp_model.CpModel()
        n = model.size
        lower, upper = np.array(model.lower), np.array(model.upper)
        #: Integer steps per unit of each variable.
        self.steps = np.ones(n)
        for v in range(n):
            if not model.binary[v]:
                reach = max(abs(lower[v]), abs(upper[v]), 1e-30)
                self.steps[v] = 2.0 ** math.floor(math.log2(RESOLUTION / reach))
        #: Continuous values are rounded up to whole steps.
        self.least = np.ceil(lower * self.steps - 1e-9).astype(np.int64)
        self.most = np.ceil(upper * self.steps).astype(np.int64)
        self.variables = [
            self.program.new_int_var(int(self.least[v]), int(max(self.least[v], self.most[v])), "") for v in range(n)
        ]
        for variables, coefficients, low, high in model.rows:
            if math.isfinite(high):
                self._row(variables, coefficients, high)
            if math.isfinite(low):
                self._row(variables, [-c for c in coefficients], -low)
        used = [v for v in range(n) if model.cost[v]]
        per_step = [abs(model.cost[v]) / self.steps[v] for v in used]
        # One continuous objective variable keeps its own unit, whatever else there is gets the finest common one.
        self.scale = 1.0 / min(per_step) if len(used) == 1 else RESOLUTION / max(per_step, default=1.0)
        weights = {v: math.floor(model.cost[v] / self.steps[v] * self.scale + 1e-12) for v in used}
        #: What rounding may have added to a solution's objective: continuous values moved up by less than a step.
        self.slack = sum(max(0.0, float(weights[v])) for v in used if not model.binary[v])
        # A coefficient rounded down counts too much on negative values, one that is taken for whole on others.
        self.slack += sum(float(max(0, 1 - self.least[v])) for v in used if self.least[v] < 0)
        self.slack += sum(
            max(0.0, weights[v] - model.cost[v] / self.steps[v] * self.scale) * float(max(0, self.most[v]))
            for v in used
        )
        self.program.minimize(sum(weights[v] * self.variables[v] for v in used))

    def _row(self, variables: list[int], coefficients: list[float], high: float) -> None:
        if not variables:
            if high < 0:
                self.program.add_bool_or([])
            return
        raw = [c / self.steps[v] for v, c in zip(variables, coefficients, strict=True)]
        binary = [self.model.binary[v] for v in variables]
        whole = all(c == int(c) for c in coefficients) and all(binary)
        # Rows of continuous variables use one step of the finest of them as their unit.
        fine = [abs(r) for r, b in zip(raw, binary, strict=True) if not b]
        scale = 1.0 if whole else (1.0 / min(fine) if fine else RESOLUTION / max(abs(r) for r in raw))
        scale = min(scale, 2.0**36 / max(abs(r) for r in raw))
        slack, terms = 0.0, []
        for v, r, b in zip(variables, raw, binary, strict=True):
            exact = r * scale
            weight = math.floor(exact + 1e-12 * abs(exact))
            if weight > exact:
                slack += (weight - exact) * max(abs(int(self.least[v])), abs(int(self.most[v])), 1)
            if not b:
                # The step up, and the coefficient rounded down on a negative value.
                slack += max(0.0, float(weight)) + max(0.0, exact - weight) * max(0, 1 - int(self.least[v]))
            terms.append(weight * self.variables[v])
        limit = high * scale
        self.program.add(sum(terms) <= math.floor(limit + slack + 1e-12 * abs(limit)))

    def hint(self, values: Floats) -> None:
        """Start from a solution."""
        whole = np.ceil(values * self.steps - 1e-9).astype(np.int64)
        for v, x in enumerate(np.clip(whole, self.least, self.most)):
            self.program.add_hint(self.variables[v], int(x))

    def values(self, value: Any) -> Floats:
        """A solution of the integer program in the program's terms."""
        return np.array([value(x) for x in self.variables], dtype=np.float64) / self.steps

    def bound(self, value: float) -> float:
        """A bound of the integer program in the program's terms."""
        return rounded_down((value - self.slack) / self.scale, (abs(value) + self.slack) / self.scale, 2)
