"""Bounds by programs against trying everything."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.program_points import violation
from instances.strategies import examples, throughput_problems
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.mip.solve import solve_program
from partita.engines.search.monitor import Monitor
from partita.problems.importers import read_problem
from partita.problems.throughput.bounds.forced_transfers import charged_at
from partita.problems.throughput.bounds.knowledge import Knowledge, simple_bound
from partita.problems.throughput.bounds.programs import exact
from partita.problems.throughput.bounds.programs.block_rows import BlockProgram, Expression, order_of
from partita.problems.throughput.bounds.programs.exact import ExactBound, MergedBound, compositions
from partita.problems.throughput.bounds.programs.minmax_program import (
    MinMaxProgram,
    ProgramMember,
    ProgramRun,
    granularity,
)
from partita.problems.throughput.bounds.programs.superblocks import BottleneckBound, GuessBound, NodeProgramBound
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from second_opinions.brute_force import best

pytest.importorskip("highspy")

small = throughput_problems(
    memory=False, kinds=(1, 1), cpus=False, unsupported=False, max_operators=6, max_count=4, supported_somewhere=True
)


def proven(member: ProgramMember, one: BlockProblem, value: float = math.inf) -> float:
    """What a member proves by itself."""
    knowledge = Knowledge(one)
    if math.isfinite(value):
        knowledge.incumbent.offer(value, None)
    member.improve(knowledge, None)
    return knowledge.bound


def usable(problem: ThroughputProblem) -> tuple[BlockProblem, float] | None:
    """The uniform problem and its optimum, where it is one."""
    if ExactBound().supports(problem) is not None:
        return None
    one = uniform(problem)
    return (one, optimum(one)) if one.runs and one.items else None


def optimum(one: BlockProblem) -> float:
    """The best split of the uniform problem: blocks are taken from the front, each closed under predecessors."""
    n = one.items
    before = [sum(1 << int(u) for u in one.graph.before(v)) for v in range(n)]
    ideals = [s for s in range(1 << n) if all(before[v] & ~s == 0 for v in range(n) if s >> v & 1)]
    load: dict[int, float] = {}

    def f(members: int) -> float:
        if members not in load:
            load[members] = one.load(np.array([bool(members >> v & 1) for v in range(n)]))
        return load[members]

    value = {s: f(s) for s in ideals}
    for _ in range(one.devices - 1):
        value = {s: min(max(value[t], f(s & ~t)) for t in ideals if t & ~s == 0) for s in ideals}
    return value[(1 << n) - 1]


@given(small)
@examples(20)
def test_no_program_exceeds_the_optimum_and_stronger_ones_prove_more(problem: ThroughputProblem) -> None:
    found = usable(problem)
    assume(found is not None)
    assert found is not None
    one, value = found
    simple, bottleneck = simple_bound(one), proven(BottleneckBound(), one)
    guess, exact = proven(GuessBound(), one), proven(ExactBound(), one)
    assert simple <= bottleneck <= guess <= exact
    assert exact == pytest.approx(value, rel=1e-9)
    for member in (NodeProgramBound(), MergedBound()):
        assert simple <= proven(member, one) <= value


@given(small)
@examples(40)
def test_known_values_change_no_proof(problem: ThroughputProblem) -> None:
    found = usable(problem)
    assume(found is not None)
    assert found is not None
    one, value = found
    for member in (BottleneckBound(), GuessBound(), NodeProgramBound(), MergedBound(), ExactBound()):
        for known in (value, 1.5 * value):
            # A value above the optimum stands for a split that somebody has found.
            assert proven(member, one, known) <= value
    assert proven(ExactBound(), one, value) == value
    assert proven(ExactBound(), one, 1.5 * value) == value


@given(small)
@examples(20)
def test_the_relaxation_is_the_problem_or_easier(problem: ThroughputProblem) -> None:
    found = usable(problem)
    whole = best(problem, "acyclic")
    assume(found is not None and whole is not None)
    assert found is not None
    assert whole is not None
    assert found[1] <= whole * (1 + 1e-9)


@given(small)
@examples(20)
def test_rows_count_what_a_split_costs(problem: ThroughputProblem) -> None:
    """With the blocks of a split, no load can be less than what they cost, and all can be that at once."""
    found = usable(problem)
    assume(found is not None)
    assert found is not None
    one, _ = found
    count = min(3, one.devices)
    rank = np.sort(np.random.default_rng(one.items).integers(0, count, one.items)).astype(np.int32)
    blocks = BlockProgram(one, count)
    loads = []
    for b in range(count):
        load = blocks.model.add_continuous(0.0, math.inf, 1.0)
        blocks.row(
            [
                ([(load, 1.0)], 0.0),
                *((([(v, -c) for v, c in t]), -k) for t, k in (*blocks.work(b), *blocks.cuts(b).values())),
            ],
            lower=0.0,
        )
        loads.append(load)
    blocks.keep_within(rank, rank)
    values = solve_program(blocks.model, "highs").values
    assert values is not None
    assert values[loads] == pytest.approx([one.load(rank == b) for b in range(count)], abs=1e-6)
    assert violation(blocks.model, values) <= 1e-6
    assert (blocks.label(values) == rank).all()


@given(small)
@examples(40)
def test_facts_hold_for_every_optimal_split(problem: ThroughputProblem) -> None:
    found = usable(problem)
    assume(found is not None)
    assert found is not None
    one, value = found
    facts = charged_at(one, value)
    assert facts is not None
    assert (facts.parts.first <= facts.parts.last).all()


def test_grain() -> None:
    one = uniform(regal_problem(0, nodes=8, devices=2))
    assert granularity(one) >= 1.0


@given(
    st.lists(st.integers(1, 10**4), min_size=1, max_size=12), st.sampled_from([1.0, 0.5, 1e-6, 1e6, 1e-9, 0.001, 3.7])
)
def test_the_grain_does_not_depend_on_the_unit(times: list[int], unit: float) -> None:
    """The greatest common divisor, also where no number is exact in floating point."""
    problem = ThroughputProblem(
        name="whole",
        kinds=(DeviceKind(name="a", count=2),),
        operators=tuple(TimedOperator(id=i, times=(time * unit,)) for i, time in enumerate(times)),
    )
    assert granularity(uniform(problem)) == pytest.approx(math.gcd(*times) * unit, rel=1e-12)


def test_what_has_no_grain_gets_none() -> None:
    times = np.random.default_rng(0).random(5)
    problem = ThroughputProblem(
        name="odd",
        kinds=(DeviceKind(name="a", count=2),),
        operators=tuple(TimedOperator(id=i, times=(float(time),)) for i, time in enumerate(times)),
    )
    assert granularity(uniform(problem)) == 0.0


def test_sizes_of_superblocks() -> None:
    assert compositions(2) == []
    assert compositions(3) == [[2, 1]]
    assert compositions(8) == [[4, 4], [3, 2, 3], [2, 2, 2, 2]]


def test_what_is_proven_when_stopped_is_kept() -> None:
    one = uniform(regal_problem(1, nodes=60, devices=4))
    for member in (BottleneckBound(), GuessBound(), NodeProgramBound(), MergedBound(), ExactBound()):
        knowledge = Knowledge(one, stop=lambda: True)
        member.improve(knowledge, None)
        assert knowledge.bound >= simple_bound(one) * (1 - 1e-9)
        knowledge = Knowledge(one)
        member.improve(knowledge, 0.2)
        assert knowledge.bound >= simple_bound(one) * (1 - 1e-9)


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_programs_that_are_long_to_write_down_end_in_time(blocks: int) -> None:
    """The run is over once so many blocks are written down; nobody goes on to the others."""
    one = uniform(regal_problem(1, nodes=60, devices=8))
    knowledge, written = Knowledge(one), [0]
    run = ProgramRun("exact-mip", knowledge, 0.0, lambda: 1.0 if written[0] < blocks else 0.0)
    facts = charged_at(one, simple_bound(one) * 1.5, lambda: False)
    assert facts is not None

    class Counted(MinMaxProgram):
        def cuts(self, block: int, share: float = 1.0) -> dict[int, Expression]:
            written[0] += 1
            return super().cuts(block, share)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MinMaxProgram", Counted)
        assert exact.split_program(run, [1] * 8, facts) is None
    assert written[0] == blocks


def test_the_order_is_reduced() -> None:
    one = uniform(regal_problem(2, nodes=30, devices=2))
    order = order_of(one)
    edges = {(u, v) for u, v in order.edges}
    for u, v in edges:
        assert not any(order.reach[u, w] and order.reach[w, v] for w in range(one.items) if w not in (u, v))


@pytest.mark.slow
@given(small)
@examples(250)
def test_many_problems(problem: ThroughputProblem) -> None:
    found = usable(problem)
    assume(found is not None)
    assert found is not None
    one, value = found
    for member in (BottleneckBound(), GuessBound(), NodeProgramBound(), MergedBound(), ExactBound()):
        assert proven(member, one) <= value


@pytest.mark.parametrize("name", ["bottleneck_guess_1160", "exact_mip_10279", "exact_mip_12791"])
def test_times_that_differ_by_a_million(name: str, published_data: Path) -> None:
    """A backend's presolve called programs infeasible, and a bound was half as much again as the optimum."""
    path = published_data / "defects" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    problem = read_problem(path)
    assert isinstance(problem, ThroughputProblem)
    least = best(problem, "acyclic")
    assert least is not None
    methods = (BottleneckBound(), GuessBound(), NodeProgramBound(), MergedBound(), ExactBound())
    assert all(method.supports(problem) is None for method in methods)
    for method in methods:
        bound = method.bound(problem, Monitor(20.0)).value
        assert 0.9 * least <= bound <= least, method.name


