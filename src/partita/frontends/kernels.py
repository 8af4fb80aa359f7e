"""Calls that devices run as one kernel, written down as one call forward and one backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from partita.frontends.capture import Recorder
from partita.frontends.records import RecordedCall


@dataclass(frozen=True)
class FusedKernel:
    """What a kernel makes and costs."""

    name: str  #: The target of its call without the overload; that of its backward ends in ``_backward``.
    #: Allocates, of the tensors that it is handed, its results and after them what it saves for its backward alone.
    make: Callable[..., list[Any]]
    results: int = 1  #: How many of these it returns.
    #: Of the forward; of the backward, by which of the tensors need a gradient.
    flops: int = 0
    backward_flops: Callable[[Sequence[bool]], int] = lambda _: 0
    causal: bool = False  #: Whether it is attention that skips what comes later.
    #: Whether its backward reads the first and the last of what is made, and zeros for gradients that are not there.
    saves: bool = True
    reached: tuple[bool, ...] = ()  #: Of every tensor, whether a gradient reaches it; empty for all.
    #: Kernels launched, and bytes read and written, where it runs as several; none where it is one.
    steps: tuple[int, int, int] | None = None
    backward_steps: tuple[int, int, int] | None = None


def run_kernel(recorder: Recorder, kernel: FusedKernel, *tensors: Any) -> tuple[Any, ...]:
    """Write down a call with tensors, None for those left out, and return stand-ins of its results."""
    return _Differentiable.apply(recorder, kernel, *tensors)  # type: ignore[no-any-return]


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, kernel: FusedKernel, *tensors: Any) -> Any:
        with recorder.aside():
            made = kernel.make(*tensors)
        given = [tensor for tensor in tensors if tensor is not None]
        ctx.call = recorder.emit(f"{kernel.name}.default", given, made, kernel.flops, causal=kernel.causal)
        _run_as(ctx.call, kernel.steps)
        ctx.recorder, ctx.kernel, ctx.count = recorder, kernel, len(tensors)
        ctx.set_materialize_grads(kernel.saves)
        ctx.save_for_backward(*tensors, *((made[0], made[-1]) if kernel.saves else ()))
        return tuple(made[: kernel.results])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        recorder, kernel, needs = ctx.recorder, ctx.kernel, ctx.needs_input_grad[2:]
        # Asking for them may run a part of the forward again: once.
        saved = ctx.saved_tensors
        reached = kernel.reached or (True,) * ctx.count
        with recorder.aside():
            found = [
                torch.empty_like(tensor) if need and reach and tensor is not None else None
                for tensor, need, reach in zip(saved[: ctx.count], needs, reached, strict=True)
            ]
        read = [tensor for tensor in (*grads, *saved) if tensor is not None]
        made = [tensor for tensor in found if tensor is not None]
        target, flops = f"{kernel.name}_backward.default", kernel.backward_flops(needs)
        call = recorder.emit(target, read, made, flops, causal=kernel.causal, partner=ctx.call)
        _run_as(call, kernel.backward_steps)
        return (None, None, *found)


def _run_as(call: RecordedCall, steps: tuple[int, int, int] | None) -> None:
    if steps is not None:
        launches, call.bytes_read, call.bytes_written = steps
        call.launches = max(1, launches)
