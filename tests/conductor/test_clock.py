"""One clock holds for everything that a plan needs: search, baselines, what is looked at beside it, and placing."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

import partita as pt
from instances.strategies import random_problem
from partita.cli.common import exit_code
from partita.conductor import compare, plan, solve
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status, StopReason
from partita.nouns.graph import Graph, Operator, Tensor, Workload
from partita.problems import kind_of
from partita.report.results import summary_lines

GRAPH = Graph(
    name="row",
    operators=tuple(
        Operator(name=f"op{v}", target="aten.mm", dtype="float32", flops=10**10, bytes_read=4000, bytes_written=4000)
        for v in range(12)
    ),
    tensors=tuple(
        Tensor(name=f"t{v}", producer=v, consumers=(v + 1,), shape=(1000,), dtype="float32", bytes=4000)
        for v in range(11)
    ),
)


def _root(monitor: Monitor) -> Monitor:
    while monitor.whole is not None:
        monitor = monitor.whole
    return monitor


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_all_parts_are_of_one_clock(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Monitor] = []
    run_solver, share = plan.run_solver, Monitor.share

    def watched(problem: Any, name: Any, options: Any, monitor: Monitor, **more: Any) -> Any:
        seen.append(monitor)
        return run_solver(problem, name, options, monitor, **more)

    def shared(self: Monitor, *given: Any, **more: Any) -> Monitor:
        seen.append(share(self, *given, **more))
        return seen[-1]

    monkeypatch.setattr(plan, "run_solver", watched)
    monkeypatch.setattr(Monitor, "share", shared)
    clock = Monitor(40.0)
    cluster = pt.Cluster.from_spec("3xL4")
    candidates = plan.price_all(plan.choose_problem(objective, cluster, Workload.INFERENCE)[0], GRAPH, cluster, {}, {})
    options = kind_of(candidates[0].problem).options()
    answer = plan.plan_priced(candidates, options, clock=clock)
    assert answer.result.plan is not None
    assert sum(row.plan is not None for row in answer.baselines) >= 2
    assert len(seen) >= 5
    assert {id(_root(monitor)) for monitor in seen} == {id(clock)}
    assert all(monitor.time_limit_s <= 40.0 for monitor in seen)


def test_baselines_share_what_is_left() -> None:
    problem = random_problem(3, 30)
    options = kind_of(problem).options()
    clock = Monitor(1e-3)
    time.sleep(2e-3)
    rows = compare.run_baselines(problem, options, clock=clock)
    supported = [row for row in rows if "left out: the time limit came first" in row.note]
    assert len(supported) >= 3
    assert all(row.plan is None for row in rows)
    # Without any plan so far the simplest go on until there is one.
    rows = compare.run_baselines(problem, options, clock=clock, wanted=True)
    assert sum(row.feasible for row in rows) == 1
    rows = compare.run_baselines(problem, options, clock=Monitor(60.0))
    assert sum(row.plan is not None for row in rows) >= 3


def test_why_there_is_no_plan_ends_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(4, 30).replace(memory_bytes=0.0)
    given: list[float] = []
    kind = kind_of(problem)
    monkeypatch.setattr(type(kind), "explain_infeasible", lambda *parts: given.append(parts[-1]) or "because")
    solver = solve.find_solver(problem, None, kind.options())
    clock = Monitor(30.0)
    assert solve.why_not(problem, solver, kind.options(), clock) == "because"
    assert 0 < given[0] <= 30.0


def test_nothing_found_and_nothing_proven_is_said_to_be_that() -> None:
    problem = random_problem(3, 8)
    found = pt.solve(problem, time_limit_s=30)
    assert exit_code(found) == 0
    result = dataclasses.replace(
        found, plan=None, evaluation=None, bound=None, status=Status.UNKNOWN, stop_reason=StopReason.TIME_LIMIT
    )
    (line,) = summary_lines(kind_of(problem).report, result)
    assert "no plan was found, and none is proven not to exist; give it more time" in line
    assert exit_code(result) == 5
    assert exit_code(dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED)) == 130
    assert exit_code(dataclasses.replace(result, status=Status.INFEASIBLE)) == 1
