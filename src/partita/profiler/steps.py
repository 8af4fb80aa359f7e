"""Passes over a module: plain ones for the time of the whole, instrumented ones for that of every operator."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from partita.frontends.options import one_line
from partita.frontends.records import DispatchedCall
from partita.frontends.run import loss_of
from partita.ground.errors import TraceError
from partita.profiler.clock import Clock
from partita.profiler.timing import MemoryTimer, Timer, instruments


@dataclass(frozen=True)
class TimedStep:
    """A module with its arguments, forward only or forward and backward."""

    module: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    training: bool


@dataclass
class Observed:
    """What one process saw."""

    #: Every dispatched operator in order, and what makes it identical to others.
    events: list[DispatchedCall]
    keys: list[str]
    first_backward: int  #: Place of the first one of the backward pass.
    views: set[str]  #: Which operators only make another view of what they read.
    peaks: list[int | None]  #: Most bytes that each operator held.
    times: list[list[float]] = field(default_factory=list)  #: For every pass the seconds of every operator.
    #: Seconds of the plain passes.
    forward_s: list[float] = field(default_factory=list)
    backward_s: list[float] = field(default_factory=list)
    #: Seconds of plain SGD steps for each byte of parameters.
    update_s_per_byte: list[float] = field(default_factory=list)


def observe(
    step: TimedStep, clock: Clock, *, warm_up: int, repeats: int, alone: Callable[[], AbstractContextManager[None]]
) -> Observed:
    """Run a step often, plainly and with every operator timed; gradients are summed, as those of microbatches are.

    So many plain passes are thrown away to ``warm_up``, and passes of each kind count as ``repeats`` says. ``alone``
    makes the other processes wait for a pass: a stage works beside others, but not at the same operators.

    Raises ``TraceError`` if the module cannot be run, or does not call the same operators every time.
    """
    module = step.module
    if module.training != step.training:
        module.train(step.training)
    try:
        with _undisturbed():
            for _ in range(max(1, warm_up)):
                _run(step, clock)
            seen = MemoryTimer(clock)
            with alone(), seen.watching():
                marks = _run(step, clock, seen)
            found = Observed(seen.events, seen.keys, marks[3], seen.views, seen.peaks)
            for _ in range(repeats):
                with alone():
                    start, middle, end, _ = _run(step, clock)
                found.forward_s.append(clock.between(start, middle))
                found.backward_s.append(clock.between(middle, end))
                timer = Timer(clock)
                with alone():
                    _run(step, clock, timer)
                if timer.calls != seen.calls:
                    raise TraceError("the model calls other operators from run to run; it cannot be profiled")
                found.times.append(timer.seconds())
                if step.training:
                    with alone():
                        found.update_s_per_byte.append(_update(module, clock))
    except TraceError:
        raise
    except Exception as error:  # a model's own code
        raise TraceError(f"running the model fails: {one_line(error)}") from error
    return found


def _run(step: TimedStep, clock: Clock, timer: Timer | None = None) -> tuple[Any, Any, Any, int]:
    """One pass: marks before, between and behind forward and backward, and the number of operators forward."""
    random.seed(0)
    torch.manual_seed(0)
    clock.begin()
    with nullcontext() if timer is None else instruments(timer):
        start = clock.mark()
        with torch.set_grad_enabled(step.training):
            out = step.module(*step.args, **step.kwargs)
            loss = loss_of(out)[0] if step.training else None
        middle = clock.mark()
        forward = 0 if timer is None else len(timer.marks)
        if loss is not None:
            loss.backward()
        # What a pass holds is let go within it, as it is in the next pass of a real run.
        del out, loss
        end = clock.mark()
    clock.finish()
    return start, middle, end, forward


def _update(module: Any, clock: Clock) -> float:
    """Seconds for each byte of parameters that a step of SGD takes; with a rate of 0, so that nothing changes."""
    parameters = [p for p in module.parameters() if p.grad is not None]
    optimizer = torch.optim.SGD(parameters, lr=0.0)
    clock.begin()
    start = clock.mark()
    optimizer.step()
    end = clock.mark()
    clock.finish()
    size = sum(int(p.numel() * p.element_size()) for p in parameters)
    return clock.between(start, end) / max(1, size)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Within, garbage is collected by count alone."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
