"""Keep attention and dropout whole.

On fake CPU tensors, dropout or a learned bias makes attention fall apart into products and a softmax over the full
score matrix, which a GPU would never store. Both calls are caught before autograd sees them: attention is written down
as one forward and one backward call that saves the query, key, value, mask, result and log-sum-exp, as every fused
kernel does; dropout becomes ``native_dropout``, whose mask is a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from partita.frontends.capture import Recorder
from partita.frontends.flops import attention_flops
from partita.frontends.kernels import FusedKernel, run_kernel
from partita.inside.replacing import replaced
from partita.inside.torch_inside import HigherOrderOperator

#: As it is outside of a trace, whatever stands in its place then.
_KERNEL = functional.scaled_dot_product_attention

_NAME = "aten.scaled_dot_product_attention"
ATTENTION, ATTENTION_BACKWARD = f"{_NAME}.default", f"{_NAME}_backward.default"


class FusedCalls(TorchFunctionMode):  # type: ignore[misc]
    """Catches attention and dropout on the way to a :class:`Recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        """What stands for a call of attention."""
        return _attention(self.recorder, *args, **kwargs)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self.attention(*args, **kwargs)
        if getattr(func, "__name__", "") == "flex_attention" and isinstance(func, HigherOrderOperator):
            return _flexible_attention(self.recorder, *args, **kwargs)
        if func is functional.dropout or func is torch.dropout:
            return _dropout(func, *args, **kwargs)
        if func is functional.multi_head_attention_forward:
            # A Python function that itself uses attention and dropout; this mode is off while it handles a call.
            own = (functional, "scaled_dot_product_attention", self.attention)
            with replaced(own, (functional, "dropout", partial(_dropout, functional.dropout))):
                return func(*args, **kwargs)
        return func(*args, **kwargs)


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


def _dropout(
    func: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, *, train: bool | None = None
) -> Any:
    active = training if train is None else train
    if not active or p == 0 or inplace:
        return func(input, p, active, inplace) if func is functional.dropout else func(input, p, active)
    return torch.native_dropout(input, p, True)[0]


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
    out = _KERNEL(*args, **kwargs)
    if out.dim() < 4 or out.transpose(-3, -2).is_contiguous():
        return out
    return out.transpose(-3, -2).contiguous().transpose(-3, -2)
