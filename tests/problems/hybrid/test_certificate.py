"""Proofs that no plan reaches a target, checked by a second program."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import partita as pt
from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.certificate import refutation
from partita.problems.hybrid.steady.solvers.exact import HybridExact
from problems.hybrid.check_certificate import check
from problems.hybrid.independent_evaluator import judge
from problems.hybrid.strategies import hybrid_problems, machine_problems


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


def published(where: Path, name: str, devices: int, gib: float, microbatches: int, *, per_batch: bool) -> HybridProblem:
    path = where / "piper" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    problem = pt.read_problem(path)
    assert isinstance(problem, HybridProblem)
    return problem.replace(
        devices=devices,
        memory_bytes=gib * 2**30,
        microbatches=microbatches,
        bandwidth_bytes_per_unit=25 * 2**30,
        weight_sync_per_batch=per_batch,
    )


@pytest.mark.parametrize("devices", [8, pytest.param(32, marks=pytest.mark.slow)])
def test_the_bound_of_a_published_problem_is_proven(published_data: Path, devices: int) -> None:
    """BERT-32: plan and bound meet, and both are checked by programs that share nothing with the solver."""
    problem = published(published_data, "bert32a100", devices, 8, 512, per_batch=True)
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    assert outcome.plan is not None
    assert outcome.bound is not None
    value, broken = judge(problem, outcome.plan)
    assert broken == []
    assert value == pytest.approx(outcome.bound, rel=1e-6)
    proof = refutation(problem, outcome.bound * (1 - 1e-9))
    assert proof is not None
    assert check(problem, proof) is None


def test_a_published_plan_is_what_it_says(published_data: Path) -> None:
    """GNMT on two devices, where the published plan takes 263.354."""
    problem = published(published_data, "gnmt", 2, 2.5, 256, per_batch=False)
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    assert outcome.plan is not None
    value, broken = judge(problem, outcome.plan)
    assert broken == []
    assert value <= 263.354 * (1 + 1e-4)
