"""What is believed of backends that compute with tolerances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from partita.engines.mip.backend import BackendSettings, Talk
from partita.engines.mip.cautious import FEASIBILITY, linear_bound, proven, widened
from partita.engines.mip.model import Callbacks, Floats, MixedProgram
from partita.engines.mip.solve import BACKENDS, available, solve_program
from partita.engines.search.result import Status


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    if not available(request.param):
        pytest.skip(f"{BACKENDS[request.param]} is not installed")
    return str(request.param)


def chain(work: list[float], low: float, cutoff: float, edges: Sequence[tuple[int, int]] | None = None) -> MixedProgram:
    """Items cut in two along their order, the first one first: minimise the larger sum, from ``low`` to ``cutoff``.

    Scaled so that the cutoff is 1,000. Without ``edges`` the items are a row.
    """
    model, scale = MixedProgram(), 1000.0 / cutoff
    early = [model.add_binary() for _ in work]
    model.fix(early[0], 1.0)
    for v, w in itertools.pairwise(range(len(work))) if edges is None else edges:
        model.add_row([(early[v], 1.0), (early[w], -1.0)], lower=0.0)
    top = model.add_continuous(low * scale, 1000.0, 1.0)
    model.add_row([(top, -1.0), *((y, w * scale) for y, w in zip(early, work, strict=True))], upper=0.0)
    model.add_row([(top, -1.0), *((y, -w * scale) for y, w in zip(early, work, strict=True))], upper=-sum(work) * scale)
    return model


@pytest.mark.parametrize("edge", [1e-6, 1e-7, 1e-8, 1e-9])
def test_a_bound_close_below_the_optimum_is_no_reason_to_cut_it_off(backend: str, edge: float) -> None:
    """HiGHS 1.16 called these infeasible, and so proved 2002.4 of an optimum of 2000."""
    work = [2000.0, 0.4, 0.1, 0.8, 0.1, 0.4, 0.1, 0.3, 0.2]
    edges = ((0, 2), (0, 1), (1, 3), (2, 3), (3, 4), (4, 5), (5, 7), (5, 6), (6, 8), (7, 8))
    best = max(work[0], sum(work[1:]))
    for share in (0.02, 0.9, 0.95, 0.999, 1.5):
        low = best - share * edge * 2.00235
        result = solve_program(chain(work, low, 2002.35, edges), backend, time_limit_s=20)
        assert result.status is Status.OPTIMAL
        assert result.bound <= best / 2.00235
        assert result.bound == pytest.approx(best / 2.00235, rel=1e-6)


def test_large_and_tiny_items_together(backend: str) -> None:
    """Sums of work whose sizes differ by a million and more; lower bounds and cutoffs as close as can be."""
    rng = np.random.default_rng(11)
    refuted = found = 0
    for _ in range(12):
        sizes = 10.0 ** rng.integers(-6, 1, 7)
        work = (np.round(rng.random(7) * 9 + 1) * sizes * 10.0 ** rng.integers(-4, 5)).tolist()
        best = min(max(sum(work[:i]), sum(work[i:])) for i in range(1, len(work) + 1))
        for low, cutoff in (
            (best * (1 - 1e-9), 1.5 * best),
            (best, best * (1 + 1e-7)),
            (0.5 * best, best * (1 - 1e-6)),
        ):
            result = solve_program(chain(work, low, cutoff), backend, time_limit_s=20)
            if cutoff < best:
                assert result.status is Status.INFEASIBLE
                refuted += 1
            else:
                assert result.status is Status.OPTIMAL
                assert result.bound * cutoff / 1000.0 <= best
                assert result.bound * cutoff / 1000.0 == pytest.approx(best, rel=1e-6)
                found += 1
    assert (refuted, found) == (12, 24)


def _points(rng: np.random.Generator) -> tuple[MixedProgram, Floats]:
    """A program with a point that is on the edge of many of its rows."""
    model, n = MixedProgram(), 6
    point = np.where(rng.random(n) < 0.5, rng.integers(0, 2, n), np.round(rng.random(n) * 9, 3)).astype(np.float64)
    for x in point:
        if x in (0.0, 1.0):
            model.add_binary(float(rng.random()))
        else:
            model.add_continuous(float(x) if rng.random() < 0.3 else 0.0, 10.0, float(rng.random()))
    for _ in range(5):
        coefficients = np.where(rng.random(n) < 0.4, 0.0, rng.normal(size=n) * 10.0 ** rng.integers(-12, 4, n))
        value = float(coefficients @ point)
        sides = {"upper": value} if rng.random() < 0.5 else {"lower": value, "upper": value}
        model.add_row(list(enumerate(coefficients.tolist())), **sides)
    model.add_row([(v, 1.0) for v in range(n) if model.binary[v]], upper=float(n))
    return model, point


@pytest.mark.parametrize("backend", [name for name in BACKENDS if BACKENDS[name].open_ranges])
def test_coefficients_that_forbid(backend: str) -> None:
    """One of 3·10⁸ says that two variables are equal: HiGHS's presolve cut off the optimum."""
    model = MixedProgram()
    a, b, c, d, e, f = (model.add_binary() for _ in range(6))
    largest = model.add_continuous(516.1290317419345, 1000.0, 1.0)
    for u, v in ((a, b), (b, c), (e, f)):
        model.add_row([(u, 1.0), (v, -1.0)], lower=0.0)
    small = [(b, 322.58064516129025), *((v, 129.0322580645161) for v in (d, e, f))]
    model.add_row([(largest, -1.0), (a, 322580967.7419354), *small, (c, -322580645.1612902)], upper=0.0)
    rest = [(a, 322580322.5806451), *((v, -cost) for v, cost in small), (c, -322580645.1612902)]
    model.add_row([(largest, -1.0), *rest], upper=-1032.2580645161288)
    if not available(backend):
        pytest.skip(f"{backend} is not installed")
    optimum = 645.1612903225805
    answer = solve_program(model, backend, gap=1e-7)
    # Next to such a coefficient all others are nothing; programs keep theirs below twice the largest load of interest.
    assert 516.1289 <= answer.bound <= optimum


