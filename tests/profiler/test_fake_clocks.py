"""Clocks that tick once a look, and what is measured by them."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import gc
import itertools
import random
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from partita.costs.profile import MessageTime
from partita.ground.errors import TraceError
from partita.profiler import clock as clock_module
from partita.profiler import links, timing
from partita.profiler.clock import CpuClock, CudaClock
from partita.profiler.links import SIZES, fit_line, time_messages
from partita.profiler.steps import TimedStep, observe
from partita.profiler.timing import MemoryTimer, TimedCalls, Timer, _peaks, calibrated_clock


class Ticking:
    """A clock of which every look takes a second; it writes down what is asked of it."""

    def __init__(self, own_s: float = 0.0) -> None:
        self.now, self.own_s, self.asked = 0, own_s, []

    def begin(self) -> None:
        self.asked.append("begin")

    def mark(self) -> int:
        self.now += 1
        return self.now

    def between(self, start: int, end: int) -> float:
        return float(end - start)

    def finish(self) -> None:
        self.asked.append("finish")


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_a_processor_counts_its_own_time_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(thread_time_ns=iter([5, 9, 14, 20]).__next__, perf_counter_ns=iter([100, 300]).__next__)
    monkeypatch.setattr(clock_module, "time", fake)
    for threads, wanted in (((), 4e-9), ((2,), 200e-9), ((1,), 6e-9)):
        clock = CpuClock(*threads)
        clock.begin()
        start = clock.mark()
        assert clock.between(start, clock.mark()) == pytest.approx(wanted)
        clock.finish()
        assert clock.own_s == 0.0


def test_a_clock_learns_what_it_takes() -> None:
    clock = CpuClock()
    clock.calibrate([5.0, 3.0, 9.0, 8.0, 4.0], [1.0, 2.0, 0.0, 9.0, 0.5])
    assert clock.own_s == 4.0
    clock.calibrate([1.0], [2.0])
    assert clock.own_s == 0.0


def test_a_gpu_is_kept_busy_and_asked_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            done.append("record")

        def elapsed_time(self, other: Event) -> float:
            assert isinstance(other, Event)
            return 250.0

    monkeypatch.setattr(clock_module.torch.cuda, "synchronize", lambda: done.append("wait"))
    monkeypatch.setattr(clock_module.torch.cuda, "Event", Event)
    monkeypatch.setattr(clock_module, "keep_gpu_busy", lambda cycles: done.append(f"busy {cycles}"))
    clock = CudaClock()
    clock.begin()
    assert clock.between(clock.mark(), clock.mark()) == 0.25
    clock.finish()
    assert done == ["wait", "busy 1500000000", "record", "record", "wait"]
    assert clock.own_s == 0.0
    assert isinstance(calibrated_clock("cuda"), CudaClock)


def test_a_calibrated_clock_compares_a_timed_operator_with_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks around every operator, of one second each; plainly, two around ten."""
    clock = CpuClock()
    ticking = Ticking()
    monkeypatch.setattr(clock, "mark", ticking.mark)
    monkeypatch.setattr(clock, "between", ticking.between)
    monkeypatch.setattr(timing, "CpuClock", lambda threads: clock)
    assert calibrated_clock("cpu", 3) is clock
    assert clock.own_s == pytest.approx(1.0 - 0.1)


# -- operators ---------------------------------------------------------------------------------------------------------


def test_every_operator_is_timed_without_what_that_takes() -> None:
    timer = Timer(Ticking(own_s=0.25), named=True)
    with timer:
        x = torch.ones(2, 3)
        y = x @ x.t()
        y.add_(1)
    assert timer.calls == ["aten.ones.default", "aten.t.default", "aten.mm.default", "aten.add_.Tensor"]
    assert timer.marks == [(1, 2), (3, 4), (5, 6), (7, 8)]
    assert timer.seconds() == [0.75] * 4
    assert [event.target for event in timer.events] == timer.calls
    assert "aten.t.default" in timer.views
    assert "aten.mm.default" not in timer.views
    slow = Timer(Ticking(own_s=3.0))
    with slow:
        torch.ones(2)
    assert slow.seconds() == [0.0]
    assert slow.events == []
    assert slow.keys == []


def test_equal_calls_have_equal_keys() -> None:
    timer = Timer(Ticking(), named=True)
    with timer:
        for shape in ((2, 3), (2, 3), (3, 2)):
            torch.ones(shape).mul(2)
        torch.ones(2, 3).mul(3)
        torch.ones(3, 2).t().mul(2)
        torch.ones(2, 3, dtype=torch.float64).mul(2)
    keys = [key for key in timer.keys if key.startswith("aten.mul")]
    assert keys[0] == keys[1]
    assert len(set(keys)) == len(keys) - 1


def test_attention_is_one_operator_each_way() -> None:
    timer = Timer(Ticking(), named=True)
    calls = TimedCalls(timer)
    query = torch.ones(1, 1, 2, 4, requires_grad=True)
    beside = query.detach()
    with timer:
        out = calls.attention(query, beside, beside, None, 0.0, is_causal=True)
    assert len(timer.calls) == 1
    assert torch.equal(out, torch.ones(1, 1, 2, 4))
    with timer:
        out.sum().backward()
    whole = [name for name in timer.calls if "scaled_dot_product" in name]
    assert len(whole) == 2
    assert query.grad.shape == query.shape


