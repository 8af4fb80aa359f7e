"""A MIP backend that crashes is noted, never taken for a proof, and the search goes on without it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from instances.strategies import random_problem
from partita import bound, solve
from partita.engines.mip.backend import BACKENDS, Backend
from partita.engines.mip.model import ProgramResult
from partita.engines.mip.solve import available
from partita.engines.processes import kept
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Event, Progress, Status, StopReason
from partita.ground.errors import SolverCrashError
from partita.problems.throughput.bounds.covering import CoveringBound
from partita.problems.throughput.bounds.hierarchy import HIERARCHY, run_hierarchy
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.bounds.programs import minmax_program
from partita.problems.throughput.bounds.programs.exact import ExactBound, MergedBound
from partita.problems.throughput.bounds.programs.superblocks import GuessBound
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.proving import prove
from partita.problems.throughput.solvers.exact import Exact
from running import broken_backend as broken
from running.soon import SOON_S

pytestmark = pytest.mark.skipif(
    not all(available(backend) for backend in BACKENDS), reason="the MIP backends are not installed"
)

CRASH = "was ended by SIGSEGV before it had answered"


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every backend that is put into the list, all of them to begin with, crashes whatever it is asked."""

    class Crashing(dict[str, Backend]):
        def __getitem__(self, name: str) -> Backend:
            return Backend("running.broken_backend", "numpy") if name in crash else super().__getitem__(name)

    crash = list(BACKENDS)
    monkeypatch.setenv("BROKEN_BACKEND", str(broken.SEGFAULT))
    replaced = Crashing(BACKENDS)
    for module in ("child", "growing", "solve"):
        monkeypatch.setattr(f"partita.engines.mip.{module}.BACKENDS", replaced)
    for idle in kept.IDLE.values():
        while idle:
            idle.pop().end()
    yield crash
    for idle in kept.IDLE.values():
        while idle:
            idle.pop().end()


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """No thread is left."""
    before = set(threading.enumerate())
    yield
    for idle in kept.IDLE.values():
        while idle:
            idle.pop().end()
    end = time.monotonic() + SOON_S
    while (left := set(threading.enumerate()) - before) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left


@pytest.fixture(scope="module")
def problem() -> ThroughputProblem:
    return random_problem(3, 40, devices=4)


@pytest.fixture(scope="module")
def large() -> ThroughputProblem:
    """The search over downsets alone does not end in some seconds."""
    return random_problem(3, 120, devices=12)


def notes(events: list[Event]) -> str:
    return "\n".join(event.note for event in events)


def until(*wanted: str) -> Progress:
    """A Ctrl-C once there are a plan and a bound, and the notes have said all that is wanted."""
    seen: list[Event] = []
    pressed: list[bool] = []

    def progress(event: Event) -> None:
        seen.append(event)
        enough = event.objective is not None and event.bound and all(one in notes(seen) for one in wanted)
        if enough and not pressed:
            # A second one would mean to end without an answer.
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    return progress


@pytest.mark.parametrize("threads", [1, 2])
def test_free_search_goes_on_without_backends(threads: int, problem: ThroughputProblem, crashing: list[str]) -> None:
    lost = [f"the MIP backend {backend} {CRASH}" for backend in ("highs", "cpsat")]
    result = solve(problem, contiguity="free", threads=threads, progress=until(*lost))
    assert result.status is Status.FEASIBLE
    assert result.plan is not None
    assert result.stop_reason is StopReason.INTERRUPTED
    for one in lost:
        # Two parts of the run may lose it at the same time.
        assert 1 <= notes(result.statistics.events).count(one) <= 2


def test_free_search_goes_on_with_what_is_left(problem: ThroughputProblem, crashing: list[str]) -> None:
    crashing[:] = ["cpsat"]
    result = solve(problem, contiguity="free", time_limit_s=6.0, explain=False)
    assert result.plan is not None
    assert "highs" not in notes(result.statistics.events)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_backend_asked_for_by_name_leaves_the_best_split(
    backend: str, problem: ThroughputProblem, crashing: list[str]
) -> None:
    result = solve(problem, contiguity="free", solver=backend, time_limit_s=20.0, explain=False)
    assert result.status is Status.FEASIBLE
    assert f"the MIP backend {backend} {CRASH}; the best split so far stands" in notes(result.statistics.events)


