"""Chains of units: what the evaluator lets through, and the solver against everything there is."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from instances.strategies import examples
from partita.engines.search.result import Status
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator, UnitChain
from problems.throughput.every_chain import assigned, best_of_all, is_row, rows


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (60, {"max_operators": 5}),
        (40, {"max_operators": 5, "training": True, "memory": True}),
        (40, {"max_operators": 4, "variants": ("replicas",)}),
        (20, {"max_operators": 4, "variants": ("overlap",)}),
        (30, {"max_operators": 5, "training": True, "schedules": ("gpipe",)}),
    ],
)
def test_the_solver_finds_the_best_of_all_splits_of_a_row(count: int, wanted: dict[str, object]) -> None:
    @examples(count)
    @given(problem=rows(**wanted))
    def check(problem: ThroughputProblem) -> None:
        result = pt.solve(problem, explain=False)
        best = best_of_all(problem)
        if best is None:
            assert result.status is Status.INFEASIBLE
        else:
            assert result.solver == "row"
            assert result.status is Status.OPTIMAL
            assert result.objective == pytest.approx(best, rel=1e-9)

    check()


@examples(60)
@given(problem=rows(max_operators=5, memory=False, unsupported=False, schedules=("inference",)), data=st.data())
def test_the_evaluator_lets_rows_through_and_nothing_else(problem: ThroughputProblem, data: st.DataObject) -> None:
    plan = data.draw(st.sampled_from(list(itertools.islice(assigned(problem), 400))))
    without = evaluate(problem.replace(row=None), plan)
    if without.feasible:
        assert evaluate(problem, plan).feasible == is_row(problem, plan)


CHAIN = ThroughputProblem(
    name="chain",
    kinds=(DeviceKind(name="gpu", count=4),),
    operators=tuple(TimedOperator(id=i, times=(1.0,)) for i in range(4)),
    tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.25) for i in range(3)),
    row=UnitChain(units=((0,), (1,), (2,), (3,))),
)


def test_what_must_not_pass_over_a_stage_costs_stages() -> None:
    free = pt.solve(CHAIN)
    kept = pt.solve(CHAIN.replace(row=UnitChain(units=((0,), (1,), (2,), (3,)), handed=((0, 3),))))
    assert len(free.plan.stages) == 4
    assert len(kept.plan.stages) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (UnitChain(units=((0,), (1,), (2,))), "operator 3 is not"),
        (UnitChain(units=((0,), (1, 1), (2, 3))), "operator 1 is not"),
        (UnitChain(units=((0,), (), (1, 2, 3))), "unit 1 of its chain has no operators"),
        (UnitChain(units=((0,), (1, 2, 3)), handed=((1, 0),)), "no pair of units in order"),
        (UnitChain(units=((0,), (1, 2, 3)), handed=((0, 2),)), "no pair of units in order"),
    ],
)
def test_chains_of_other_operators_are_refused(row: UnitChain, said: str) -> None:
    with pytest.raises(InputError, match=said):
        CHAIN.replace(row=row)


@pytest.mark.parametrize("solver", ["exact", "slicing", "dpl", "annealing"])
def test_other_solvers_send_chains_on(solver: str) -> None:
    options = {"contiguity": "free"} if solver == "annealing" else {}
    with pytest.raises(UnsupportedError, match="chain"):
        pt.solve(CHAIN, solver=solver, **options)


def test_the_row_is_part_of_the_problem_file() -> None:
    again = msgspec.json.decode(msgspec.json.encode(CHAIN), type=ThroughputProblem)
    assert again == CHAIN


def staged(*groups: tuple[int, ...], kind: str = "gpu") -> Plan:
    return Plan(stages=tuple(Stage(devices=(f"{kind}:{n}",), kind=kind, operators=ids) for n, ids in enumerate(groups)))


@pytest.mark.parametrize(
    ("row", "plan", "said"),
    [
        (
            UnitChain(units=((0,), (1,), (2,), (3,)), handed=((0, 3),)),
            staged((0,), (1, 2), (3,)),
            "passes over a stage",
        ),
        (UnitChain(units=((0, 1), (2,), (3,))), staged((0,), (1, 2, 3)), "units are whole"),
        (UnitChain(units=((1,), (0,), (2,), (3,))), staged((0,), (1, 2, 3)), "nor on the next one"),
    ],
)
def test_what_breaks_a_chain_is_named(row: UnitChain, plan: Plan, said: str) -> None:
    assert said in "; ".join(evaluate(CHAIN.replace(row=row), plan).violations)


def test_only_the_first_stage_is_on_a_host() -> None:
    hosts = CHAIN.replace(
        kinds=(DeviceKind(name="cpu", count=2, accelerator=False),),
        row=UnitChain(units=((0,), (1,), (2,), (3,)), hosts_first=True),
    )
    found = evaluate(hosts, staged((0,), (1, 2, 3), kind="cpu"))
    assert "cpu:1 is no accelerator" in found.violations[0]
    assert len(pt.solve(hosts).plan.stages) == 1
