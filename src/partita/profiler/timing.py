"""Time every operator of a module while it runs on real data, with gradients if wanted.

Operators are met in the place where the model calls them, so caches, the allocator and the layout of what they read are
those of the real run. Attention is one operator here as it is in graphs, whatever kernels it becomes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from partita.frontends.capture import event_of
from partita.frontends.fused import ATTENTION, ATTENTION_BACKWARD, FusedCalls
from partita.frontends.records import DispatchedCall
from partita.inside.torch_inside import DispatchMode, composite, returns_view, tree_flatten, without_modes
from partita.profiler.clock import Clock, CpuClock, CudaClock


class Timer(DispatchMode):
    """Times what is dispatched while it is active; with ``named`` it writes down what that is, too."""

    def __init__(self, clock: Clock, *, named: bool = False) -> None:
        super().__init__()
        self.clock = clock
        self.named = named
        self.marks: list[tuple[Any, Any]] = []
        self.calls: list[str] = []
        self.events: list[DispatchedCall] = []
        self.keys: list[str] = []
        self.views: set[str] = {"aten._unsafe_view.default"}
        self._composite: dict[Any, bool] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        recipe = self._composite.get(func)
        if recipe is None:
            recipe = self._composite[func] = composite(func)
            if returns_view(func):
                self.views.add(str(func))
        if recipe:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func.namespace in ("prim", "profiler"):
            return func(*args, **kwargs)
        return self.timed(str(func), (args, kwargs), lambda: func(*args, **kwargs))

    def timed(self, name: str, arguments: Any, run: Callable[[], Any]) -> Any:
        """What ``run`` returns, timed."""
        start = self.clock.mark()
        result = run()
        self.marks.append((start, self.clock.mark()))
        self.calls.append(name)
        if self.named:
            self.events.append(event_of(name, arguments))
            self.keys.append(f"{name} {_described(arguments)}")
        return result

    def seconds(self) -> list[float]:
        """The time of every operator, without what timing it took."""
        return [max(0.0, self.clock.between(*pair) - self.clock.own_s) for pair in self.marks]


def _described(arguments: Any) -> str:
    """What makes two calls of one operator identical: plain values, and shape, layout and format of tensors."""
    leaves, structure = tree_flatten(arguments)
    shown = [
        f"{tuple(leaf.shape)}{leaf.stride()}{leaf.dtype}" if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in leaves
    ]
    return f"{structure} {' '.join(shown)}"


class TimedCalls(FusedCalls):
    """Attention and dropout as the graphs have them, but run."""

    def __init__(self, timer: Timer) -> None:
        super().__init__(timer)
        self.timer = timer

    def attention(self, query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **details: Any) -> Any:
        """Run the real kernels as one timed operator, and backward as another."""

        def run(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            return functional.scaled_dot_product_attention(query, key, value, mask, *rest, **details)

        masks = () if attn_mask is None else (attn_mask,)
        return _Whole.apply(self.timer, run, query, key, value, *masks)


class _Whole(torch.autograd.Function):  # type: ignore[misc]
    """A differentiable call that is one operator forward and one backward."""

    @staticmethod
    def forward(ctx: Any, timer: Timer, run: Callable[..., Any], *tensors: Any) -> Any:
        ctx.timer = timer
        with without_modes():
            ctx.inputs = [
                t.detach().requires_grad_(need) for t, need in zip(tensors, ctx.needs_input_grad[2:], strict=True)
            ]

        def call() -> Any:
            with without_modes(), torch.set_grad_enabled(any(ctx.needs_input_grad)):
                return run(*ctx.inputs)

        ctx.out = timer.timed(ATTENTION, tensors, call)
        with without_modes():
            return ctx.out.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        wanted = [t for t in ctx.inputs if t.requires_grad]

        def call() -> Any:
            with without_modes():
                return torch.autograd.grad(ctx.out, wanted, grad)

        found = iter(ctx.timer.timed(ATTENTION_BACKWARD, (grad, ctx.inputs), call))
        grads = [next(found) if t.requires_grad else None for t in ctx.inputs]
        del ctx.out, ctx.inputs
        return (None, None, *grads)


class MemoryTimer(Timer):
    """Writes down how much memory each operator holds at its peak, instead of times that mean anything."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, named=True)
        self.peaks: list[int | None] = []
        self._cuda = torch.cuda.is_available() and not isinstance(clock, CpuClock)

    def timed(self, name: str, arguments: Any, run: Callable[[], Any]) -> Any:
        """As for other timers, beside what the allocator says."""
        if not self._cuda:
            with torch.profiler.record_function(f"{_MARK}{len(self.marks)}"):
                return super().timed(name, arguments, run)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = super().timed(name, arguments, run)
        torch.cuda.synchronize()
        self.peaks.append(torch.cuda.max_memory_allocated() - before)
        return result

    @contextmanager
    def watching(self) -> Any:
        """Within, allocations are seen; afterwards ``peaks`` are known."""
        if self._cuda:
            yield
            return
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
            yield
        found = sorted(seen.profiler.kineto_results.events(), key=lambda event: event.start_ns())
        self.peaks = _peaks(found, len(self.marks))


_MARK = "partita operator "


def _peaks(events: list[Any], count: int) -> list[int | None]:
    """Most bytes held beyond those at the beginning, by operator, from a profiler's events in the order of time."""
    peaks: list[int | None] = [None] * count
    current, ends, held = -1, 0, 0
    for event in events:
        name = event.name()
        if name.startswith(_MARK):
            current, ends, held = int(name.removeprefix(_MARK)), event.start_ns() + event.duration_ns(), 0
            peaks[current] = 0
        elif name == "[memory]" and current >= 0 and event.start_ns() <= ends:
            held += event.nbytes()
            peaks[current] = max(peaks[current] or 0, held)
    return peaks


def calibrated_clock(device: str, threads: int = 1) -> Clock:
    """The clock of a device, which on a CPU knows what its own work takes."""
    if device != "cpu":
        return CudaClock()
    clock = CpuClock(threads)
    small = torch.zeros(1)
    timed: list[float] = []
    plain: list[float] = []
    for _ in range(5):
        with Timer(clock) as timer:
            for _ in range(200):
                small.add_(1)
        timed += timer.seconds()
        for _ in range(20):
            start = clock.mark()
            for _ in range(10):
                small.add_(1)
            plain.append(clock.between(start, clock.mark()) / 10)
    clock.calibrate(timed, plain)
    return clock


@contextmanager
def instruments(timer: Timer) -> Any:
    """Within, what runs is timed."""
    with timer, TimedCalls(timer):
        yield
