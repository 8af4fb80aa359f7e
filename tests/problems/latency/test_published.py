"""The published workloads: the best known latencies, and proofs close to them."""

from __future__ import annotations

from pathlib import Path

import pytest

import partita as pt
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.problems.latency.bounds import ChainBound
from partita.problems.latency.problem import LatencyProblem

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "dnn-partitioning" / "latency"

#: By file: a latency that a search must reach, the best that was published, and how far below a bound may be.
KNOWN = {
    "operator-bert_l-3": (408.4745, 408.47, 0.005),
    "operator-bert_l-6": (438.0625, 438.06, 0.005),
    "operator-bert_l-12": (729.60, 729.56, 0.012),
    "layer-bert24": (100.2186, 100.22, 1e-6),
    "layer-resnet50": (1156.8814, 1191.02, 1e-6),
    "layer-inceptionv3": (1199.71, 1318.08, 0.015),
}


def published(name: str) -> LatencyProblem:
    path = FOLDER / f"{name}_inference.json"
    if not path.exists():
        pytest.skip(f"{path} is not there: the published workloads lie beside the project, in ../shared/data")
    found = pt.read_problem(path, problem="latency")
    assert isinstance(found, LatencyProblem)
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "layer-inceptionv3" else []) for name in KNOWN]
)
def test_bounds_are_close(name: str) -> None:
    reached, _, gap = KNOWN[name]
    bound = ChainBound().bound(published(name), Monitor(60.0)).value
    assert reached * (1 - gap) - 1e-3 <= bound <= reached


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "layer-inceptionv3"])
def test_latencies_are_reached(name: str) -> None:
    reached, best, gap = KNOWN[name]
    result = pt.solve(published(name), time_limit_s=60.0, target=reached)
    assert result.objective <= max(reached, best)
    if gap <= 1e-6:
        assert pt.solve(published(name), time_limit_s=60.0).status is Status.OPTIMAL


#: Latencies in the published table of plans made by simple rules that do not depend on ties.
GREEDY = {"operator-bert_l-12": 867.84, "layer-bert24": 100.22}


@pytest.mark.parametrize("name", GREEDY)
def test_greedy_plans_are_the_published_ones(name: str) -> None:
    rows = pt.compare(published(name), time_limit_s=5.0)
    found = {row.name: row for row in rows}["greedy fill"]
    assert found.evaluation.objective == pytest.approx(GREEDY[name], abs=0.006)
