"""What is compiled before it is needed: what a usual run needs, of the types that it has."""

from __future__ import annotations

from typing import Any

import pytest

from partita.api.solving import solve
from partita.conductor import ahead
from partita.engines.kernels.compiled import is_compiled
from partita.engines.search import compiling
from partita.problems import find_kind, kinds

KIND = find_kind("throughput")
PARTS = ahead.parts_of(KIND)


def test_parts_compile_what_they_say() -> None:
    """And a solved problem asks for nothing of other types; its kernels are those of training on unlike devices."""
    for part in PARTS:
        part.run()
    signatures = [len(kernel.signatures) for part in PARTS for kernel in part.kernels]  # type: ignore[attr-defined]
    assert all(signatures)
    plain, *others = KIND.samples[0]
    for problem in (plain, others[1]):
        assert solve(problem, solver="exact", time_limit_s=60).plan is not None
    after = [len(kernel.signatures) for part in PARTS for kernel in part.kernels]  # type: ignore[attr-defined]
    assert after == signatures


def test_placing_is_among_them() -> None:
    (placing,) = [kind for kind in kinds() if kind.from_result is not None]
    assert all(part in PARTS for part in placing.ahead)
    assert ahead.parts_of(find_kind("latency")) == []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The parts of each process that would be started, where none of the kernels is there."""
    found: list[list[int]] = []
    monkeypatch.setattr(compiling, "expected", [])
    monkeypatch.setattr(compiling, "beside", True)
    monkeypatch.setattr("partita.engines.kernels.compiled.is_compiled", lambda kernel: False)
    monkeypatch.setattr(ahead, "_start", lambda kind, parts: found.append(parts))
    monkeypatch.setattr(ahead, "usable_cores", lambda: 2)
    return found


def test_two_processes_share_what_is_missing(started: list[list[int]]) -> None:
    ahead.compile_ahead(KIND)
    assert started == [[0], list(range(1, len(PARTS)))]
    assert len(compiling.expected) == sum(len(part.kernels) for part in PARTS) > 5
    assert not any(there() for there in compiling.expected)
    assert compiling.note().startswith(f"compiling {len(compiling.expected)} kernels")
    # Once is enough.
    ahead.compile_ahead(KIND)
    assert len(started) == 2


def test_nothing_is_started_without_need(started: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "beside", False)
    ahead.compile_ahead(KIND)
    monkeypatch.setattr(compiling, "beside", True)
    ahead.compile_ahead(find_kind("latency"))
    assert (started, compiling.expected) == ([], [])
    monkeypatch.setattr(ahead, "usable_cores", lambda: 1)
    ahead.compile_ahead(KIND)
    assert started == []
    assert compiling.expected
    compiling.expected.clear()
    monkeypatch.setattr("partita.engines.kernels.compiled.is_compiled", lambda kernel: True)
    ahead.compile_ahead(KIND)
    assert (started, compiling.expected) == ([], [])


def test_a_process_runs_the_parts_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    class Part:
        def __init__(self, number: int) -> None:
            self.run = lambda: ran.append(number)

    parts: Any = [Part(0), Part(1), Part(2)]
    monkeypatch.setattr(ahead, "parts_of", lambda kind: parts)
    monkeypatch.setattr("sys.argv", ["-c", "throughput", "2", "0"])
    ahead.main()
    assert ran == [2, 0]


def test_a_kernel_on_disk_is_known_without_loading_it() -> None:
    assert all(is_compiled(kernel) for part in PARTS for kernel in part.kernels)
