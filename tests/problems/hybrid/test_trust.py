"""A wrong refutation is found out by the plan that it rules out."""

from __future__ import annotations

import pytest

from partita.engines.search.monitor import Monitor
from partita.ground.errors import DisagreementError
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.solvers.decision import Family
from partita.problems.hybrid.steady.solvers.exact import HybridExact


def test_a_refuted_target_above_a_plan_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = HybridProblem(
        name="row",
        layers=tuple(
            Layer(id=i, configurations={1: (Configuration(id="plain", time=1.0 + i % 3, weight_bytes=0.0),)})
            for i in range(6)
        ),
        devices=2,
        microbatches=2,
        memory_bytes=1.0,
        bandwidth_bytes_per_unit=1.0,
    )
    honest = HybridExact().solve(problem, HybridOptions(), Monitor())
    assert honest.bound is not None
    least = honest.bound
    decide = Family.decide

    def wrong(self: Family, target: float) -> tuple[float, Plan] | bool | None:
        return False if target < 1.5 * least else decide(self, target)

    monkeypatch.setattr(Family, "decide", wrong)
    with pytest.raises(DisagreementError, match="decision claims bound"):
        HybridExact().solve(problem, HybridOptions(), Monitor())
