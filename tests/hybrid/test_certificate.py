"""Proofs that no plan reaches a target, checked by a second program."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hybrid.check_certificate import check
from hybrid.strategies import hybrid_problems, machine_problems
from partita.errors import InputError
from partita.hybrid.certificate import refutation
from partita.hybrid.problem import Configuration, HybridProblem, Layer
from partita.hybrid.solvers.exact import HybridExact
from partita.hybrid.solvers.protocol import HybridOptions
from partita.result import Monitor


def check_bound(problem: HybridProblem) -> None:
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    bound = outcome.bound
    if outcome.infeasible:
        proof = refutation(problem, 1e6)
    else:
        assume(bound is not None and bound > 0)
        assert bound is not None
        proof = refutation(problem, bound * (1 - 1e-9))
        assert outcome.plan is not None
        assert refutation(problem, bound * (1 + 1e-6) + 1e-9) is None
    assert proof is not None
    assert check(problem, proof) is None


@given(hybrid_problems(max_layers=4))
@settings(max_examples=60)
def test_bounds_are_proven(problem: HybridProblem) -> None:
    check_bound(problem)


@given(machine_problems(max_layers=3))
@settings(max_examples=40)
def test_bounds_on_machines_are_proven(problem: HybridProblem) -> None:
    check_bound(problem)


@given(hybrid_problems(max_layers=3), st.floats(0.3, 0.95))
@settings(max_examples=40)
def test_a_proof_of_too_much_is_found_out(problem: HybridProblem, part: float) -> None:
    """The proof for a smaller target does not hold for one that a plan reaches."""
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    assume(outcome.plan is not None and outcome.bound is not None and outcome.bound > 0)
    assert outcome.bound is not None
    proof = refutation(problem, outcome.bound * part)
    assert proof is not None
    assert check(problem, proof) is None
    assert check(problem, msgspec.structs.replace(proof, target=outcome.bound * (1 + 1e-6) + 1e-9)) is not None


def test_targets_must_be_positive() -> None:
    layer = Layer(id=0, configurations={1: (Configuration(id="c", time=1.0),)})
    problem = HybridProblem(name="one", devices=1, bandwidth_bytes_per_unit=1.0, microbatches=1, layers=(layer,))
    with pytest.raises(InputError, match="must be positive"):
        refutation(problem, 0.0)