def test_peaks_are_of_what_is_held_beyond_the_beginning() -> None:
    """Memory events count while their operator lasts; the largest sum of them is its peak."""

    def at(name: str, start: int, lasts: int = 0, size: int = 0) -> Any:
        return SimpleNamespace(
            name=lambda: name, start_ns=lambda: start, duration_ns=lambda: lasts, nbytes=lambda: size
        )

    events = [
        at("[memory]", 1, size=99),
        at("partita operator 0", 2, 8),
        at("[memory]", 3, size=40),
        at("other", 4, size=1000),
        at("[memory]", 5, size=-30),
        at("[memory]", 6, size=25),
        at("[memory]", 10, size=20),
        at("[memory]", 11, size=500),
        at("partita operator 2", 12, 3),
        at("[memory]", 13, size=-7),
    ]
    assert _peaks(events, 3) == [55, None, 0]


def test_peaks_of_a_run() -> None:
    timer = MemoryTimer(CpuClock())
    with timer.watching(), timer:
        x = torch.ones(256)
        x.neg_()
        x.sin().cos()
    assert timer.calls == ["aten.ones.default", "aten.neg_.default", "aten.sin.default", "aten.cos.default"]
    assert timer.peaks == [1024, 0, 1024, 1024]


# -- messages ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_line_through_exact_times(latency_us: int, gigabytes: int) -> None:
    latency, bandwidth = latency_us * 1e-6, gigabytes * 1e9
    found = fit_line([MessageTime(bytes=size, time_s=latency + size / bandwidth) for size in SIZES])
    assert found == pytest.approx((latency, bandwidth), rel=1e-6)


