"""Packing programs against dual solutions, which prove how much is possible, and against HiGHS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.strategies import examples
from partita.engines.kernels.packing import pack, start_packing
from partita.engines.mip.model import MixedProgram
from partita.engines.mip.solve import available, solve_program


def rows_of(random: np.random.Generator) -> np.ndarray:
    """Random rows of zeros and ones, and one for each column."""
    n = int(random.integers(1, 30))
    rows = random.random((int(random.integers(0, 80)), n)) < random.uniform(0.05, 0.6)
    return np.concatenate([np.eye(n, dtype=np.bool_), rows[rows.any(axis=1)]])


def solved(rows: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Numbers, weights of the rows, and the most that is possible, in slices of three steps."""
    ptr = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int32)
    member = np.nonzero(rows)[1].astype(np.int32)
    y, x = start_packing(ptr, member, rows.shape[1])
    for _ in range(100):
        most, done = pack(ptr, member, y, x, gap, 3)
        if done:
            return y, x, most
    raise AssertionError("it does not end")


@examples(100)
@given(st.integers(0, 10**6), st.sampled_from([1e-8, 1e-3, 0.3]))
def test_rows_carry_one_at_most_and_weights_prove_the_most(seed: int, gap: float) -> None:
    rows = rows_of(np.random.default_rng(seed))
    y, x, most = solved(rows, gap)
    assert (y > 0).all()
    assert (rows @ y <= 1 + 1e-9).all()
    assert (x >= 0).all()
    assert (rows.T @ x >= 1 - 1e-6).all()
    assert most == pytest.approx(x.sum(), rel=1e-6)
    assert y.sum() <= most * (1 + 1e-9)
    assert most <= y.sum() * (1 + gap + 1e-6)


@pytest.mark.skipif(not available("highs"), reason="needs HiGHS")
def test_it_finds_what_highs_finds() -> None:
    for seed in range(8):
        rows = rows_of(np.random.default_rng(seed))
        model = MixedProgram()
        for _ in range(rows.shape[1]):
            model.add_continuous(0.0, 1.0, -1.0)
        for row in rows:
            model.add_row([(int(v), 1.0) for v in np.flatnonzero(row)], upper=1.0)
        answer = solve_program(model, "highs")
        assert answer.values is not None
        assert solved(rows, 1e-9)[0].sum() == pytest.approx(float(answer.values.sum()), rel=1e-6)
