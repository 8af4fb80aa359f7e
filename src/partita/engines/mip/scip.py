"""SCIP as a backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partita.engines.mip.backend import BackendAnswer, BackendSettings, Talk
from partita.engines.mip.cautious import FEASIBILITY
from partita.engines.mip.model import Floats, MixedProgram

#: It computes with tolerances.
EXACT = False


def solve(program: MixedProgram, settings: BackendSettings, talk: Talk) -> BackendAnswer:
    """One thread, whatever was asked for."""
    import pyscipopt

    scip = pyscipopt.Model()
    scip.hideOutput()
    # Ctrl-C is the caller's business.
    scip.setParam("misc/catchctrlc", False)
    scip.setParam("lp/threads", 1)
    scip.setParam("randomization/randomseedshift", settings.seed % 2**30)
    scip.setParam("limits/gap", settings.gap)
    for name in ("feastol", "dualfeastol", "sumepsilon"):
        scip.setParam(f"numerics/{name}", FEASIBILITY)
    variables = [
        scip.addVar(
            vtype=("B" if program.upper[v] <= 1 else "I") if program.binary[v] else "C",
            lb=None if math.isinf(program.lower[v]) else program.lower[v],
            ub=None if math.isinf(program.upper[v]) else program.upper[v],
            obj=program.cost[v],
        )
        for v in range(program.size)
    ]
    for columns, coefficients, lower, upper in program.rows:
        if not columns:
            if lower > 0 or upper < 0:
                return BackendAnswer(infeasible=True)
            continue
        total = pyscipopt.quicksum(c * variables[v] for v, c in zip(columns, coefficients, strict=True))
        if math.isfinite(lower) and lower == upper:
            scip.addCons(total == lower)
            continue
        if math.isfinite(upper):
            scip.addCons(total <= upper)
        if math.isfinite(lower):
            scip.addCons(total >= lower)
    if settings.warm_start is not None:
        start = scip.createSol()
        for v, x in enumerate(settings.warm_start):
            scip.setSolVal(start, variables[v], float(x))
        scip.addSol(start)
    scip.includeEventhdlr(_watch(pyscipopt, variables, talk), "watch", "reports and stops")
    if talk.stop():
        return BackendAnswer()
    if (left_s := settings.left_s) is not None:
        scip.setParam("limits/time", left_s)
    scip.optimizeNogil()
    status = scip.getStatus()
    values = _values(scip, variables) if scip.getNSols() > 0 else None
    return BackendAnswer(values, _bound(scip), status in ("optimal", "gaplimit"), status == "infeasible")


def _values(scip: Any, variables: list[Any]) -> Floats:
    """The best solution."""
    best = scip.getBestSol()
    return np.array([scip.getSolVal(best, v) for v in variables], dtype=np.float64)


def _bound(scip: Any) -> float:
    bound = float(scip.getDualbound())
    return bound if abs(bound) < scip.infinity() else -math.inf


def _watch(pyscipopt: Any, variables: list[Any], talk: Talk) -> Any:
    events = pyscipopt.SCIP_EVENTTYPE
    kinds = (events.NODESOLVED, events.BESTSOLFOUND, events.LPSOLVED, events.PRESOLVEROUND)

    class _Events(pyscipopt.Eventhdlr):  # type: ignore[misc]
        def eventinit(self) -> None:
            for kind in kinds:
                self.model.catchEvent(kind, self)

        def eventexit(self) -> None:
            for kind in kinds:
                self.model.dropEvent(kind, self)

        def eventexec(self, event: Any) -> None:
            if event.getType() == events.BESTSOLFOUND:
                talk.incumbent(_values(self.model, variables))
            # Nodes are solved in three ways, of which this is the mask.
            if event.getType() & events.NODESOLVED:
                talk.bound(_bound(self.model))
            if talk.stop():
                self.model.interruptSolve()

    return _Events()
