"""SCIP as a backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partita.mip.model import Callbacks, Floats, Model, ProgramResult, ProgramStatus

__all__ = ["run_scip"]

#: Share of a bound given up for what floating point may have gained.
MARGIN = 1e-7


def run_scip(
    model: Model,
    time_limit_s: float | None,
    threads: int,
    seed: int,
    gap: float,
    warm_start: Floats | None,
    cutoff: float | None,
    central: bool,
    calls: Callbacks,
) -> ProgramResult:
    """See ``solve_program``; there is only ever one thread."""
    import pyscipopt

    scip = pyscipopt.Model()
    scip.hideOutput()
    # Ctrl-C is the caller's business.
    scip.setParam("misc/catchctrlc", False)
    scip.setParam("randomization/randomseedshift", seed % 2**30)
    scip.setParam("limits/gap", gap)
    if time_limit_s is not None:
        scip.setParam("limits/time", max(0.01, time_limit_s))
    variables = [
        scip.addVar(
            vtype="B" if model.binary[v] else "C",
            lb=None if math.isinf(model.lower[v]) else model.lower[v],
            ub=None if math.isinf(model.upper[v]) else model.upper[v],
            obj=model.cost[v],
        )
        for v in range(model.size)
    ]
    for columns, coefficients, lower, upper in model.rows:
        if not columns:
            if lower > 0 or upper < 0:
                return ProgramResult(ProgramStatus.INFEASIBLE, None, math.inf, math.inf)
            continue
        total = pyscipopt.quicksum(c * variables[v] for v, c in zip(columns, coefficients, strict=True))
        if math.isfinite(lower) and lower == upper:
            scip.addCons(total == lower)
            continue
        if math.isfinite(upper):
            scip.addCons(total <= upper)
        if math.isfinite(lower):
            scip.addCons(total >= lower)
    if warm_start is not None:
        start = scip.createSol()
        for v, x in enumerate(warm_start):
            scip.setSolVal(start, variables[v], float(x))
        scip.addSol(start)
    scip.includeEventhdlr(_watch(pyscipopt, scip, model, variables, calls), "watch", "reports and stops")
    if calls.stop():
        return ProgramResult(ProgramStatus.UNKNOWN, None, math.inf, -math.inf)
    scip.optimizeNogil()

    status = scip.getStatus()
    if status == "infeasible":
        return ProgramResult(ProgramStatus.INFEASIBLE, None, math.inf, math.inf if cutoff is None else cutoff)
    bound = scip.getDualbound()
    bound = -math.inf if abs(bound) >= scip.infinity() else bound - MARGIN * abs(bound)
    if cutoff is not None:
        bound = min(bound, cutoff)
    if scip.getNSols() == 0:
        return ProgramResult(ProgramStatus.UNKNOWN, None, math.inf, bound)
    best = scip.getBestSol()
    values = np.array([scip.getSolVal(best, v) for v in variables], dtype=np.float64)
    solved = status in ("optimal", "gaplimit")
    objective = model.value(values)
    return ProgramResult(
        ProgramStatus.OPTIMAL if solved else ProgramStatus.FEASIBLE, values, objective, min(bound, objective)
    )


def _watch(pyscipopt: Any, scip: Any, model: Model, variables: list[Any], calls: Callbacks) -> Any:
    events = pyscipopt.SCIP_EVENTTYPE
    kinds = (events.NODESOLVED, events.BESTSOLFOUND, events.LPSOLVED, events.PRESOLVEROUND)

    class Watch(pyscipopt.Eventhdlr):  # type: ignore[misc]
        def __init__(self) -> None:
            self.bound = -math.inf

        def eventinit(self) -> None:
            for kind in kinds:
                self.model.catchEvent(kind, self)

        def eventexit(self) -> None:
            for kind in kinds:
                self.model.dropEvent(kind, self)

        def eventexec(self, event: Any) -> None:
            if event.getType() == events.BESTSOLFOUND and calls.on_incumbent is not None:
                best = self.model.getBestSol()
                values = np.array([self.model.getSolVal(best, v) for v in variables], dtype=np.float64)
                calls.on_incumbent(values, model.value(values))
            if event.getType() == events.NODESOLVED:
                bound = self.model.getDualbound()
                if abs(bound) < self.model.infinity() and bound > self.bound:
                    self.bound = bound
                    if calls.on_bound is not None:
                        calls.on_bound(bound - MARGIN * abs(bound))
            if calls.stop():
                self.model.interruptSolve()

    return Watch()
