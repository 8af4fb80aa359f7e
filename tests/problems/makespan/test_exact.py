"""Solvers against trying everything, and separators against one model of the whole problem."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from instances.strategies import examples, halves
from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.schedules import devices_of, left_shifted, list_schedule, order_of, starts_of
from partita.problems.makespan.separators import chain_of
from partita.problems.makespan.solvers.path import ShortestPath
from partita.problems.makespan.solvers.program import MakespanProgram, prove_by_program
from problems.makespan.brute_force import best_makespan
from problems.makespan.samples import fork_joins, row
from problems.makespan.strategies import chain_problems, makespan_problems

needs_program = pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")

FAMILIES = {
    "plain": makespan_problems(),
    "limits": makespan_problems(limits=True),
    "switches": makespan_problems(congestion=None),
    "no congestion": makespan_problems(congestion=False, limits=True),
    "thirds": makespan_problems(thirds=True, limits=True),
    "chains": chain_problems(blocks=(1, 3), most=2),
}


def close(left: float, right: float) -> bool:
    return abs(left - right) <= 1e-6 * max(1.0, abs(right))


@st.composite
def tight_chains(draw: st.DrawFn) -> MakespanProblem:
    """Chains whose memory couples the blocks."""
    problem = draw(chain_problems(blocks=(2, 3), most=2))
    operators = tuple(
        msgspec.structs.replace(op, memory=draw(halves(0, 2)), colocation=draw(st.sampled_from((None, None, 1))))
        for op in problem.operators
    )
    total = sum(op.memory for op in operators)
    room = draw(halves(0, 2)) + math.ceil(total / 2)
    return problem.replace(
        operators=operators, devices=tuple(Device(name=d.name, memory=float(room)) for d in problem.devices)
    )


@needs_program
@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_of_the_whole_problem(family: str) -> None:
    """CP-SAT alone, from nothing: the true optimum, or a proof that there is no schedule; at least 200 in all."""
    checked = [0]

    @examples(45)
    @given(FAMILIES[family])
    def run(problem: MakespanProblem) -> None:
        checked[0] += 1
        instance, best = build_instance(problem), Incumbent[MakespanPlan]()
        assert prove_by_program(instance, best, lambda: False, time_s=30.0, options=MakespanOptions())
        optimum = best_makespan(problem)
        if optimum is None:
            assert best.infeasible
            return
        assert close(best.value, optimum)
        assert close(best.bound, optimum)
        assert simple_bound(instance) <= optimum * (1 + 1e-9)

    run()
    assert checked[0] * len(FAMILIES) >= 200


@needs_program
def test_operators_that_take_no_time() -> None:
    """Everything but the last operator may run at once at the start; OR-Tools 9.15 cut that off by itself."""
    sixth, link = 1 / 6, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    rows = ((None, 0.0, 0.0), (None, 0.0, sixth), (0.0, 0.0, 2 * sixth), (0.5, 0.0, 0.0), (sixth, sixth, sixth))
    problem = MakespanProblem(
        name="nothing",
        devices=tuple(Device(name=f"d{d}") for d in range(3)),
        operators=tuple(MakespanOperator(id=v, times=times) for v, times in enumerate(rows)),
        flows=(MakespanFlow(id=0, source=0, target=3, times=link),),
    )
    best = Incumbent[MakespanPlan]()
    assert prove_by_program(build_instance(problem), best, lambda: False, time_s=30.0, options=MakespanOptions())
    assert close(best.value, sixth)


@needs_program
@pytest.mark.parametrize("family", [*FAMILIES, "tight chains"])
def test_the_exact_solver(family: str) -> None:
    checked = [0]

    @examples(40)
    @given(tight_chains() if family == "tight chains" else FAMILIES[family])
    def run(problem: MakespanProblem) -> None:
        checked[0] += 1
        optimum, result = best_makespan(problem), pt.solve(problem, solver="exact", explain=False, time_limit_s=30.0)
        if optimum is None:
            assert result.status is pt.Status.INFEASIBLE
        else:
            assert result.status is pt.Status.OPTIMAL
            assert close(result.objective or 0.0, optimum)

    run()
    assert checked[0] >= 20


@pytest.mark.slow
@needs_program
@pytest.mark.parametrize("solver", ["exact", "cp-sat"])
def test_five_hundred_small_problems(solver: str) -> None:
    """With and without congestion, memory, classes, separators: each solver proves what trying everything finds."""
    checked = {"feasible": 0, "infeasible": 0, "congestion": 0, "memory": 0}

    @examples(90)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        for family in FAMILIES.values():
            problem = data.draw(family)
            optimum, result = best_makespan(problem), pt.solve(problem, solver=solver, explain=False, time_limit_s=60.0)
            if optimum is None:
                assert result.status is pt.Status.INFEASIBLE
            else:
                assert result.status is pt.Status.OPTIMAL
                assert close(result.objective or 0.0, optimum)
            checked["infeasible" if optimum is None else "feasible"] += 1
            checked["congestion"] += problem.sender_congestion or problem.receiver_congestion
            checked["memory"] += any(device.memory is not None for device in problem.devices)

    run()
    assert checked["feasible"] + checked["infeasible"] >= 500
    assert min(checked["congestion"], checked["memory"]) >= 100


@needs_program
@pytest.mark.parametrize("tight", [False, True])
def test_separators_alone(tight: bool) -> None:
    """The path finds the optimum from nothing; with limits that couple blocks it stays below it."""
    checked, exact = [0], [0]

    @examples(20)
    @given(tight_chains() if tight else chain_problems(blocks=(2, 3), most=2))
    def run(problem: MakespanProblem) -> None:
        chain, best = chain_of(build_instance(problem)), Incumbent[MakespanPlan]()
        if not chain.helps:
            return
        checked[0] += 1
        ShortestPath(chain, best, MakespanOptions(), Monitor(30.0)).close()
        optimum = best_makespan(problem)
        if best.infeasible:
            assert optimum is None
            return
        assert optimum is None or best.bound <= optimum * (1 + 1e-6)
        if not tight:
            assert optimum is not None
            assert close(best.value, optimum)
            assert close(best.bound, optimum)
        exact[0] += best.closed

    run()
    assert checked[0] >= 10
    assert exact[0] >= 4


@needs_program
@pytest.mark.parametrize("seed", range(4))
def test_separators_agree_with_one_model(seed: int) -> None:
    """On blocks that trying everything cannot do."""
    problem = fork_joins(seed, blocks=3, inside=4, devices=2)
    instance = build_instance(problem)
    chain, best, whole = chain_of(instance), Incumbent[MakespanPlan](), Incumbent[MakespanPlan]()
    assert len(chain.separators) >= 4
    ShortestPath(chain, best, MakespanOptions(), Monitor(60.0)).close()
    assert best.closed
    assert prove_by_program(instance, whole, lambda: False, time_s=60.0, options=MakespanOptions())
    assert close(best.value, whole.value)


def test_equal_blocks_are_one() -> None:
    """Blocks that differ in ids only have one key; another time, and they have two."""
    again = fork_joins(5, blocks=1, inside=3, devices=2)
    operators = [msgspec.structs.replace(op, name=f"{k}") for k in range(2) for op in again.operators[k > 0 :]]
    operators = [msgspec.structs.replace(op, id=v) for v, op in enumerate(operators)]
    size = len(again.operators) - 1
    flows = [
        msgspec.structs.replace(f, id=f.id + k * 100, source=f.source + k * size, target=f.target + k * size)
        for k in range(2)
        for f in again.flows
    ]
    twice = again.replace(operators=tuple(operators), flows=tuple(flows))
    chain = chain_of(build_instance(twice))
    inner = [block for block in chain.blocks if block.members]
    assert len(inner) >= 2
    assert len({block.key for block in inner}) == len(inner) // 2
    changed = [msgspec.structs.replace(op, times=(9.0, 9.0)) if op.id == size + 2 else op for op in operators]
    chain = chain_of(build_instance(twice.replace(operators=tuple(changed))))
    assert len({block.key for block in chain.blocks if block.members}) > len(inner) // 2


def test_a_flow_past_an_operator_makes_it_no_separator() -> None:
    """A pair without data does not."""
    chain = row((1.0, 2.0, 3.0, 4.0), devices=2)
    assert len(chain_of(build_instance(chain)).separators) == 4
    pair = chain.replace(precedence=((0, 2),))
    assert len(chain_of(build_instance(pair)).separators) == 4
    past = chain.replace(flows=(*chain.flows, msgspec.structs.replace(chain.flows[0], id=99, source=0, target=2)))
    found = chain_of(build_instance(past))
    assert [past.operators[s].id for s in found.separators] == [0, 2, 3]


@pytest.mark.parametrize("family", FAMILIES)
def test_schedules_of_devices_and_orders(family: str) -> None:
    """The list scheduler and the shift to the left keep everything but memory, and the shift is never later."""
    checked = [0]

    @examples(60)
    @given(FAMILIES[family], st.randoms(use_true_random=False))
    def run(problem: MakespanProblem, rng: Any) -> None:
        instance = build_instance(problem)
        if not all(instance.choices):
            return
        chosen = [rng.choice(able) for able in instance.choices]
        homes = {v: d for d, members in zip(chosen, problem.classes(), strict=True) for v in members}
        checked[0] += 1
        device = [homes[v] for v in range(instance.count)]
        for insertion in (True, False):
            plan = list_schedule(instance, device, instance.order, insertion=insertion)
            found = evaluate(problem, plan)
            assert [text for text in found.violations if " holds " not in text] == []
            assert devices_of(instance, plan) == device
            shifted = left_shifted(instance, device, *starts_of(instance, plan))
            again = evaluate(problem, shifted)
            assert [text for text in again.violations if " holds " not in text] == []
            assert again.objective <= found.objective * (1 + 1e-12)
            later = list_schedule(instance, device, order_of(instance, plan), insertion=insertion)
            assert [text for text in evaluate(problem, later).violations if " holds " not in text] == []

    run()
    assert checked[0] >= 20


def test_without_ortools_the_default_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "it needs ortools; install it with: pip install 'partita[solvers]'"
    for module in ("exact", "program"):
        monkeypatch.setattr(f"partita.problems.makespan.solvers.{module}.schedule_refusal", lambda: refusal)
    problem = fork_joins(1, blocks=1, inside=2, devices=2)
    assert pt.solve(problem, time_limit_s=5.0).solver == "annealing"
    assert MakespanProgram().supports(problem, MakespanOptions()) == refusal


@needs_program
def test_blocks_that_stand_at_several_places() -> None:
    """Their cuts differ from place to place, and one proof must not be taken for another."""
    for seed in range(3):
        one = fork_joins(seed, blocks=1, inside=4, devices=2)
        size, copies = len(one.operators) - 1, 4
        operators = [
            msgspec.structs.replace(op, id=op.id + k * size) for k in range(copies) for op in one.operators[k > 0 :]
        ]
        flows = [
            msgspec.structs.replace(f, id=f.id + k * 100, source=f.source + k * size, target=f.target + k * size)
            for k in range(copies)
            for f in one.flows
        ]
        instance = build_instance(one.replace(operators=tuple(operators), flows=tuple(flows)))
        best, whole = Incumbent[MakespanPlan](), Incumbent[MakespanPlan]()
        ShortestPath(chain_of(instance), best, MakespanOptions(), Monitor(60.0)).close()
        assert best.closed
        assert prove_by_program(instance, whole, lambda: False, time_s=60.0, options=MakespanOptions())
        assert close(best.value, whole.value)