def test_points_lie_inside_of_the_wider_program() -> None:
    """By more than a tolerance of what its rows compare, where they are not of whole numbers."""
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(200):
        model, point = _points(rng)
        wider = widened(model)
        assert wider.rows[-1] == model.rows[-1]
        assert wider.cost == model.cost
        for variables, coefficients, lower, upper in wider.rows[:-1]:
            if not variables:
                continue
            compared += 1
            value = math.fsum(c * point[v] for v, c in zip(variables, coefficients, strict=True))
            assert lower + FEASIBILITY < value < upper - FEASIBILITY
        for v in range(model.size):
            room = 0.0 if model.binary[v] or model.upper[v] == 1.0 else FEASIBILITY
            assert wider.lower[v] + room <= point[v] <= wider.upper[v] - room
    assert compared > 900


def test_what_is_given_up_is_little() -> None:
    model = chain([3.0, 1.0, 2.0], 0.0, 4.0)
    assert proven(model, 750.0, 1e-7) == pytest.approx(750.0, rel=2e-7)
    assert proven(model, 750.0, 0.0) < 750.0
    assert proven(model, math.inf, 0.0) == proven(model, -math.inf, 0.0) == -math.inf
    model.add_continuous()
    assert proven(model, 750.0, 0.0) == -math.inf, "a range without an end: reduced costs might add anything"


def _linear(rng: np.random.Generator) -> MixedProgram:
    model = MixedProgram()
    sizes = 10.0 ** rng.integers(-4, 5, 5)
    for v in range(5):
        model.add_continuous(0.0, float(rng.integers(1, 5)) / sizes[v], float(rng.normal() * sizes[v]))
    for _ in range(4):
        row = [(v, float(rng.integers(-3, 4) * sizes[v])) for v in range(5)]
        model.add_row(row, lower=-float(rng.integers(0, 9)), upper=float(rng.integers(0, 9)))
    return model


def test_any_multipliers_prove_no_more_than_the_optimum() -> None:
    if not available("highs"):
        pytest.skip("highspy is not installed")
    rng = np.random.default_rng(7)
    for _ in range(25):
        model = _linear(rng)
        result = solve_program(model, "highs")
        assert result.status is Status.OPTIMAL
        assert result.bound <= result.objective + 1e-9 * abs(result.objective)
        assert result.bound == pytest.approx(result.objective, rel=1e-6, abs=1e-6)
        for _ in range(5):
            assert linear_bound(model, rng.normal(size=4)) <= result.objective + 1e-6 * abs(result.objective)


def test_multipliers_prove_nothing_over_ranges_without_an_end() -> None:
    model = MixedProgram()
    x = model.add_continuous(0.0, math.inf, 1.0)
    model.add_row([(x, 2.0)], lower=3.0)
    assert linear_bound(model, np.array([0.25])) == pytest.approx(0.75)
    assert linear_bound(model, np.array([0.75])) == -math.inf
    assert linear_bound(model, np.array([-1.0])) == 0.0, "the row has no upper side"


def test_every_run_of_cpsat_keeps_off_what_cuts_off_optima(monkeypatch: pytest.MonkeyPatch) -> None:
    """OR-Tools 9.15 does, when it looks for rows inside each other, whatever the model is made from."""
    if not available("cpsat"):
        pytest.skip("ortools is not installed")
    from ortools.sat.python import cp_model

    from engines.mip.test_schedule import model as schedule
    from partita.engines.mip import cpsat, cpsat_schedule

    seen: list[tuple[int, int, int]] = []
    solve = cp_model.CpSolver.solve

    def watched(self: Any, *arguments: Any) -> Any:
        own = self.parameters
        seen.append((own.presolve_inclusion_work_limit, own.num_workers, own.random_seed))
        return solve(self, *arguments)

    monkeypatch.setattr(cp_model.CpSolver, "solve", watched)
    settings = BackendSettings(threads=1, seed=5)
    for module, program in ((cpsat, chain([3.0, 1.0, 2.0], 0.0, 4.0)), (cpsat_schedule, schedule())):
        answer = module.solve(program, settings, Talk(program, Callbacks(), None))  # type: ignore[arg-type]
        assert answer.solved
    assert seen == [(0, 1, 5)] * 2
