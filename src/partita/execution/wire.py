"""Tensors between processes: posted ahead, sent without waiting, one message a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from partita.execution.program import WIDENED
from partita.frontends.tape import Slot


class TensorLayout:
    """How a tensor looks at both ends of a message."""

    def __init__(self, slot: Slot) -> None:
        self.shape, self.count = slot.shape, slot.numel
        self.dtype = WIDENED.get(slot.dtype, slot.dtype)
        self.stride = slot.stride if _dense(slot.shape, slot.stride) else _contiguous(slot.shape)

    def room(self) -> tuple[Any, Any]:
        """A tensor to receive, and its bytes in a row."""
        flat = torch.empty(self.count, dtype=self.dtype)
        return flat.as_strided(self.shape, self.stride), flat.view(torch.uint8)

    def bytes_of(self, tensor: Any) -> Any:
        """The bytes of a tensor in a row, in the order in which ``room`` takes them."""
        tensor = tensor.detach()
        if tensor.stride() != self.stride:
            tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype).copy_(tensor)
        return tensor.as_strided((self.count,), (1,)).view(torch.uint8)


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    stride, size = [], 1
    for side in reversed(shape):
        stride.append(size)
        size *= max(side, 1)
    return tuple(reversed(stride))


def _dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements fill a row of memory, each place once."""
    size = 1
    for step, side in sorted((step, side) for step, side in zip(stride, shape, strict=True) if side > 1):
        if step != size:
            return False
        size *= side
    return True


class Wire:
    """The messages of one process."""

    def __init__(self) -> None:
        self.coming: dict[int, tuple[Any, Any]] = {}
        self.going: list[tuple[Any, Any, int]] = []

    def post(self, tag: int, source: int, form: TensorLayout) -> None:
        """Make room for a message."""
        tensor, flat = form.room()
        self.coming[tag] = tensor, dist.irecv(flat, source, tag=tag) if form.count else None

    def take(self, tag: int) -> Any:
        """The tensor of a message that was posted, once it is there."""
        tensor, work = self.coming.pop(tag)
        if work is not None:
            work.wait()
        return tensor

    def send(self, tag: int, target: int, form: TensorLayout, tensor: Any, group: int) -> None:
        """Send a tensor; ``release`` with the group's number waits for it."""
        if form.count:
            flat = form.bytes_of(tensor)
            self.going.append((dist.isend(flat, target, tag=tag), flat, group))

    def release(self, group: int | None = None) -> None:
        """Wait until messages of a group, or all, have arrived, and let go of their tensors."""
        rest = []
        for entry in self.going:
            if group is None or entry[2] == group:
                entry[0].wait()
            else:
                rest.append(entry)
        self.going = rest
