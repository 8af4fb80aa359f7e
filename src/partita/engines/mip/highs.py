"""HiGHS as a backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partita.engines.mip.backend import BackendAnswer, BackendSettings, Talk
from partita.engines.mip.cautious import FEASIBILITY, Row
from partita.engines.mip.model import Floats, MixedProgram

#: It computes with tolerances.
EXACT = False

#: HiGHS 1.16 calls solvable programs infeasible where its rule 19 of presolve, the stuffing of singleton columns, fixes
#: a variable at a bound that is within its tolerance of what a row asks for, but not beyond: it does without.
PRESOLVE_RULES_OFF = 1 << 19

#: With coefficients above this its rule 17 cut off optima, too: there it does without that as well.
LARGE, MORE_RULES_OFF = 1e5, 1 << 17

#: Relative gap at which a central point is near enough.
CENTRAL_GAP = 1e-3


def solve(program: MixedProgram, settings: BackendSettings, talk: Talk) -> BackendAnswer:
    """One thread, whatever was asked for."""
    import highspy

    highs = new_highs(large=any(abs(c) > LARGE for row in program.rows for c in row[1]))
    highs.setOptionValue("random_seed", settings.seed % 2**31)
    highs.setOptionValue("mip_rel_gap", settings.gap)
    highs.setOptionValue("mip_abs_gap", 0.0)
    if settings.central:
        highs.setOptionValue("solver", "ipm")
        highs.setOptionValue("run_crossover", "off")
        highs.setOptionValue("ipm_optimality_tolerance", CENTRAL_GAP)
    highs.passModel(matrix(program))
    if settings.warm_start is not None:
        start = highspy.HighsSolution()
        start.col_value = settings.warm_start.tolist()
        highs.setSolution(start)
    _listen(highs, talk)
    if (left_s := settings.left_s) is not None:
        highs.setOptionValue("time_limit", left_s)
    highs.run()
    return _found(highspy, highs, program)


def new_highs(*, large: bool = True) -> Any:
    """HiGHS in one thread, silent, without rules of presolve that it gets wrong, some with ``large`` numbers."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    # HiGHS shares one pool of threads per process, whose size the first run decides: one thread, always.
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("parallel", "off")
    # Versions without the rule do not take its number, and need not.
    highs.setOptionValue("presolve_rule_off", PRESOLVE_RULES_OFF | (MORE_RULES_OFF if large else 0))
    for name in ("mip", "primal", "dual"):
        highs.setOptionValue(f"{name}_feasibility_tolerance", FEASIBILITY)
    return highs


class Standing:
    """A linear program that stays, with HiGHS where it stood when it was solved last."""

    def __init__(self, program: MixedProgram) -> None:
        self.highs = new_highs()
        self.highs.passModel(matrix(program))
        self.bounds = np.array([program.lower, program.upper])

    def solve(self, rows: list[Row], within: tuple[Floats, Floats] | None) -> Floats | None:
        """(variables,) an optimum with these rows, too, and the first variables in bounds; None if none is found."""
        import highspy

        for variables, coefficients, lower, upper in rows:
            self.highs.addRow(lower, upper, len(variables), variables, coefficients)
        bounds = self.bounds.copy()
        if within is not None:
            bounds[:, : len(within[0])] = within
        self.highs.changeColsBounds(bounds.shape[1], np.arange(bounds.shape[1], dtype=np.int32), *bounds)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return np.array(self.highs.getSolution().col_value, dtype=np.float64)


def _listen(highs: Any, talk: Talk) -> None:
    lowest = math.inf

    def poll(event: Any) -> None:
        talk.bound(event.data_out.mip_dual_bound)
        if talk.stop():
            event.data_in.user_interrupt = True

    def improved(event: Any) -> None:
        nonlocal lowest
        if event.data_out.objective_function_value < lowest:
            lowest = float(event.data_out.objective_function_value)
            talk.incumbent(np.array(event.data_out.mip_solution, dtype=np.float64))

    def offer(event: Any) -> None:
        found = talk.better(float(event.data_out.mip_primal_bound)) if talk.better is not None else None
        if found is not None:
            event.data_in.setSolution(found)

    highs.cbMipInterrupt += poll
    highs.cbMipImprovingSolution += improved
    if talk.better is not None:
        highs.cbMipUserSolution += offer


def matrix(program: MixedProgram) -> Any:
    """The program as HiGHS takes it."""
    import highspy

    lp = highspy.HighsLp()
    infinity = highspy.kHighsInf
    lp.num_col_, lp.num_row_ = program.size, len(program.rows)
    lp.col_cost_ = np.array(program.cost, dtype=np.float64)
    lp.col_lower_ = np.clip(np.array(program.lower, dtype=np.float64), -infinity, infinity)
    lp.col_upper_ = np.clip(np.array(program.upper, dtype=np.float64), -infinity, infinity)
    lp.row_lower_ = np.array([row[2] for row in program.rows], dtype=np.float64)
    lp.row_upper_ = np.array([row[3] for row in program.rows], dtype=np.float64)
    starts = np.zeros(len(program.rows) + 1, dtype=np.int32)
    np.cumsum([len(row[0]) for row in program.rows], out=starts[1:])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = starts
    lp.a_matrix_.index_ = np.array([v for row in program.rows for v in row[0]], dtype=np.int32)
    lp.a_matrix_.value_ = np.array([c for row in program.rows for c in row[1]], dtype=np.float64)
    integer, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    lp.integrality_ = [integer if binary else continuous for binary in program.binary]
    return lp


def _found(highspy: Any, highs: Any, program: MixedProgram) -> BackendAnswer:
    status, info = highs.getModelStatus(), highs.getInfo()
    solved = status == highspy.HighsModelStatus.kOptimal
    values = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(highs.getSolution().col_value, dtype=np.float64)
    infeasible = status == highspy.HighsModelStatus.kInfeasible
    if any(program.binary):
        return BackendAnswer(values, float(info.mip_dual_bound), solved, infeasible)
    # Linear programs report no bound: their multipliers prove one.
    multipliers = np.array(highs.getSolution().row_dual, dtype=np.float64) if solved else None
    return BackendAnswer(values, -math.inf, solved, infeasible, multipliers)
