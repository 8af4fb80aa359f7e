"""Keep recurrent layers whole.

On the CPU, GRUs and plain RNNs fall apart into a few operators for every step of the sequence; other devices run a
layer as one kernel. Each layer and direction is written down as one forward and one backward call, which saves the
result and the gates, as such kernels do.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from partita.frontends.capture import Recorder

#: Number of gates of the recurrences that the CPU unrolls.
_GATES = {"gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class Recurrences(TorchFunctionMode):  # type: ignore[misc]
    """Catches recurrent layers on the way to a :class:`Recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = getattr(func, "__name__", "")
        # With packed sequences the second argument is the sizes and the third the state.
        plain = kind in _GATES and len(args) == 9 and not kwargs and not isinstance(args[2], torch.Tensor)
        if not plain:
            return func(*args, **(kwargs or {}))
        with self:
            return _layers(self.recorder, kind, *args)


def _layers(
    recorder: Recorder,
    kind: str,
    source: Any,
    state: Any,
    weights: Any,
    biases: bool,
    count: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, Any]:
    """All layers of a recurrence: the results of the last one, and the last states of all."""
    directions, each = 1 + bidirectional, 4 if biases else 2
    last = []
    x = source.transpose(0, 1) if batch_first else source
    for layer in range(count):
        results = []
        for direction in range(directions):
            number = layer * directions + direction
            mine = weights[each * number : each * (number + 1)]
            initial = state[number]
            result, final = _Layer.apply(recorder, kind, x, initial, *mine)
            if recorder.tape is not None and not recorder.backward:
                args = kind, bool(direction), training, x, initial, *mine
                recorder.tape.note(run_layer, args, {}, (result, final), recorder.capture.calls[-1].index)
            results.append(result)
            last.append(final)
        x = results[0] if directions == 1 else torch.cat(results, dim=-1)
        if dropout and training and layer < count - 1:
            x = torch.native_dropout(x, dropout, True)[0]
    return x.transpose(0, 1) if batch_first else x, torch.stack(last)


def run_layer(kind: str, backwards: bool, training: bool, x: Any, state: Any, *weights: Any) -> tuple[Any, Any]:
    """One layer and direction of a recurrence on real tensors: its result, and the last state."""
    x = x.flip(0) if backwards else x
    call = getattr(torch, kind)
    result, final = call(x, state[None], weights, len(weights) == 4, 1, 0.0, training, False, False)
    return result.flip(0) if backwards else result, final[0]


def _products(x: Any, weights: Any) -> tuple[int, int]:
    """FLOPs of the products with either weight matrix: a step of a sample multiplies by both once."""
    steps = 2 * math.prod(x.shape[:-1])
    return steps * int(weights[0].numel()), steps * int(weights[1].numel())


class _Layer(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, kind: str, x: Any, state: Any, *weights: Any) -> Any:
        recorder.paused = True
        result = x.new_empty((*x.shape[:-1], state.shape[-1]))
        final = torch.empty_like(state)
        gates = x.new_empty((*x.shape[:-1], _GATES[kind] * state.shape[-1]))
        recorder.paused = False
        ctx.recorder, ctx.kind = recorder, kind
        inputs, flops = [x, state, *weights], sum(_products(x, weights))
        ctx.call = recorder.emit(f"partita.{kind}.default", inputs, [result, final, gates], flops, causal=False)
        ctx.save_for_backward(x, state, result, gates, *weights)
        return result, final

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        recorder = ctx.recorder
        x, state, result, gates, *weights = ctx.saved_tensors
        recorder.paused = True
        found = [
            torch.empty_like(t) if need else None
            for t, need in zip((x, state, *weights), ctx.needs_input_grad[2:], strict=True)
        ]
        recorder.paused = False
        inputs = [t for t in (*grads, x, state, result, gates, *weights) if t is not None]
        # A product each for the gradients of both weights, of the source, and of every state that needs one.
        own, recurrent = _products(x, weights)
        needs_source, needs_state = ctx.needs_input_grad[2:4]
        first = 0 if needs_state else recurrent // x.shape[0]
        flops = own * (1 + needs_source) + 2 * recurrent - first
        made = [t for t in found if t is not None]
        recorder.emit(f"partita.{ctx.kind}_backward.default", inputs, made, flops, causal=False, partner=ctx.call)
        return (None, None, *found)