def test_a_line_counts_relative_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubling all times halves the bandwidth; a second more on all is latency; less than nothing is none."""
    line = [MessageTime(bytes=size, time_s=size / 1e6) for size in (1000, 2000, 4000)]
    slower = [MessageTime(bytes=t.bytes, time_s=2 * t.time_s) for t in line]
    assert fit_line(line) == pytest.approx((0.0, 1e6), abs=1e-9)
    assert fit_line(slower)[1] == pytest.approx(fit_line(line)[1] / 2)
    bent = [MessageTime(bytes=1000, time_s=0.001), MessageTime(bytes=3000, time_s=0.009)]
    assert fit_line(bent)[0] == 0.0
    flat = [MessageTime(bytes=size, time_s=time_s) for size, time_s in ((1000, 4.0), (2000, 3.5), (3000, 2.0))]
    assert fit_line(flat)[1] == pytest.approx(1500.0)
    monkeypatch.setattr(links.np.linalg, "lstsq", lambda *_, **__: (np.array([4.0, 0.0]),))
    assert fit_line(flat) == (4.0, 1500.0)


def test_messages_of_a_gpu_are_over_before_the_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("barrier", "send", "recv"):
        monkeypatch.setattr(links.dist, name, lambda *data: done.extend(str(each.device) for each in data[:1]))
    monkeypatch.setattr(links.torch.cuda, "synchronize", lambda: done.append("wait"))
    time_messages(0, "meta")
    assert set(done) == {"meta", "wait"}
    assert done.count("meta") == 2 * done.count("wait")
    done.clear()
    time_messages(0)
    assert set(done) == {"cpu"}


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_messages_go_there_and_back(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """Each takes one second more than the one before; the first two are to warm up."""
    done: list[tuple[str, int, int]] = []
    barriers = []
    monkeypatch.setattr(links.dist, "barrier", lambda: barriers.append(len(done)))
    monkeypatch.setattr(links.dist, "send", lambda data, to: done.append(("send", to, data.numel() * 4)))
    monkeypatch.setattr(links.dist, "recv", lambda data, source: done.append(("recv", source, data.numel() * 4)))
    ticks = itertools.chain.from_iterable((5.0, 5.0 + 2.0 * (n + 1)) for n in itertools.count())
    monkeypatch.setattr(links, "time", SimpleNamespace(perf_counter=ticks.__next__))
    found = time_messages(rank)
    assert SIZES == (1024, 16384, 131072, 524288, 2097152, 8388608)
    assert len(barriers) == 2 * len(SIZES)
    if rank == 2:
        assert (found, done) == ([], [])
        return
    first = ("send", 1) if rank == 0 else ("recv", 0)
    second = ("recv", 1) if rank == 0 else ("send", 0)
    # 32 MiB of each size, but no more than 40 messages and no fewer than 8.
    counts = [max(8, min(40, (1 << 25) // size)) for size in SIZES]
    wanted = [(*turn, size) for size, count in zip(SIZES, counts, strict=True) for turn in (first, second) * count]
    assert done == wanted
    assert [transfer.bytes for transfer in found] == (list(SIZES) if rank == 0 else [])
    begun = 0
    for transfer, count in zip(found, counts, strict=False):
        assert transfer.time_s == pytest.approx(begun + (3 + count) / 2)
        begun += count


# -- steps -------------------------------------------------------------------------------------------------------------


def counted(training: bool, **chosen: Any) -> tuple[Any, Ticking, list[str]]:
    """A linear layer, seen by a ticking clock."""
    clock, turns = Ticking(), []

    @contextmanager
    def alone() -> Any:
        turns.append("alone")
        yield

    module = torch.nn.Linear(4, 2)
    module.train(not training)
    step = TimedStep(module, (torch.ones(3, 4),), {}, training)
    assert gc.isenabled()
    found = observe(step, clock, warm_up=chosen.get("warm_up", 1), repeats=chosen.get("repeats", 3), alone=alone)
    assert gc.isenabled()
    assert module.training == training
    return found, clock, turns


@pytest.mark.parametrize("training", [False, True])
def test_passes_are_counted_one_by_one(training: bool) -> None:
    found, clock, turns = counted(training)
    # Plainly a second each for forward and backward; all operators a second.
    assert found.forward_s == [1.0] * 3
    assert found.backward_s == [1.0] * 3
    assert found.times == [[1.0] * len(found.events)] * 3
    size = 4 * (4 * 2 + 2)
    assert found.update_s_per_byte == [1 / size] * 3 * training
    forward = [event.target for event in found.events[: found.first_backward]]
    assert forward[:2] == ["aten.t.default", "aten.addmm.default"]
    assert (found.first_backward < len(found.events)) == training
    assert len(turns) == 1 + 3 * (3 if training else 2)
    assert len(clock.asked) == 2 * (1 + 1 + 3 * (3 if training else 2))
    assert clock.asked[:2] == ["begin", "finish"]


def test_there_is_a_pass_to_warm_up_in_any_case() -> None:
    assert len(counted(False, warm_up=0, repeats=1)[1].asked) == 2 * (1 + 1 + 2)
    assert len(counted(False, warm_up=3, repeats=1)[1].asked) == 2 * (3 + 1 + 2)


def test_an_update_changes_nothing_and_gradients_are_summed() -> None:
    module = torch.nn.Linear(4, 2)
    before = module.weight.detach().clone()
    observe(TimedStep(module, (torch.ones(3, 4),), {}, True), Ticking(), warm_up=1, repeats=2, alone=nullcontext)
    assert torch.equal(module.weight, before)
    once = torch.autograd.grad(module(torch.ones(3, 4)).sum(), module.weight)[0]
    passes = module.weight.grad / once
    assert torch.allclose(passes, passes[0, 0].expand_as(passes))


def test_errors_of_a_model_are_told_as_such() -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no such thing")

    with pytest.raises(TraceError, match="running the model fails: ValueError: no such thing"):
        observe(TimedStep(Failing(), (torch.ones(1),), {}, False), Ticking(), warm_up=1, repeats=1, alone=nullcontext)
    assert gc.isenabled()


def test_every_pass_draws_the_same() -> None:
    drawn = []

    class Drawing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.rand(2)
            drawn.append(y.tolist())
            return x + y

    observe(TimedStep(Drawing(), (torch.ones(2),), {}, False), Ticking(), warm_up=2, repeats=2, alone=nullcontext)
    assert len(drawn) == 7
    assert drawn == [drawn[0]] * 7


def seen_of(forward: Any, *, training: bool = False, parameter: Any = None) -> Any:
    """What is seen of a module with this forward part."""

    class Made(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = None if parameter is None else torch.nn.Parameter(parameter)

        def forward(self, x: Any) -> Any:
            return forward(self, x)

    step = TimedStep(Made(), (torch.ones(2),), {}, training)
    return observe(step, Ticking(), warm_up=1, repeats=2, alone=nullcontext)


def test_passes_begin_with_the_same_seeds_and_collect_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[tuple[float, float, bool]] = set()
    collected: list[bool] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(bool(drawn)))

    def forward(module: Any, x: Any) -> Any:
        noise = torch.rand(1)
        drawn.add((random.random(), float(noise), gc.isenabled()))
        return x + noise

    seen_of(forward)
    random.seed(0)
    torch.manual_seed(0)
    assert drawn == {(random.random(), float(torch.rand(1)), False)}
    assert collected == [False]


def test_a_model_that_changes_is_refused() -> None:
    runs = itertools.count()
    with pytest.raises(TraceError, match="the model calls other operators from run to run"):
        seen_of(lambda module, x: x.sin() if next(runs) < 3 else x.cos())


def test_an_update_is_a_step_of_all_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self: steps.append(len(self.param_groups[0]["params"])))
    found = seen_of(lambda module, x: (x * module.own).sum(), training=True, parameter=torch.ones(2))
    assert found.update_s_per_byte == [1 / 8] * 2
    assert steps == [1, 1]
    # A parameter without entries takes no bytes.
    empty = seen_of(lambda module, x: x.sum() * 2 + module.own.sum(), training=True, parameter=torch.ones(0))
    assert empty.update_s_per_byte == [1.0] * 2
