"""What an infeasible problem says, however little time its search is given."""

from __future__ import annotations

import pytest

from partita.nouns.pipeline import Plan
from partita.problems.throughput.explain import explain_infeasible
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator


def row(memory: float = 10.0, supported: bool = True) -> ThroughputProblem:
    """Six operators of 8 bytes each on two devices."""
    return ThroughputProblem(
        name="row",
        kinds=(
            DeviceKind(name="gpu", count=2, memory_bytes=memory),
            DeviceKind(name="cpu", count=1, accelerator=False),
        ),
        operators=tuple(
            TimedOperator(id=i, times=(1.0 if supported or i else None, 9.0), memory_bytes=8.0) for i in range(6)
        ),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.0) for i in range(5)),
    )


def test_searches_that_find_nothing_leave_a_size_that_is_enough() -> None:
    """A busy machine may end every probe early."""
    times: list[float] = []

    def probe(problem: ThroughputProblem, time_s: float) -> Plan | bool | None:
        times.append(time_s)
        return None

    reason = explain_infeasible(row(), probe)
    assert "enough memory per device would be 48 B (48 bytes)" in reason
    assert min(times) > 0


def test_nothing_is_promised_that_is_not_known() -> None:
    reason = explain_infeasible(row(supported=False), lambda problem, time_s: None)
    assert "memory per device" not in reason


@pytest.mark.parametrize("answer", [False, None])
def test_refuted_sizes_are_not_reported(answer: bool | None) -> None:
    def probe(problem: ThroughputProblem, time_s: float) -> Plan | bool | None:
        return False if (problem.kinds[0].memory_bytes or 1e9) < 30.0 else answer

    reason = explain_infeasible(row(), probe)
    assert ("48 bytes" in reason) == (answer is None)
