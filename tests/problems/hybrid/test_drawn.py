"""Every solver, bound, baseline, table and proof against all plans, on drawn instances with numbers that are hard."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from crosscheck.hybrid_problems import FAMILIES
from partita.ground.errors import UnsupportedError
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.certificate import refutation
from partita.problems.hybrid.steady.table import best_times
from problems.hybrid.check_certificate import check
from problems.hybrid.check_claims import check_claims
from problems.hybrid.samples import optimum

SMALL = [name for name in FAMILIES if not name.startswith("many")]


def is_ambiguous(problem: HybridProblem) -> bool:
    """Whether the last bit of a sum says what fits: then the evaluator and exact fractions may differ."""
    limit = problem.memory_bytes
    if limit is None or problem.others:
        return False
    less, more = (optimum(problem.replace(memory_bytes=limit * (1 + by)), HybridOptions()) for by in (-1e-14, 1e-14))
    return less != more


def check_drawn(name: str, seed: int, counts: Counter[str]) -> None:
    problem = FAMILIES[name](random.Random(f"{name} {seed}"))
    if is_ambiguous(problem):
        counts["ambiguous"] += 1
        return
    counts["asked"] += check_claims(problem)
    best = optimum(problem, HybridOptions())
    counts["infeasible" if best is None else "solved"] += 1
    if problem.training is None:
        _check_proofs(problem, best, counts)


def _check_proofs(problem: HybridProblem, best: float | None, counts: Counter[str]) -> None:
    for target in (1.0,) if best is None else (best * (1 - 1e-9), best * 0.6):
        if target > 0:
            proof = refutation(problem, target)
            assert proof is not None, target
            assert check(problem, proof) is None, target
            counts["proofs"] += 1
    if problem.hierarchy is None:
        try:
            table = best_times(problem)
        except UnsupportedError:
            return
        assert table[-1, -1] == pytest.approx(math.inf if best is None else best, rel=2e-9, abs=0.0)
        counts["tables"] += 1


@pytest.mark.parametrize("name", SMALL)
def test_claims_of_drawn_instances(name: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        check_drawn(name, seed, counts)
    assert counts["asked"] >= 7
    assert counts["solved"] >= 1
    assert counts["proofs"] >= (8 if name in ("steady", "machines") else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_claims_of_many_drawn_instances(name: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(100, 400):
        check_drawn(name, seed, counts)
    assert counts["asked"] + counts["ambiguous"] == 300
    assert counts["ambiguous"] < 30
    assert min(counts["solved"], counts["infeasible"]) >= 20
    assert counts["tables"] >= (30 if name == "steady" else 0)
