"""Calls whose shapes follow from lengths that are values: packed sequences, recurrent layers on them, the CTC loss.

Lengths that come from the example input or the code are read like any others; lengths from activations stop the trace.
A recurrent layer on packed sequences is one call for each layer and direction, forward and backward, as on padded ones;
it multiplies the rows that are there, not the padding.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from partita.frontends.capture import Recorder
from partita.inside.torch_inside import PACK_SEQUENCE, PAD_SEQUENCE

#: Number of gates of recurrences.
_GATES = {"gru": 3, "lstm": 4, "rnn_tanh": 1, "rnn_relu": 1}


class Lengths(TorchFunctionMode):  # type: ignore[misc]
    """Catches calls that ask for lengths on the way to a :class:`Recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == PACK_SEQUENCE:
            return _pack(*args, **kwargs)
        if name == PAD_SEQUENCE:
            return _pad(*args, **kwargs)
        # On padded sequences the third argument is the weights, here the state.
        if name in _GATES and len(args) == 9 and isinstance(args[1], torch.Tensor) and not isinstance(args[2], bool):
            packed = isinstance(args[2], torch.Tensor) or (name == "lstm" and len(args[2]) == 2)
            if packed and isinstance(args[3], (list, tuple)):
                return _layers(self.recorder, name, *args)
        if name == "ctc_loss":
            return _ctc_loss(self.recorder, *args, **kwargs)
        return func(*args, **kwargs)


def _rows(counts: list[int], steps: int, samples: int, batch_first: bool) -> Any:
    """Where in a padded array the rows of a packed one are: of every step, those of the samples that are as long."""
    places = (
        sample * steps + step if batch_first else step * samples + sample
        for step, count in enumerate(counts)
        for sample in range(count)
    )
    return torch.tensor(list(places))


def _pack(source: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
    longest_first = lengths.tolist()
    samples, steps = source.shape[:2] if batch_first else (source.shape[1], source.shape[0])
    if len(longest_first) != samples or max(longest_first) > steps:
        raise RuntimeError(f"lengths {longest_first} do not go with {samples} samples of {steps} steps")
    counts = [sum(length > step for length in longest_first) for step in range(max(longest_first))]
    rows = _rows(counts, steps, samples, batch_first)
    return source.reshape(samples * steps, *source.shape[2:]).index_select(0, rows), torch.tensor(counts)


def _pad(data: Any, sizes: Any, batch_first: bool, padding: float, total: int) -> tuple[Any, Any]:
    counts = sizes.tolist()
    steps, samples = (total if total > 0 else len(counts)), counts[0]
    lead = (samples, steps) if batch_first else (steps, samples)
    empty = data.new_full((samples * steps, *data.shape[1:]), padding)
    padded = empty.index_copy(0, _rows(counts, steps, samples, batch_first), data)
    lengths = [sum(count > sample for count in counts) for sample in range(samples)]
    return padded.reshape(*lead, *data.shape[1:]), torch.tensor(lengths)


def _layers(
    recorder: Recorder,
    kind: str,
    x: Any,
    sizes: Any,
    state: Any,
    weights: Any,
    biases: bool,
    count: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
) -> tuple[Any, ...]:
    """All layers of a recurrence on the rows of packed sequences: the results of the last one, and the last states."""
    if recorder.tape is not None:
        raise NotImplementedError("recurrent layers on packed sequences are planned, but cannot be run from a trace")
    directions = 1 + bidirectional
    each = len(weights) // (count * directions)
    states = (state,) if isinstance(state, torch.Tensor) else tuple(state)
    last: list[list[Any]] = [[] for _ in states]
    for layer in range(count):
        results = []
        for number in range(layer * directions, (layer + 1) * directions):
            mine = weights[each * number : each * (number + 1)]
            result, *finals = _Layer.apply(recorder, kind, len(states), x, *(s[number] for s in states), *mine)
            results.append(result)
            for row, final in zip(last, finals, strict=True):
                row.append(final)
        x = results[0] if directions == 1 else torch.cat(results, dim=-1)
        if dropout and training and layer < count - 1:
            x = torch.native_dropout(x, dropout, True)[0]
    return x, *(torch.stack(row) for row in last)


def _products(x: Any, weights: Any) -> tuple[int, int]:
    """FLOPs of the product of the source with its weights, and of those of the states."""
    rows = 2 * math.prod(x.shape[:-1])
    own, *others = (int(weight.numel()) for weight in weights if weight.dim() == 2)
    return rows * own, rows * sum(others)


class _Layer(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, kind: str, count: int, x: Any, *more: Any) -> Any:
        states, weights = more[:count], more[count:]
        recorder.paused = True
        result = x.new_empty((*x.shape[:-1], states[0].shape[-1]))
        finals = [torch.empty_like(state) for state in states]
        gates = x.new_empty((*x.shape[:-1], weights[0].shape[0]))
        recorder.paused = False
        ctx.recorder, ctx.kind, ctx.count = recorder, kind, count
        inputs, made = [x, *states, *weights], [result, *finals, gates]
        flops = sum(_products(x, weights))
        ctx.call = recorder.emit(f"partita.{kind}.default", inputs, made, flops, causal=False)
        ctx.save_for_backward(x, result, gates, *states, *weights)
        return result, *finals

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        recorder = ctx.recorder
        x, result, gates, *more = ctx.saved_tensors
        states, weights = more[: ctx.count], more[ctx.count :]
        recorder.paused = True
        found = [
            torch.empty_like(t) if need else None
            for t, need in zip((x, *states, *weights), ctx.needs_input_grad[3:], strict=True)
        ]
        recorder.paused = False
        own, recurrent = _products(x, weights)
        needs_source, needs_state = ctx.needs_input_grad[3:5]
        # A product each for the gradients of the weights, of the source, and of every state that needs one.
        first = 0 if needs_state else recurrent * states[0].shape[0] // x.shape[0]
        flops = own * (1 + needs_source) + 2 * recurrent - first
        inputs = [t for t in (*grads, x, result, gates, *more) if t is not None]
        made = [t for t in found if t is not None]
        recorder.emit(f"partita.{ctx.kind}_backward.default", inputs, made, flops, causal=False, partner=ctx.call)
        return (None, None, None, *found)


def _ctc_loss(
    recorder: Recorder,
    scores: Any,
    targets: Any,
    lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = "mean",
    zero_infinity: bool = False,
) -> Any:
    """The loss as one call, forward and backward; how far its table goes is the longest target."""
    if recorder.tape is not None:
        raise NotImplementedError("the CTC loss is planned, but cannot be run from a trace")
    known = target_lengths.tolist() if isinstance(target_lengths, torch.Tensor) else target_lengths
    known = [known] if isinstance(known, int) else list(known)
    batch = scores if scores.dim() == 3 else scores[:, None]
    if len(known) != batch.shape[1]:
        raise RuntimeError(f"{len(known)} lengths of targets do not go with {batch.shape[1]} samples")
    loss = _Ctc.apply(recorder, batch, targets, max(known))
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction in ("mean", 1):
        return (loss / torch.tensor(known, dtype=loss.dtype).clamp(min=1)).mean()
    if reduction in ("sum", 2):
        return loss.sum()
    return loss if scores.dim() == 3 else loss[0]


class _Ctc(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, scores: Any, targets: Any, longest: int) -> Any:
        steps, samples = scores.shape[:2]
        recorder.paused = True
        loss = scores.new_empty((samples,))
        # Between every two symbols, before and after them there may be a blank.
        table = scores.new_empty((samples, steps, 2 * longest + 1))
        recorder.paused = False
        ctx.recorder = recorder
        ctx.call = recorder.emit("aten._ctc_loss.default", [scores, targets], [loss, table], 0, causal=False)
        ctx.save_for_backward(scores, targets, loss, table)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        recorder = ctx.recorder
        scores, *others = ctx.saved_tensors
        recorder.paused = True
        found = torch.empty_like(scores)
        recorder.paused = False
        inputs = [grad, scores, *others]
        recorder.emit("aten._ctc_loss_backward.default", inputs, [found], 0, causal=False, partner=ctx.call)
        return None, found, None, None
