"""Wrong proofs and wrong splits are found out: nothing that contradicts a known plan becomes an answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest

from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.search_state import FOUND, LIMIT, REFUTED
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.errors import DisagreementError
from partita.problems.throughput.bounds.capacity import CapacityBound
from partita.problems.throughput.bounds.forced_transfers import ChargeBound, Charges
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.components import SOLVERS
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.proving import prove
from partita.problems.throughput.solvers import contiguous_run, race
from partita.problems.throughput.solvers.contiguous_run import GapCloser, searcher_of, views_of
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.solvers.race import Searcher, Target
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.view import PhaseLoads, SearchView, Split, SplitStage

SOLVER = {solver.name: solver for solver in SOLVERS}


def small(*, variant: bool = False) -> ThroughputProblem:
    """A problem that slicing does not close, so that others get to speak."""
    problem = regal_problem(4, nodes=24, devices=4, noise="operator")
    return problem.replace(communication="overlap") if variant else problem


def test_a_bound_above_the_plan_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def improve(self: NodeBound, knowledge: Knowledge, deadline_s: float | None) -> None:
        knowledge.prove(1.5 * knowledge.value, self.name)

    monkeypatch.setattr(NodeBound, "improve", improve)
    with pytest.raises(DisagreementError, match="node claims bound"):
        Exact().solve(small(), ThroughputOptions(), Monitor())
    with pytest.raises(DisagreementError, match="node claims bound"):
        prove(small(), Exact(), Monitor(600.0))


@pytest.mark.parametrize("variant", [False, True])
def test_a_lower_bound_above_the_first_plan_is_no_proof(monkeypatch: pytest.MonkeyPatch, variant: bool) -> None:
    def wrong(view: SearchView) -> PhaseLoads:
        low = lower_bounds(view)
        return PhaseLoads(10 * low.both, 10 * low.forward, 10 * low.backward)

    monkeypatch.setattr(contiguous_run, "lower_bounds", wrong)
    with pytest.raises(DisagreementError, match="simple claims bound"):
        Exact().solve(small(variant=variant), ThroughputOptions(), Monitor(600.0))


@pytest.mark.parametrize("variant", [False, True])
def test_a_refuted_target_above_the_plan_is_no_proof(monkeypatch: pytest.MonkeyPatch, variant: bool) -> None:
    """The search from below jumps over the plan."""

    def skip(self: Target, effort: int) -> int:
        self.value *= 2
        return REFUTED

    monkeypatch.setattr(Target, "run", skip)
    with pytest.raises(DisagreementError, match="exact claims bound"):
        contiguous_run.ContiguousRun(small(variant=variant), ThroughputOptions()).search(Monitor(600.0))


def test_charges_that_refute_the_plan_they_know_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Charges, "settle", lambda self, state: False)
    relaxed = uniform(small())
    knowledge = Knowledge(relaxed)
    everything = np.ones(relaxed.items, dtype=bool)
    knowledge.offer(np.zeros(relaxed.items, dtype=np.int32), relaxed.load(everything), "one block")
    with pytest.raises(DisagreementError, match="charge refutes"):
        ChargeBound().improve(knowledge, None)
    assert not knowledge.done


@pytest.mark.parametrize("name", ["free", "annealing", "highs"])
def test_free_plans_below_the_bound_are_found_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    bound = CapacityBound.bound

    def wrong(self: CapacityBound, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        return Bound(10 * bound(self, problem, monitor).value, self.name, self.scope)

    monkeypatch.setattr(CapacityBound, "bound", wrong)
    options = ThroughputOptions(contiguity="free")
    solver = SOLVER[name]
    if solver.supports(small(), options) is not None:
        pytest.skip("not installed")
    with pytest.raises(DisagreementError, match="capacity claims bound"):
        solver.solve(small(), options, Monitor(600.0))


@pytest.mark.parametrize("name", ["partition-annealing", "random-orders", "genetic", "arrangement"])
def test_partitions_below_the_bound_are_found_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(BlockProblem, "low", 1e6)
    with pytest.raises(DisagreementError, match="simple claims bound"):
        SOLVER[name].solve(small(), ThroughputOptions(), Monitor(600.0))


class Pretender:
    """A decision that says what it is told to, and finds everything on the first device."""

    expected = float("inf")

    def __init__(self, searcher: Searcher, status: int) -> None:
        self.view, self.status, self.nodes = searcher.view, status, 0

    def run(self, node_limit: int, stop: Longs, halt: Longs) -> int:
        self.nodes += 1
        return self.status

    def split(self) -> Split:
        items: Ints = np.arange(self.view.items, dtype=np.int32)
        return [SplitStage(0, 1, items)]


def target(
    monkeypatch: pytest.MonkeyPatch, problem: ThroughputProblem, value: float, statuses: list[int], threads: bool
) -> Target:
    """A target decided by pretenders, one for each direction."""
    view = views_of(problem)[0]
    left = list(statuses)
    monkeypatch.setattr(race, "Decision", lambda searcher, limits: Pretender(searcher, left.pop(0)))
    searchers = [searcher_of(one, value) for one in (view, view.turned())[: len(statuses)]]
    pool = ThreadPoolExecutor(2) if threads else None
    return Target([searchers], value, lower_bounds(view), pool, np.zeros(1, dtype=np.int64))


@pytest.mark.parametrize("variant", [False, True])
@pytest.mark.parametrize("statuses", [[FOUND, REFUTED], [REFUTED, FOUND]])
def test_directions_of_a_race_that_contradict_each_other(
    monkeypatch: pytest.MonkeyPatch, variant: bool, statuses: list[int]
) -> None:
    asked = target(monkeypatch, small(variant=variant), 1e9, statuses, True)
    with pytest.raises(DisagreementError, match="from the other end none"):
        asked.run(1 << 30)


@pytest.mark.parametrize("variant", [False, True])
def test_a_found_split_above_its_target(monkeypatch: pytest.MonkeyPatch, variant: bool) -> None:
    problem = small(variant=variant)
    view = views_of(problem)[0]
    value = view.value([SplitStage(0, 1, np.arange(view.items, dtype=np.int32))]).both
    with pytest.raises(DisagreementError, match="its target is"):
        target(monkeypatch, problem, 0.9 * value, [FOUND], False).run(1 << 30)
    assert target(monkeypatch, problem, value, [FOUND], False).run(1 << 30) == FOUND


def test_a_found_split_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small()
    problem = problem.replace(
        memory_bytes=10.0, operators=tuple(msgspec.structs.replace(op, memory_bytes=1.0) for op in problem.operators)
    )
    search = contiguous_run.ContiguousRun(problem, ThroughputOptions())._open()
    assert search is not None
    monkeypatch.setattr(race, "Decision", lambda searcher, limits: Pretender(searcher, FOUND))
    with pytest.raises(DisagreementError, match="fails"):
        GapCloser(search, 1, "exact").start()


def test_a_race_without_an_answer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = target(monkeypatch, small(), 1e9, [LIMIT, LIMIT], True)
    assert asked.run(1 << 18) == LIMIT
    assert asked.nodes > 2
    assert not asked.promising()
