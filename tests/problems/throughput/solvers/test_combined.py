"""The combined solver against trying everything, and its parts when nothing quick settles a problem."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples, throughput_problems
from partita import read_problem
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.bounds.forced_transfers import charged_at
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.generators.regal import regal_problem
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.proving import prove
from partita.problems.throughput.solvers import combined, slicing_search
from partita.problems.throughput.solvers.combined import CombinedRun, combined_refusal
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.solvers.plain import ChargedItems, PlainSearcher, plain_view
from partita.problems.throughput.solvers.race import Decision
from partita.problems.throughput.solvers.view import PhaseLoads
from running.soon import SOON_S
from second_opinions.brute_force import best_acyclic

uniform_problems = throughput_problems(
    kinds=(1, 1), cpus=False, unsupported=False, max_operators=7, max_count=4, supported_somewhere=True
)


def solve(problem: ThroughputProblem, threads: int, limit: float | None = None) -> Outcome:
    monitor = Monitor(limit)
    driver = CombinedRun(problem, ThroughputOptions(threads=threads), monitor)
    outcome = driver.search(monitor)
    if outcome.plan is not None:
        found = evaluate(problem, outcome.plan)
        assert found.feasible, found.violations
        assert found.acyclic
        assert outcome.bound is not None
        assert outcome.bound <= found.objective * (1 + 1e-9)
        assert driver.incumbent.found_by
    return outcome


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("quick", [True, False])
def test_finds_the_optimum(monkeypatch: pytest.MonkeyPatch, threads: int, quick: bool) -> None:
    if not quick:
        # Nothing is left to slicing and the first race: bounds, annealing and the search over downsets work together.
        monkeypatch.setattr(slicing_search, "LARGE", 0)
        monkeypatch.setattr(CombinedRun, "_slice", lambda *_: True)
        monkeypatch.setattr(combined, "OPENING_S", 0.0)

    @examples(60)
    @given(uniform_problems)
    def check(problem: ThroughputProblem) -> None:
        assume(combined_refusal(problem) is None)
        best = best_acyclic(problem)
        outcome = solve(problem, threads)
        assert outcome.infeasible == (best is None)
        if best is not None and outcome.plan is not None:
            assert evaluate(problem, outcome.plan).objective == pytest.approx(best, rel=2e-7, abs=1e-9)
            assert outcome.bound == pytest.approx(best, rel=2e-7, abs=1e-9)
        assert outcome.infeasible or outcome.plan is not None

    check()


@examples(120)
@given(uniform_problems, st.floats(1.0, 1.5))
def test_charged_work_refutes_nothing_that_exists(problem: ThroughputProblem, above: float) -> None:
    """Without the heuristics, in both directions, with charges that hold at the optimum or a bit above it."""
    assume(combined_refusal(problem) is None)
    best = best_acyclic(problem)
    assume(best is not None and best > 0)
    assert best is not None
    instance = plain_view(problem).instance
    relaxed = uniform(problem, instance=instance)
    charged = charged_at(relaxed, best * above)
    assert charged is not None
    forced = np.zeros(instance.nets, dtype=bool)
    forced[relaxed.kept] = charged.parts.forced
    items = ChargedItems(charged.target, charged.work, forced)
    for backwards in (None, True):
        searcher = PlainSearcher(plain_view(problem, backwards=backwards), best * above, charged=items)
        assert Decision(searcher, PhaseLoads(best)).run(1 << 40, np.zeros(1, dtype=np.int64)) == 1
        assert Decision(searcher, PhaseLoads(best * (1 - 1e-6))).run(1 << 40, np.zeros(1, dtype=np.int64)) == 0


def test_charged_work_narrows_the_search() -> None:
    """What every split pays leaves less room for the rest."""
    problem = regal_problem(4, nodes=24, devices=4, noise="operator")
    prepared = plain_view(problem)
    outcome = Exact().solve(problem, ThroughputOptions(), Monitor())
    assert outcome.bound is not None
    target = outcome.bound * (1 - 1e-6)
    relaxed = uniform(problem, instance=prepared.instance)
    charged = charged_at(relaxed, outcome.bound)
    assert charged is not None
    forced = np.zeros(prepared.instance.nets, dtype=bool)
    forced[relaxed.kept] = charged.parts.forced
    nodes = []
    for items in (None, ChargedItems(charged.target, charged.work, forced)):
        decision = Decision(PlainSearcher(prepared, outcome.bound, charged=items), PhaseLoads(target))
        assert decision.run(1 << 40, np.zeros(1, dtype=np.int64)) == 0
        nodes.append(decision.nodes)
    assert nodes[1] < nodes[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_hard_problem_stops_in_time_with_plan_and_bound(threads: int) -> None:
    problem = regal_problem(3, nodes=200, devices=16)
    monitor = Monitor(4.0)
    driver = CombinedRun(problem, ThroughputOptions(threads=threads), monitor)
    outcome = driver.search(monitor)
    assert monitor.elapsed_s < SOON_S
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.bound > 0.8 * evaluate(problem, outcome.plan).objective
    assert driver.incumbent.proven_by
    assert driver.incumbent.found_by


def test_proof_names_the_methods() -> None:
    problem = regal_problem(1, nodes=30, devices=3)
    proof = prove(problem, Exact(), Monitor(20.0))
    best = Exact().solve(problem, ThroughputOptions(), Monitor()).bound
    assert best is not None
    assert proof.best.value == pytest.approx(best, rel=2e-7)
    assert proof.methods
    assert max(part.value for part in proof.methods) <= proof.best.value * (1 + 1e-9)


@pytest.mark.parametrize("layers", [3, 6])
def test_published_bert_without_memory_is_proven(layers: int) -> None:
    path = Path("../shared/data/dnn-partitioning/throughput") / f"operator-bert_l-{layers}_inference.json"
    if not path.exists():
        pytest.skip("no published data")
    assert "nodes" in json.loads(path.read_text())
    problem = read_problem(path, format="dnn-partitioning")
    kinds = [kind for kind in problem.kinds if kind.count > 0 and kind.name != "cpu"]
    place = problem.kinds.index(kinds[0])
    problem = problem.replace(
        kinds=(msgspec.structs.replace(kinds[0], count=4, memory_bytes=None),),
        operators=tuple(msgspec.structs.replace(op, times=(op.times[place],)) for op in problem.operators),
    )
    monitor = Monitor(30.0)
    outcome = Exact().solve(problem, ThroughputOptions(), monitor)
    assert outcome.plan is not None
    assert outcome.bound == pytest.approx(evaluate(problem, outcome.plan).objective, rel=1e-9)
    assert math.isclose(outcome.bound or 0.0, 27.92, rel_tol=1e-3)
