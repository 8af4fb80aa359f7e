"""Calls whose shapes follow from lengths that are values: packing of sequences, the CTC loss.

Lengths that come from the example input or the code are read like any others; lengths from activations stop the trace.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from partita.frontends.capture import Recorder
from partita.frontends.kernels import FusedKernel, run_kernel
from partita.inside.torch_inside import PACK_SEQUENCE, PAD_SEQUENCE


class LengthReaders(TorchFunctionMode):  # type: ignore[misc]
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
