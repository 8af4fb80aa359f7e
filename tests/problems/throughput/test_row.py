"""Rows of units: what the evaluator lets through, and the solver against everything there is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from partita.errors import InputError, UnsupportedError
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.plan import Plan, Stage
from partita.problems.throughput.problem import DeviceKind, Operator, Tensor, ThroughputProblem
from partita.problems.throughput.row import Row
from partita.run.result import Status
from strategies import examples, throughput_problems

MOST_STAGES = 4


@st.composite
def rows(draw: st.DrawFn, **wanted: object) -> ThroughputProblem:
    """A problem with a row: its operators in some order, cut into units."""
    problem = draw(throughput_problems(max_devices=4, max_count=3, kinds=(1, 2), **wanted))
    ids = [op.id for op in problem.operators]
    order = ids if draw(st.booleans()) else draw(st.permutations(ids))
    cuts = [draw(st.integers(0, 2)) > 0 for _ in order[1:]]
    units = [[order[0]]]
    for identity, cut in zip(order[1:], cuts, strict=True):
        units.append([identity]) if cut else units[-1].append(identity)
    count = len(units)
    pairs = [(a, b) for a in range(count) for b in range(a + 2, count)]
    handed = draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)) if pairs else []
    return problem.replace(
        row=Row(units=tuple(map(tuple, units)), handed=tuple(handed), hosts_first=draw(st.booleans()))
    )


def assigned(problem: ThroughputProblem) -> Iterator[Plan]:
    """Stages in order, each with devices of one kind and some of the units; which ones is left to chance."""
    assert problem.row is not None
    count = len(problem.row.units)
    for stages in range(1, min(count, problem.device_count, MOST_STAGES) + 1):
        for homes in itertools.product(range(stages), repeat=count):
            if len(set(homes)) < stages:
                continue
            for kinds in itertools.product(range(len(problem.kinds)), repeat=stages):
                for replicas in itertools.product(range(1, problem.max_replicas + 1), repeat=stages):
                    plan = on_devices(problem, homes, kinds, replicas)
                    if plan is not None:
                        yield plan


def on_devices(
    problem: ThroughputProblem, homes: tuple[int, ...], kinds: tuple[int, ...], replicas: tuple[int, ...]
) -> Plan | None:
    taken = [0] * len(problem.kinds)
    stages = []
    for number, (kind, copies) in enumerate(zip(kinds, replicas, strict=True)):
        names = [f"{problem.kinds[kind].name}:{taken[kind] + i}" for i in range(copies)]
        taken[kind] += copies
        if taken[kind] > problem.kinds[kind].count:
            return None
        ids = tuple(v for unit, home in zip(problem.row.units, homes, strict=True) for v in unit if home == number)
        stages.append(Stage(device=names[0], kind=problem.kinds[kind].name, operators=ids, replicas=tuple(names[1:])))
    return Plan(stages=tuple(stages))


def is_row(problem: ThroughputProblem, plan: Plan) -> bool:
    """Whether stages are runs in order, nothing passes over one, and replicas are equal: written down once more."""
    home = {v: number for number, stage in enumerate(plan.stages) for v in stage.operators}
    homes = [home[unit[0]] for unit in problem.row.units]
    in_order = homes == sorted(homes) and all(len({home[v] for v in unit}) == 1 for unit in problem.row.units)
    near = all(homes[last] - homes[first] < 2 for first, last in problem.row.handed)
    hosts = {kind.name for kind in problem.kinds if not kind.accelerator}
    if problem.row.hosts_first and any(stage.kind in hosts for stage in plan.stages[1:]):
        return False
    return in_order and near and len({len(stage.devices) for stage in plan.stages}) == 1


def best_of_all(problem: ThroughputProblem) -> float | None:
    found = [evaluate(problem, plan) for plan in assigned(problem) if is_row(problem, plan)]
    return min((one.objective for one in found if one.feasible), default=None)


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
    operators=tuple(Operator(id=i, times=(1.0,)) for i in range(4)),
    tensors=tuple(Tensor(producer=i, consumers=(i + 1,), size=0.25) for i in range(3)),
    row=Row(units=((0,), (1,), (2,), (3,))),
)


def test_what_must_not_pass_over_a_stage_costs_stages() -> None:
    free = pt.solve(CHAIN)
    kept = pt.solve(CHAIN.replace(row=Row(units=((0,), (1,), (2,), (3,)), handed=((0, 3),))))
    assert len(free.plan.stages) == 4
    assert len(kept.plan.stages) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row(units=((0,), (1,), (2,))), "operator 3 is not"),
        (Row(units=((0,), (1, 1), (2, 3))), "operator 1 is not"),
        (Row(units=((0,), (), (1, 2, 3))), "unit 1 of its row has no operators"),
        (Row(units=((0,), (1, 2, 3)), handed=((1, 0),)), "no pair of units in order"),
        (Row(units=((0,), (1, 2, 3)), handed=((0, 2),)), "no pair of units in order"),
    ],
)
def test_rows_of_other_operators_are_refused(row: Row, said: str) -> None:
    with pytest.raises(InputError, match=said):
        CHAIN.replace(row=row)


@pytest.mark.parametrize("solver", ["exact", "slicing", "dpl", "annealing"])
def test_other_solvers_send_rows_on(solver: str) -> None:
    options = {"contiguity": "free"} if solver == "annealing" else {}
    with pytest.raises(UnsupportedError, match="row"):
        pt.solve(CHAIN, solver=solver, **options)


def test_the_row_is_part_of_the_problem_file() -> None:
    again = msgspec.json.decode(msgspec.json.encode(CHAIN), type=ThroughputProblem)
    assert again == CHAIN