@pytest.mark.parametrize("method", ["exact-mip", "merged-mip", "bottleneck-guess", "covering-free"])
def test_a_bound_asked_for_by_name_is_an_error(method: str, problem: ThroughputProblem, crashing: list[str]) -> None:
    with pytest.raises(SolverCrashError, match=CRASH):
        bound(problem, method=method, time_limit_s=20)


def test_the_hierarchy_goes_on_and_takes_notes(problem: ThroughputProblem, crashing: list[str]) -> None:
    said: list[str] = []
    methods = [MergedBound(), GuessBound(), ExactBound(), NodeBound()]
    knowledge = Knowledge(uniform(problem), on_note=said.append)
    run_hierarchy(knowledge, methods, 60.0)
    alone = Knowledge(uniform(problem))
    run_hierarchy(alone, [NodeBound()], 10.0)
    assert knowledge.bound >= alone.bound
    assert [name for name, _, _ in knowledge.proven] == [method.name for method in methods]
    for method in methods[:-1]:
        assert any(f"{method.name} ends, the other bounds go on" in note for note in said)


def test_where_nobody_takes_notes_it_is_an_error(problem: ThroughputProblem, crashing: list[str]) -> None:
    with pytest.raises(SolverCrashError, match=CRASH):
        run_hierarchy(Knowledge(uniform(problem)), [ExactBound()], 20.0)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds that ask backends: the others may take minutes before anyone asks one."""
    kept = tuple(method for method in HIERARCHY if method.name in ("simple", "merged-mip", "exact-mip"))
    assert len(kept) == 3
    for module in ("solvers.combined", "proving"):
        monkeypatch.setattr(f"partita.problems.throughput.{module}.HIERARCHY", kept)


@pytest.mark.usefixtures("short")
def test_the_combined_solver_goes_on(large: ThroughputProblem, crashing: list[str]) -> None:
    result = solve(large, progress=until(CRASH))
    assert result.plan is not None
    assert result.bound is not None
    assert CRASH in notes(result.statistics.events)
    monitor = Monitor(60.0, progress=lambda event: monitor.interrupt() if CRASH in event.note else None)
    proof = prove(large, Exact(), monitor)
    assert result.objective is not None
    assert 0 < proof.best.value <= result.objective * (1 + 1e-9)
    assert CRASH in notes(monitor.statistics.events)


@pytest.mark.parametrize("lost", ["highs", "scip"])
def test_the_other_backend_of_a_race_goes_on(lost: str, crashing: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minmax_program, "SMALL", 0)
    crashing[:] = [lost]
    said: list[str] = []
    knowledge = Knowledge(uniform(random_problem(5, 10, devices=2)), on_note=said.append)
    ExactBound().improve(knowledge, 30.0)
    assert [note for note in said if "the other backend went on" in note and f"{lost} {CRASH}" in note] == said != []
    whole = Knowledge(knowledge.uniform)
    crashing[:] = []
    ExactBound().improve(whole, 30.0)
    assert knowledge.bound == pytest.approx(whole.bound, rel=1e-5)
    assert whole.incumbent.closed


@pytest.mark.parametrize("at", ["highs", "scip"])
def test_what_a_callback_raises_in_a_race_ends_it(
    at: str, problem: ThroughputProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever thread; the other backend does not go on, and no thread is left."""
    whole = minmax_program.MinMaxProgram.solve

    def solve(*arguments: Any, backend: str, **keywords: Any) -> float:
        if backend == at:
            raise KeyError("from a callback")
        return whole(*arguments, backend=backend, **keywords)

    monkeypatch.setattr(minmax_program, "SMALL", 0)
    monkeypatch.setattr(minmax_program.MinMaxProgram, "solve", solve)
    began = time.monotonic()
    with pytest.raises(KeyError, match="from a callback"):
        ExactBound().improve(Knowledge(uniform(problem)), 4 * SOON_S)
    assert time.monotonic() - began < SOON_S


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Programs that run at the same time at most, and how many threads each gets at most; Ctrl-C after ``enough``."""
    from partita.problems.throughput.free import covering, solver

    most = {"programs": 0, "threads": 0, "total": 0, "enough": 0}
    running: list[int] = []

    def counted(original: Any) -> Any:
        def solve_program(*arguments: Any, **keywords: Any) -> ProgramResult:
            running.append(1)
            most["total"] += 1
            most["programs"] = max(most["programs"], len(running))
            most["threads"] = max(most["threads"], keywords.get("threads", 1))
            try:
                answer: ProgramResult = original(*arguments, **keywords)
            finally:
                running.pop()
            if most["total"] >= most["enough"] > 0:
                # A second one would mean to end without an answer.
                most["enough"] = 0
                signal.raise_signal(signal.SIGINT)
            return answer

        return solve_program

    for module in (covering, solver, minmax_program):
        monkeypatch.setattr(module, "solve_program", counted(module.solve_program))
    monkeypatch.setattr(minmax_program, "SMALL", 0)
    return most


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("contiguity", ["acyclic", "free"])
def test_one_thread_means_one_program_at_a_time(
    contiguity: str, large: ThroughputProblem, at_once: dict[str, int]
) -> None:
    """As far as the second one, which the search over acyclic splits reaches where it does not end before."""
    at_once["enough"] = 2
    problem = large if contiguity == "acyclic" else random_problem(3, 20, devices=3)
    solve(problem, contiguity=contiguity, threads=1, explain=False)
    assert at_once["total"] >= 2
    assert at_once["programs"] == 1
    assert at_once["threads"] == 1


def test_two_threads_race(problem: ThroughputProblem, at_once: dict[str, int]) -> None:
    ExactBound().improve(Knowledge(uniform(problem)), 3.0)
    assert at_once["programs"] == (2 if minmax_program.usable_cores() > 1 else 1)


def test_one_thread_means_one_search_for_blocks(monkeypatch: pytest.MonkeyPatch, problem: ThroughputProblem) -> None:
    from partita.problems.throughput.bounds import block_search

    pools: list[int] = []

    class Pool(block_search.ThreadPoolExecutor):
        def __init__(self, threads: int) -> None:
            pools.append(threads)
            super().__init__(threads)

    monkeypatch.setattr(block_search, "ThreadPoolExecutor", Pool)
    CoveringBound().improve(Knowledge(uniform(problem), threads=1), 4.0)
    assert set(pools) == {1}


def test_a_free_search_that_fails_ends_its_proof(problem: ThroughputProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would go on until its time is over otherwise."""

    def polish(*arguments: Any, **keywords: Any) -> bool:
        raise KeyError("from a callback")

    def prove(run: Any) -> None:
        while not run.stop():
            time.sleep(0.01)

    monkeypatch.setattr("partita.problems.throughput.free.solver.polish", polish)
    monkeypatch.setattr("partita.problems.throughput.free.solver._FreeRun._prove", prove)
    began = time.monotonic()
    with pytest.raises(KeyError, match="from a callback"):
        solve(problem, contiguity="free", time_limit_s=4 * SOON_S, explain=False)
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize("solver", ["free", "annealing", "highs"])
def test_what_a_progress_callback_raises_ends_the_run(solver: str, problem: ThroughputProblem) -> None:
    def progress(event: Event) -> None:
        if event.objective is not None:
            raise KeyError("from a callback")

    began = time.monotonic()
    with pytest.raises(KeyError, match="from a callback"):
        solve(problem, contiguity="free", solver=solver, time_limit_s=4 * SOON_S, progress=progress, explain=False)
    assert time.monotonic() - began < SOON_S