def test_transfers_a_millionth_of_the_optimum() -> None:
    """HiGHS cut the best block off: everything in one, where a transfer of 1 stands beside a load of three millions."""
    ids = (0, 1, 3, 4, 5, 7, 10, 11)
    times = (1.0, 1.0, 1.0, 0.0, 3e6, 0.0, 0.0, 1.0)
    together = {0: 0, 1: 1, 4: 4, 5: 5, 7: 1, 10: 4, 11: 5}
    tensors = ((0, (1, 3), 600.0), (1, (5,), 300000.0), (3, (4,), 0.02), (4, (5,), 0.0), (11, (7, 10), 1.0))
    problem = ThroughputProblem(
        name="apart",
        unit="ms",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(
            TimedOperator(id=v, times=(time,), backward=v in (7, 10, 11), colocation=together.get(v))
            for v, time in zip(ids, times, strict=True)
        ),
        tensors=tuple(MovedTensor(producer=v, consumers=to, size=size) for v, to, size in tensors),
        streaming=True,
    )
    least = best(problem, "acyclic")
    assert least == 3000004.0
    for method in (BottleneckBound(), GuessBound(), NodeProgramBound(), MergedBound(), ExactBound()):
        assert (1 - 1e-5) * least <= method.bound(problem, Monitor(20.0)).value <= least, method.name


def test_transfers_that_no_device_can_pay() -> None:
    """One a million times the optimum ties three operators: 2 of work, and 1.2 on the other device."""
    times = (1.0, 1.0, 0.0, 0.4, 0.4, 0.4)
    problem = ThroughputProblem(
        name="tied",
        unit="ms",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=v, times=(time,)) for v, time in enumerate(times)),
        tensors=(
            MovedTensor(producer=0, consumers=(1, 2), size=1e6),
            MovedTensor(producer=1, consumers=(2,), size=0.0),
            MovedTensor(producer=4, consumers=(5,), size=0.0),
        ),
    )
    assert best(problem, "acyclic") == 2.0
    for method in (BottleneckBound(), GuessBound(), NodeProgramBound(), MergedBound(), ExactBound()):
        assert 1.5 <= method.bound(problem, Monitor(20.0)).value <= 2.0, method.name
