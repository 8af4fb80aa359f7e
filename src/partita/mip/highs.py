"""HiGHS as a backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partita.mip.model import Callbacks, Floats, Model, ProgramResult, ProgramStatus

#: Relative gap at which a central point is near enough.
CENTRAL_GAP = 1e-3

__all__ = ["run_highs"]

#: Share of a bound given up for what floating point may have gained.
MARGIN = 1e-7


def run_highs(
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
    """See ``solve_program``."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    if time_limit_s is not None:
        highs.setOptionValue("time_limit", max(0.0, time_limit_s))
    # HiGHS shares one pool of threads per process, whose size the first run decides: one thread, always.
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("parallel", "off")
    highs.setOptionValue("random_seed", seed % 2**31)
    highs.setOptionValue("mip_rel_gap", gap)
    highs.setOptionValue("mip_abs_gap", 0.0)
    if central:
        highs.setOptionValue("solver", "ipm")
        highs.setOptionValue("run_crossover", "off")
        highs.setOptionValue("ipm_optimality_tolerance", CENTRAL_GAP)
    highs.passModel(_program(highspy, model))
    if warm_start is not None:
        start = highspy.HighsSolution()
        start.col_value = warm_start.tolist()
        highs.setSolution(start)
    state = {"bound": -math.inf, "objective": math.inf}

    def poll(event: Any) -> None:
        bound = event.data_out.mip_dual_bound
        if math.isfinite(bound) and bound > state["bound"]:
            state["bound"] = bound
            if calls.on_bound is not None:
                calls.on_bound(_cautious(bound))
        if calls.stop():
            event.data_in.user_interrupt = True

    def improved(event: Any) -> None:
        objective = float(event.data_out.objective_function_value)
        if objective < state["objective"]:
            state["objective"] = objective
            if calls.on_incumbent is not None:
                calls.on_incumbent(np.array(event.data_out.mip_solution, dtype=np.float64), objective)

    def offer(event: Any) -> None:
        if calls.better is None:
            return
        found = calls.better(float(event.data_out.mip_primal_bound))
        if found is not None:
            event.data_in.setSolution(found)

    highs.cbMipInterrupt += poll
    highs.cbMipImprovingSolution += improved
    if calls.better is not None:
        highs.cbMipUserSolution += offer
    highs.run()
    return _result(highspy, highs, model, state["bound"], cutoff)


def _cautious(bound: float) -> float:
    return bound - MARGIN * abs(bound)


def _program(highspy: Any, model: Model) -> Any:
    lp = highspy.HighsLp()
    infinity = highspy.kHighsInf
    lp.num_col_, lp.num_row_ = model.size, len(model.rows)
    lp.col_cost_ = np.array(model.cost, dtype=np.float64)
    lp.col_lower_ = np.clip(np.array(model.lower, dtype=np.float64), -infinity, infinity)
    lp.col_upper_ = np.clip(np.array(model.upper, dtype=np.float64), -infinity, infinity)
    lp.row_lower_ = np.array([row[2] for row in model.rows], dtype=np.float64)
    lp.row_upper_ = np.array([row[3] for row in model.rows], dtype=np.float64)
    starts = np.zeros(len(model.rows) + 1, dtype=np.int32)
    np.cumsum([len(row[0]) for row in model.rows], out=starts[1:])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = starts
    lp.a_matrix_.index_ = np.array([v for row in model.rows for v in row[0]], dtype=np.int32)
    lp.a_matrix_.value_ = np.array([c for row in model.rows for c in row[1]], dtype=np.float64)
    integer, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    lp.integrality_ = [integer if binary else continuous for binary in model.binary]
    return lp


def _result(highspy: Any, highs: Any, model: Model, seen: float, cutoff: float | None) -> ProgramResult:
    status, info = highs.getModelStatus(), highs.getInfo()
    codes = highspy.HighsModelStatus
    if status == codes.kInfeasible:
        return ProgramResult(ProgramStatus.INFEASIBLE, None, math.inf, math.inf if cutoff is None else cutoff)
    mip = any(model.binary)
    values, objective = None, math.inf
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(highs.getSolution().col_value, dtype=np.float64)
        objective = model.value(values)
    bound = max(seen, info.mip_dual_bound) if mip and math.isfinite(info.mip_dual_bound) else seen
    if not mip:
        bound = objective if status == codes.kOptimal else -math.inf
    if math.isfinite(bound):
        bound = _cautious(min(bound, objective))
        if cutoff is not None:
            bound = min(bound, cutoff)
    if values is None:
        return ProgramResult(ProgramStatus.UNKNOWN, None, math.inf, bound)
    solved = status == codes.kOptimal
    return ProgramResult(ProgramStatus.OPTIMAL if solved else ProgramStatus.FEASIBLE, values, objective, bound)
