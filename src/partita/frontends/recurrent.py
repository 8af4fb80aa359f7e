"""Keep recurrent layers and the CTC loss whole, on padded and on packed sequences.

On the CPU, GRUs and plain RNNs fall apart into a few operators for every step of the sequence; other devices run a
layer as one kernel. Each layer and direction is written down as one forward and one backward call, which saves the
result and the gates, as such kernels do. On packed sequences it multiplies the rows that are there, not the padding.
Lengths that come from the example input or the code are read like any others; lengths from activations stop the trace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from partita.frontends.capture import Recorder
from partita.frontends.fused import FusedKernel, run_kernel
from partita.inside.torch_inside import PACK_SEQUENCE, PAD_SEQUENCE

#: Recurrences; the CPU has a kernel of the first for padded sequences.
_KINDS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


class Recurrences(TorchFunctionMode):  # type: ignore[misc]
    """Catches recurrent layers, packing and the CTC loss on the way to a :class:`Recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if kind == PACK_SEQUENCE:
            return _pack(*args, **kwargs)
        if kind == PAD_SEQUENCE:
            return _pad(*args, **kwargs)
        if kind == "ctc_loss":
            return _ctc_loss(self.recorder, *args, **kwargs)
        if kind in _KINDS and len(args) == 9 and not kwargs:
            if isinstance(args[3], (list, tuple)):
                x, _, state, weights, _, *settings = args
                if self.recorder.tape is not None:
                    raise NotImplementedError(
                        "recurrent layers on packed sequences are planned, but cannot be run from a trace"
                    )
                states = (state,) if isinstance(state, torch.Tensor) else tuple(state)
                return self._layers(kind, x, states, weights, *settings)
            if kind != "lstm":
                x, state, weights, _, *settings, batch_first = args
                x, last = self._layers(kind, x.transpose(0, 1) if batch_first else x, (state,), weights, *settings)
                return x.transpose(0, 1) if batch_first else x, last
        return func(*args, **kwargs)

    def _layers(
        self,
        kind: str,
        x: Any,
        states: tuple[Any, ...],
        weights: Any,
        count: int,
        dropout: float,
        training: bool,
        bidirectional: bool,
    ) -> tuple[Any, ...]:
        """All layers of a recurrence: the results of the last one, and the last states of all."""
        directions = 1 + bidirectional
        each = len(weights) // (count * directions)
        last: list[list[Any]] = [[] for _ in states]
        for layer in range(count):
            results = []
            for direction in range(directions):
                number = layer * directions + direction
                mine = weights[each * number : each * (number + 1)]
                own = [state[number] for state in states]
                result, *finals = run_kernel(self.recorder, _layer(kind, x, own, mine), x, *own, *mine)
                args = kind, bool(direction), training, x, *own, *mine
                self.recorder.again(run_layer, args, {}, (result, *finals))
                results.append(result)
                for row, final in zip(last, finals, strict=True):
                    row.append(final)
            x = results[0] if directions == 1 else torch.cat(results, dim=-1)
            if dropout and training and layer < count - 1:
                x = torch.native_dropout(x, dropout, True)[0]
        return x, *(torch.stack(row) for row in last)


def run_layer(kind: str, backwards: bool, training: bool, x: Any, state: Any, *weights: Any) -> tuple[Any, Any]:
    """One layer and direction of a recurrence on real tensors: its result, and the last state."""
    x = x.flip(0) if backwards else x
    call = getattr(torch, kind)
    result, final = call(x, state[None], weights, len(weights) == 4, 1, 0.0, training, False, False)
    return result.flip(0) if backwards else result, final[0]


def _layer(kind: str, x: Any, states: Sequence[Any], weights: Sequence[Any]) -> FusedKernel:
    """One layer and direction: its result and last states, and the gates beside them."""
    first = states[0]
    rows = math.prod(x.shape[:-1])
    # A row multiplies by both weight matrices once, and by that of a projection if there is one.
    own, *others = (2 * rows * int(weight.numel()) for weight in weights if weight.dim() == 2)
    recurrent = sum(others)

    def make(x: Any, *more: Any) -> list[Any]:
        result = x.new_empty((*x.shape[:-1], first.shape[-1]))
        finals = [torch.empty_like(state) for state in more[: len(states)]]
        return [result, *finals, x.new_empty((*x.shape[:-1], more[len(states)].shape[0]))]

    def backward_flops(needs: Sequence[bool]) -> int:
        # A product each for the gradients of the weights, of the source, and of every state that needs one.
        unneeded = 0 if needs[1] else recurrent * first.shape[0] // rows
        return int(own * (1 + needs[0]) + 2 * recurrent - unneeded)

    return FusedKernel(f"partita.{kind}", make, 1 + len(states), own + recurrent, backward_flops)


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

    def make(scores: Any, _: Any) -> list[Any]:
        steps, samples = scores.shape[:2]
        # Between every two symbols, before and after them there may be a blank.
        return [scores.new_empty((samples,)), scores.new_empty((samples, steps, 2 * max(known) + 1))]

    (loss,) = run_kernel(recorder, FusedKernel("aten._ctc_loss", make), batch, targets)
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction in ("mean", 1):
        return (loss / torch.tensor(known, dtype=loss.dtype).clamp(min=1)).mean()
    if reduction in ("sum", 2):
        return loss.sum()
    return loss if scores.dim() == 3 else loss[0]
