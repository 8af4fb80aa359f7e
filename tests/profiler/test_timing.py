"""Operators timed while a module runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from partita.costs.profile import MessageTime  # noqa: E402
from partita.frontends.torch import trace_calls  # noqa: E402
from partita.ground.errors import TraceError  # noqa: E402
from partita.nouns.graph import Source  # noqa: E402
from partita.profiler.alignment import align  # noqa: E402
from partita.profiler.clock import CpuClock  # noqa: E402
from partita.profiler.links import fit_line  # noqa: E402
from partita.profiler.steps import Observed, TimedStep, observe  # noqa: E402
from partita.profiler.timing import Timer, calibrated_clock, instruments  # noqa: E402
from partita.profiler.worker import Job, _alone  # noqa: E402
from profiler.tiny_models import attending, fickle  # noqa: E402

FILE = Path(__file__).with_name("tiny_models.py")


SOURCE = Source(model="hf:gpt2")


def seen(built: Any, *, training: bool, alone: Any = nullcontext) -> Observed:
    return observe(TimedStep(*built, {}, training), CpuClock(), warm_up=1, repeats=2, alone=alone)


@pytest.mark.parametrize("training", [False, True])
def test_every_traced_operator_is_found_in_the_run(training: bool) -> None:
    graph, capture, calls = trace_calls(*attending(), training=training, keep_events=True)
    places = [None if call is None else capture.calls[call].event for call in calls]
    observed = seen(attending(), training=training)
    found = align(capture.events, observed.events)
    for op, place in zip(graph.operators, places, strict=True):
        if not op.free and op.target != "partita.gradient.default":
            assert place is not None, op.name
            assert found[place] is not None, op.name
            assert observed.events[found[place]].target == op.target
    assert len(observed.times) == 2
    assert all(len(row) == len(observed.events) for row in observed.times)
    assert (observed.first_backward < len(observed.events)) == training


def test_instruments_change_no_number() -> None:
    torch.manual_seed(0)
    module, args = attending()
    plain = module(*args)
    plain.sum().backward()
    gradients = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    with instruments(Timer(CpuClock())):
        timed = module(*args)
        timed.sum().backward()
    torch.testing.assert_close(timed, plain)
    for parameter, gradient in zip(module.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_attention_is_one_operator_forward_and_one_backward() -> None:
    targets = [event.target for event in seen(attending(depth=3), training=True).events]
    assert targets.count("aten.scaled_dot_product_attention.default") == 3
    assert targets.count("aten.scaled_dot_product_attention_backward.default") == 3
    assert not any("flash" in target for target in targets)


def test_identical_operators_have_one_key() -> None:
    observed = seen(attending(depth=3), training=False)
    products = [key for key in observed.keys if key.startswith("aten.addmm")]
    assert len(products) == 3
    assert len(set(products)) == 1


def test_peak_memory_is_at_least_the_result() -> None:
    """A linear layer of 2 samples of 8 tokens to 48 features of 4 bytes each."""
    observed = seen(attending(), training=False)
    peaks = [
        p for p, event in zip(observed.peaks, observed.events, strict=True) if event.target == "aten.addmm.default"
    ]
    assert peaks == [2 * 8 * 48 * 4] * 2


def test_gradients_are_summed_from_run_to_run() -> None:
    targets = [event.target for event in seen(attending(), training=True).events]
    assert targets.count("aten.add_.Tensor") >= len(list(attending()[0].parameters()))


def test_every_run_that_counts_is_alone() -> None:
    turns: list[str] = []

    @contextmanager
    def alone() -> Iterator[None]:
        turns.append("begins")
        yield
        turns.append("ends")

    seen(attending(), training=False, alone=alone)
    assert turns == ["begins", "ends"] * (1 + 2 * 2), "one for memory, two of each kind"


def test_processes_take_turns() -> None:
    """Each run is between the same two meetings of the processes for its own rank only."""
    runs: list[tuple[int, int]] = []
    for rank in range(3):
        meetings: list[int] = []
        with _alone(Job(SOURCE, 3, 1, 1, 1, "cpu", ""), rank, partial(meetings.append, 1)):
            runs.append((rank, len(meetings)))
        assert len(meetings) == 3
    assert runs == [(0, 1), (1, 2), (2, 3)]


def test_a_model_that_changes_from_run_to_run_is_refused() -> None:
    with pytest.raises(TraceError, match="calls other operators from run to run"):
        seen(fickle(), training=False)


def test_a_model_that_fails_is_an_error_of_the_input() -> None:
    module, _ = attending()
    with pytest.raises(TraceError, match="running the model fails: IndexError"):
        seen((module, (torch.full((1, 8), 99),)), training=False)


def test_the_clock_knows_its_own_work() -> None:
    assert calibrated_clock("cpu").own_s >= 0.0


def test_a_line_through_messages() -> None:
    transfers = [MessageTime(bytes=size, time_s=1e-3 + size / 1e9) for size in (10, 10**5, 10**7)]
    latency, bandwidth = fit_line(transfers)
    assert latency == pytest.approx(1e-3)
    assert bandwidth == pytest.approx(1e9)


def test_a_line_through_noise_is_still_positive() -> None:
    falling = [MessageTime(bytes=10, time_s=2.0), MessageTime(bytes=1000, time_s=1.0)]
    latency, bandwidth = fit_line(falling)
    assert latency >= 0
    assert bandwidth == 1000.0
