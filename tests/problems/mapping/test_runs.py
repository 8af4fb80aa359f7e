"""Runs of columns, in the bound by thresholds: against proven optima, and where rings have to turn."""

from __future__ import annotations

import pytest

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.bounds import patterns
from partita.problems.mapping.bounds.domains import Thresholds
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import consecutive
from partita.problems.mapping.problem import Placement
from partita.problems.mapping.whole_columns import settle_columns
from problems.mapping.large_problems import heavy_ring, pipeline_on


@pytest.mark.parametrize(
    ("where", "stages", "replicas"), [("mesh:3x4", 2, 5), ("mesh:3x4", 3, 4), ("torus:3x4", 2, 6), ("uniform:12", 3, 4)]
)
def test_runs_of_columns_raise_bounds_to_the_optimum_and_not_above(
    monkeypatch: pytest.MonkeyPatch, where: str, stages: int, replicas: int
) -> None:
    """A run of all columns is a mapping but for what was placed long ago."""
    raised = 0
    for seed in range(3):
        problem = pipeline_on(where, stages, replicas, seed)
        instance, best = MappingInstance(problem), Incumbent[Placement]()
        instance.offer(best, consecutive(instance), "construction")
        settle_columns(instance, best)
        assert best.closed
        with_runs = Thresholds().bound(problem, Monitor()).value
        assert 0.998 * best.value <= with_runs <= best.value
        with monkeypatch.context() as shorter:
            shorter.setattr(patterns, "RUN", 0)
            raised += Thresholds().bound(problem, Monitor()).value < 0.999 * with_runs
    assert raised >= {"mesh:3x4": 3 if replicas == 5 else 1, "uniform:12": 1}.get(where, 0)


def test_a_ring_has_to_turn_on_a_torus() -> None:
    """Twelve columns in a row have no room in six rows, and what turns takes longer."""
    problem = heavy_ring("torus:6x6", 3, 12)
    assert Thresholds().bound(problem, Monitor()).value > 0.0311
