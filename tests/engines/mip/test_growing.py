"""Linear programs that grow against the same programs begun anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from partita.engines.mip.growing import GrowingProgram
from partita.engines.mip.model import Floats, MixedProgram
from partita.engines.mip.solve import available, solve_program
from partita.engines.search.result import Status

pytestmark = pytest.mark.skipif(not available("highs"), reason="highspy is not installed")


def value(growing: GrowingProgram, within: tuple[Floats, Floats] | None = None) -> float:
    """The objective of the optimum; infinite if there is no point."""
    values = growing.solve(within=within, time_limit_s=20.0, stop=lambda: False)
    return math.inf if values is None else growing.program.value(values)


def begun_anew(program: MixedProgram, within: tuple[Floats, Floats] | None = None) -> float:
    """The same by the backend."""
    lower, upper = list(program.lower), list(program.upper)
    if within is not None:
        lower[: len(within[0])], upper[: len(within[1])] = within[0].tolist(), within[1].tolist()
    answer = solve_program(MixedProgram(lower, upper, program.binary, program.cost, program.rows), "highs")
    assert answer.status in (Status.OPTIMAL, Status.INFEASIBLE)
    return answer.objective


def drawn_row(rng: np.random.Generator, size: int) -> list[tuple[int, float]]:
    """Some variables with coefficients."""
    return [(int(v), float(rng.integers(1, 6))) for v in rng.choice(size, 3, replace=False)]


def test_after_new_rows_the_optimum_is_that_of_the_whole_program() -> None:
    """Two programs in turn, so that a child has the other one; bounds hold for one question alone."""
    rng, size = np.random.default_rng(3), 6
    programs = []
    for _ in range(2):
        program = MixedProgram()
        for _ in range(size):
            program.add_continuous(0.0, 4.0, -float(rng.integers(1, 9)))
        programs.append(GrowingProgram(program))
    tightened = empty = 0
    for step in range(10):
        for growing in programs[: 1 + step % 2]:
            growing.program.add_row(drawn_row(rng, size), upper=float(rng.integers(6, 20)))
            growing.program.add_row(drawn_row(rng, size), lower=float(rng.integers(0, 3)))
            free = value(growing)
            assert free == pytest.approx(begun_anew(growing.program), abs=1e-6)
            lower = rng.uniform(0.0, 2.0, size - 2)
            within = lower, lower + rng.uniform(0.0, 1.0, size - 2)
            held = value(growing, within)
            assert held == pytest.approx(begun_anew(growing.program, within), abs=1e-6)
            tightened += free < held < math.inf
            empty += held == math.inf
            assert value(growing) == pytest.approx(free, abs=1e-6)
    assert tightened >= 4
    assert empty >= 1


def test_a_run_that_is_stopped_has_no_answer() -> None:
    program = MixedProgram()
    program.add_continuous(0.0, 1.0, -1.0)
    growing = GrowingProgram(program)
    assert growing.solve(time_limit_s=20.0, stop=lambda: True) is None
    assert growing.solve(time_limit_s=0.0, stop=lambda: False) is None
    assert value(growing) == -1.0
