"""Calls that devices run as one kernel, written down as one call forward and one backward: attention and dropout.

On fake CPU tensors, dropout or a learned bias makes attention fall apart into products and a softmax over the full
score matrix, which a GPU would never store. Both calls are caught before autograd sees them: attention is written down
as one forward and one backward call that saves the query, key, value, mask, result and log-sum-exp, as every fused
kernel does; dropout becomes ``native_dropout``, whose mask is a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from partita.frontends.capture import Recorder
from partita.frontends.flops import attention_flops
from partita.frontends.records import RecordedCall
from partita.inside.replacing import replaced
from partita.inside.torch_inside import HigherOrderOperator

#: As it is outside of a trace, whatever stands in its place then.
KERNEL = functional.scaled_dot_product_attention

_NAME = "aten.scaled_dot_product_attention"
ATTENTION, ATTENTION_BACKWARD = f"{_NAME}.default", f"{_NAME}_backward.default"


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


class WholeCalls(TorchFunctionMode):  # type: ignore[misc]
    """Catches attention and dropout whole, before autograd sees what they are made of."""

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        """What stands for a call of attention."""
        return KERNEL(*args, **kwargs)

    def dropped(self, input: Any, p: float) -> Any:
        """What stands for a call of dropout that drops something."""
        return torch.native_dropout(input, p, True)[0]

    def _dropout(
        self,
        func: Any,
        input: Any,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
        *,
        train: bool | None = None,
    ) -> Any:
        active = training if train is None else train
        if not active or p == 0 or inplace:
            return func(input, p, active, inplace) if func is functional.dropout else func(input, p, active)
        return self.dropped(input, p)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        if func is functional.dropout or func is torch.dropout:
            return self._dropout(func, *args, **kwargs)
        if func is functional.multi_head_attention_forward:
            # A Python function that itself uses attention and dropout; this mode is off while it handles a call.
            own = (functional, "scaled_dot_product_attention", self.attention)
            with replaced(own, (functional, "dropout", partial(self._dropout, functional.dropout))):
                return func(*args, **kwargs)
        return func(*args, **kwargs)


class FusedCalls(WholeCalls):
    """The same on the way to a :class:`Recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        return _attention(self.recorder, *args, **kwargs)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "flex_attention" and isinstance(func, HigherOrderOperator):
            return _flexible_attention(self.recorder, *args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


def _flexible_attention(
    recorder: Recorder, query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, *rest: Any, **details: Any
) -> tuple[Any, Any, Any]:
    """The result with the log-sum-exp and the largest scores; all blocks are counted, whatever the mask leaves out."""
    if recorder.tape is not None:
        raise NotImplementedError("flexible attention is planned, but cannot be run from its trace")
    out = _attention(recorder, query, key, value)
    with recorder.aside():
        stats = query.new_empty(query.shape[:-1], dtype=torch.float32)
    return out, stats, stats


def _attention(
    recorder: Recorder,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = f"{list(query.shape)}, {list(key.shape)}, {list(value.shape)}"
        raise RuntimeError(f"attention of query, key and value shaped {shapes} is not defined")

    def make(*tensors: Any) -> list[Any]:
        # Kernels write (…, sequence, head, feature), so that joining the heads is a view.
        lead, heads = query.shape[:-3], query.shape[-3:-2]
        out = query.new_empty((*lead, query.shape[-2], *heads, value.shape[-1]))
        stats = query.new_empty(query.shape[:-1], dtype=torch.float32)
        return [out.transpose(-3, -2) if heads else out, stats]

    def backward_flops(needs: Sequence[bool]) -> int:
        # dV needs one product, dQ and dK one each, and all but dV the gradient of the scores. Recomputing the scores,
        # as fused kernels do, is not counted: it is not part of the arithmetic that was asked for.
        return values * (bool(needs[2]) + bool(needs[0] or needs[1] or needs[3])) + scores * (needs[0] + needs[1])

    scores, values = attention_flops(query.shape, key.shape, value.shape)
    kernel = FusedKernel(_NAME, make, 1, scores + values, backward_flops, is_causal)
    (out,) = run_kernel(recorder, kernel, query, key, value, attn_mask)
    args = query, key, value, attn_mask, dropout_p, is_causal
    recorder.again(run_attention, args, {"scale": scale, "enable_gqa": enable_gqa}, out, random=dropout_p > 0)
    return out


def run_attention(*args: Any, **kwargs: Any) -> Any:
    """Attention on real tensors, its result in the layout that the trace gives it."""
    out = KERNEL(*args, **kwargs)
    if out.dim() < 4 or out.transpose(-3, -2).is_contiguous():
        return out
    return out.transpose(-3, -2).contiguous().transpose(-3, -2)
