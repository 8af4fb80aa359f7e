"""Planners of the literature: by hand, and against published values where the files are there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given

from instances.strategies import examples, throughput_problems
from partita.api.solving import solve
from partita.conductor.compare import run_baselines
from partita.conductor.judge import adopt_better, best_of, judge_plan
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Status
from partita.ground.errors import DisagreementError
from partita.nouns.pipeline import Plan
from partita.problems import kind_of
from partita.problems.importers import read_problem
from partita.problems.throughput.baselines.free import LocalSearch, Scotch
from partita.problems.throughput.baselines.paths import PipeDreamCuts, contract_branches
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.solvers.dpl import Dpl, fixed_orders
from partita.problems.throughput.solvers.plain import plain_view
from second_opinions import brute_force


def graph(
    times: list[float], edges: dict[int, tuple[int, ...]], devices: int = 2, size: float = 1.0
) -> ThroughputProblem:
    """Operators with times and one tensor of ``size`` each."""
    return ThroughputProblem(
        name="graph",
        kinds=(DeviceKind(name="gpu", count=devices),),
        operators=tuple(TimedOperator(id=i, times=(time,)) for i, time in enumerate(times)),
        tensors=tuple(MovedTensor(producer=u, consumers=vs, size=size) for u, vs in edges.items()),
    )


#: 0 → {1, 2} → 3 → 4: a diamond and a tail.
DIAMOND = graph([1.0, 2.0, 3.0, 2.0, 4.0], {0: (1, 2), 1: (3,), 2: (3,), 3: (4,)})


def test_pipedream_contracts_a_branching() -> None:
    """Where the branches meet is a node of its own: {0, 1, 2}, {3}, {4}.

    Both branches send their own tensor: 6 + 2 and 2 + 6 after the node, or 8 + 1 and 1 + 4 after the join; 8 is best.
    """
    assert contract_branches(build_instance(DIAMOND)).tolist() == [0, 0, 0, 3, 4]
    plan = PipeDreamCuts().solve(DIAMOND, ThroughputOptions(), Monitor()).plan
    assert plan is not None
    assert [stage.operators for stage in plan.stages] == [(0, 1, 2), (3, 4)]
    assert evaluate(DIAMOND, plan).objective == 8.0


def test_pipedream_ignores_inputs() -> None:
    """A source without work read by every layer does not make the model one node."""
    problem = graph([0.0, 2.0, 2.0, 2.0], {0: (1, 2, 3), 1: (2,), 2: (3,)}, size=0.5)
    assert contract_branches(build_instance(problem)).tolist() == [0, 1, 2, 3]


def test_dpl_cuts_more_than_one_order() -> None:
    """File, depth first from either side, breadth first: all topological, none twice."""
    arrays = plain_view(DIAMOND).arrays
    orders = [order.tolist() for order in fixed_orders(arrays)]
    assert [0, 1, 2, 3, 4] in orders
    assert [0, 2, 1, 3, 4] in orders
    assert len(orders) == 2
    assert all(order.index(0) == 0 and order.index(3) == 3 for order in orders)


@examples(60)
@given(problem=throughput_problems(unsupported=False))
def test_dpl_is_no_better_than_the_optimum_and_ends(problem: ThroughputProblem) -> None:
    """Also where all loads are zero."""
    assume(Dpl().supports(problem, ThroughputOptions()) is None)
    outcome = Dpl().solve(problem, ThroughputOptions(), Monitor(20.0))
    best = brute_force.best(problem, "acyclic")
    assume(outcome.plan is not None)
    assert outcome.plan is not None
    assert best is not None
    value = evaluate(problem, outcome.plan).objective
    assert value >= best * (1 - 1e-9)
    assert outcome.bound is not None
    assert outcome.bound <= best * (1 + 1e-9) + 1e-9


def test_local_search_ends_in_a_local_optimum() -> None:
    """No single reassignment of the answer is better."""
    problem = graph([3.0, 1.0, 4.0, 1.0, 5.0, 9.0], {0: (1, 2), 1: (3,), 2: (4,), 3: (5,), 4: (5,)}, devices=3)
    options = ThroughputOptions(contiguity="free", seed=3)
    plan = LocalSearch().solve(problem, options, Monitor()).plan
    assert plan is not None
    value = evaluate(problem, plan).objective
    assert value == LocalSearchReference(problem).best_from(plan, value)
    assert plan == LocalSearch().solve(problem, options, Monitor()).plan


class LocalSearchReference:
    """All single moves, by the evaluator."""

    def __init__(self, problem: ThroughputProblem) -> None:
        self.problem = problem

    def best_from(self, plan: Plan, value: float) -> float:
        """The best objective within one move."""
        from partita.problems.throughput.baselines.layers import plan_from_labels

        names = [name for name, _ in self.problem.device_names()]
        where = {v: names.index(stage.devices[0]) for stage in plan.stages for v in stage.operators}
        instance = build_instance(self.problem, free=True)
        best = value
        for v in where:
            for place in range(len(names)):
                label = [{**where, v: place}[op.id] for op in self.problem.operators]
                moved = plan_from_labels(self.problem, instance, label, "free")
                best = min(best, evaluate(self.problem, moved).objective)
        return best


def test_scotch_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package it is refused with the install command; contiguous splits are refused, too."""
    monkeypatch.setitem(sys.modules, "pymetis", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "partita[baselines]" in str(Scotch().supports(DIAMOND, ThroughputOptions(contiguity="free")))
    assert "--contiguity free" in str(Scotch().supports(DIAMOND, ThroughputOptions()))


def test_scotch_cuts_where_little_crosses() -> None:
    """Two cliques of four joined by one thin edge are its parts."""
    pytest.importorskip("pymetis")
    edges = {i: tuple(range(i + 1, 4)) for i in range(3)} | {i: tuple(range(i + 1, 8)) for i in range(4, 7)}
    problem = graph([1.0] * 8, edges | {3: (4,)})
    plan = Scotch().solve(problem, ThroughputOptions(contiguity="free"), Monitor()).plan
    assert plan is not None
    assert sorted(stage.operators for stage in plan.stages) == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_a_better_row_is_adopted_and_a_contradiction_raises() -> None:
    """A result cut short takes the best feasible row; one that claims a proof does not survive a better one."""
    exact = solve(DIAMOND)
    rows = run_baselines(DIAMOND, ThroughputOptions())
    best = best_of(rows, ThroughputOptions())
    assert best is not None
    assert best.evaluation is not None
    assert adopt_better(exact, rows, ThroughputOptions()) == exact
    import dataclasses

    worse = evaluate(DIAMOND, run_baselines(DIAMOND, ThroughputOptions())[0].plan)  # type: ignore[arg-type]
    cut_short = dataclasses.replace(exact, evaluation=worse, bound=None, status=Status.FEASIBLE)
    adopted = adopt_better(cut_short, rows, ThroughputOptions())
    assert adopted.objective == best.evaluation.objective
    assert "adopted" in adopted.statistics.events[-1].note
    nothing = dataclasses.replace(exact, plan=None, evaluation=None, bound=None, status=Status.UNKNOWN)
    assert adopt_better(nothing, rows, ThroughputOptions()).status is Status.FEASIBLE
    with pytest.raises(DisagreementError):
        adopt_better(dataclasses.replace(nothing, status=Status.INFEASIBLE), rows, ThroughputOptions())
    false = dataclasses.replace(nothing, bound=Bound(100.0, "false", "acyclic"))
    with pytest.raises(DisagreementError):
        adopt_better(false, rows, ThroughputOptions())


PUBLISHED = [
    # Table 1 of the NeurIPS 2020 paper, milliseconds, as printed.
    ("layer-bert24_inference", "pipedream", 17.79),
    ("layer-bert24_training", "pipedream", 41.75),
    ("layer-inceptionv3_inference", "pipedream", 60.42),
    ("layer-resnet50_training", "pipedream", 83.67),
    ("operator-bert_l-3_inference", "dpl", 27.92),
    ("operator-bert_l-12_inference", "dpl", 147.48),
    ("operator-bert_l-3_training", "dpl", 65.30),
    ("layer-gnmt_inference", "dpl", 32.91),
    ("layer-bert24_training", "dpl", 41.75),
]


@pytest.mark.parametrize(("name", "solver", "value"), PUBLISHED)
def test_published_baselines(published_data: Path, name: str, solver: str, value: float) -> None:
    """PipeDream and DPL reach the printed values by definition."""
    problem = read_problem(published_data / "dnn-partitioning" / "throughput" / f"{name}.json")
    assert solve(problem, solver=solver).objective == pytest.approx(value, abs=0.0051)


@pytest.mark.parametrize(
    ("name", "split", "value"),
    [
        ("layer-bert24_inference", "bert24_inference", 20.08),
        ("layer-bert24_training", "bert24_training", 49.40),
        ("layer-gnmt_inference", "gnmt_inference", 46.21),
        ("layer-inceptionv3_inference", "inceptionv3_inference", 102.48),
        ("layer-resnet50_inference", "resnet50_inference", 43.92),
        ("layer-resnet50_training", "resnet50_inference", 112.11),
    ],
)
def test_published_experts(published_data: Path, name: str, split: str, value: float) -> None:
    """Table 1's expert column, from the splits published with it."""
    folder = published_data / "dnn-partitioning"
    problem = read_problem(folder / "throughput" / f"{name}.json")
    plan = kind_of(problem).files.read_plan(folder / "experts" / f"{split}_expert.json", problem)
    row = judge_plan(problem, "expert", "", plan)
    assert row.evaluation is not None
    assert row.evaluation.objective == pytest.approx(value, abs=0.0051)
