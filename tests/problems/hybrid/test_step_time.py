"""The time of a step, against the objective and against a pipeline that is run event by event."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.evaluate import step_time
from partita.problems.hybrid.steady.solvers.exact import HybridExact
from problems.hybrid.strategies import hybrid_problems


def simulate(times: list[int], replicas: int, batch: int) -> float:
    """One-forward-one-backward: stage i takes times[i] forward and twice that backward, replicas take turns.

    Every worker has a fixed row of tasks: as many forward parts as stages are left, then in turn one backward and one
    forward part. Tasks start when their worker is free and the neighbour's part is there.
    """
    depth = len(times)
    finished: dict[tuple[int, int, int], float] = {}
    waiting: list[tuple[float, int, int, int]] = []
    rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for stage in range(depth):
        for replica in range(replicas):
            mine = list(range(replica, batch, replicas))
            ahead = min(depth - stage, len(mine))
            row = [(0, m) for m in mine[:ahead]]
            for done, m in zip(mine, mine[ahead:], strict=False):
                row += [(1, done), (0, m)]
            rows[stage, replica] = [*row, *((1, m) for m in mine[len(mine) - ahead :])]
            waiting.append((0.0, stage, replica, 0))
    blocked: dict[tuple[int, int, int], tuple[float, int, int, int]] = {}
    heapq.heapify(waiting)
    while waiting:
        free, stage, replica, number = heapq.heappop(waiting)
        if number == len(rows[stage, replica]):
            continue
        backward, m = rows[stage, replica][number]
        needs = None
        if backward:
            needs = (1, stage + 1, m) if stage + 1 < depth else None
        elif stage > 0:
            needs = (0, stage - 1, m)
        if needs is not None and needs not in finished:
            blocked[needs] = (free, stage, replica, number)
            continue
        start = max(free, 0.0 if needs is None else finished[needs])
        end = start + times[stage] * (2 if backward else 1)
        finished[backward, stage, m] = end
        heapq.heappush(waiting, (end, stage, replica, number + 1))
        if (backward, stage, m) in blocked:
            heapq.heappush(waiting, blocked.pop((backward, stage, m)))
    assert len(finished) == 2 * depth * batch
    return max(finished.values())


def row_of_stages(times: list[int], replicas: int, batch: int) -> tuple[HybridProblem, Plan]:
    """One layer per stage, three times ``times`` long, without transfers."""
    problem = HybridProblem(
        name="row",
        devices=len(times) * replicas,
        microbatches=batch,
        bandwidth_bytes_per_unit=1.0,
        layers=tuple(
            Layer(id=i, configurations={1: (Configuration(id="c", time=3.0 * time),)}) for i, time in enumerate(times)
        ),
        edges=tuple(Edge(source=i, target=i + 1, bytes=0.0) for i in range(len(times) - 1)),
    )
    stages = tuple(
        Stage(operators=(i,), data_parallel=replicas, tensor_parallel=1, configurations={i: "c"})
        for i in range(len(times))
    )
    return problem, Plan(stages=stages)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 24))
@settings(max_examples=200)
def test_a_simulated_pipeline_is_no_slower(times: list[int], replicas: int, batch: int) -> None:
    problem, plan = row_of_stages(times, replicas, batch)
    found = step_time(problem, plan, evaluate(problem, plan))
    simulated = simulate(times, replicas, batch)
    assert found.steady <= simulated * (1 + 1e-9)
    assert simulated <= found.step * (1 + 1e-9)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 3), st.integers(1, 24))
@settings(max_examples=100)
def test_equal_stages_take_just_that(depth: int, time: int, replicas: int, batch: int) -> None:
    problem, plan = row_of_stages([time] * depth, replicas, batch)
    found = step_time(problem, plan, evaluate(problem, plan))
    assert found.step == pytest.approx(simulate([time] * depth, replicas, batch), rel=1e-9)
    rounds = -(-batch // replicas)
    assert found.step == pytest.approx(3.0 * time * (rounds + depth - 1), rel=1e-9)
    assert found.bubble == pytest.approx(1 - found.steady / found.step, rel=1e-9)


@given(hybrid_problems())
@settings(max_examples=100)
def test_a_step_is_never_shorter_than_the_objective_says(problem: HybridProblem) -> None:
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(30.0))
    if outcome.plan is None:
        return
    evaluation = evaluate(problem, outcome.plan)
    found = step_time(problem, outcome.plan, evaluation)
    assert found.per_microbatch >= evaluation.objective * (1 - 1e-9)
    assert 0.0 <= found.bubble <= 1.0
    # A multiple of the batch keeps every degree a divisor of it; in the limit only the steady state is left.
    longer = problem.replace(microbatches=problem.microbatches * 10_000_000)
    again = evaluate(longer, outcome.plan)
    far = step_time(longer, outcome.plan, again)
    assert far.per_microbatch >= again.objective * (1 - 1e-9)
    assert far.per_microbatch == pytest.approx(again.objective, rel=1e-4, abs=1e-9)


def test_synchronisation_and_update_come_at_the_end() -> None:
    layer = Layer(
        id=0, configurations={1: (Configuration(id="c", time=3.0, weight_bytes=5.0),)}, update_times={1: 0.5, 2: 9.0}
    )
    problem = HybridProblem(
        name="one",
        devices=2,
        microbatches=8,
        bandwidth_bytes_per_unit=1.0,
        layers=(layer,),
        weight_sync_per_batch=True,
    )
    stage = Stage(operators=(0,), data_parallel=2, tensor_parallel=1, configurations={0: "c"})
    plan = Plan(stages=(stage,))
    found = step_time(problem, plan, evaluate(problem, plan))
    # Four rounds of 3; each replica moves 4·(2 − 1)/2·5 bytes.
    assert (found.pipeline, found.weight_sync, found.update) == (12.0, 10.0, 0.5)
    assert found.step == 22.5
    assert found.bubble == 0.0
    every = problem.replace(weight_sync_per_batch=False)
    found = step_time(every, plan, evaluate(every, plan))
    assert (found.pipeline, found.weight_sync) == (4 * (3.0 + 10.0), 0.0)
    # Two replicas share the update out.
    assert step_time(problem.replace(update_shared=True), plan, evaluate(problem, plan)).update == 0.25
